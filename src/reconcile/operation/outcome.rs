//! How a step of an operation came out.

use jiff::Timestamp;

use crate::reconcile::health::verdict::Verdict;

/// How a step, or all of them, came out.
pub(in crate::reconcile) enum Step {
    Done,
    Wait {
        until: Timestamp,
    },
    Failed {
        reason: &'static str,
        message: String,
        /// The operation is to be undone without further attempts.
        undo: bool,
    },
}

impl From<Verdict> for Step {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Wait { until } => Self::Wait { until },
            Verdict::Failed { reason, message } => Self::Failed { reason, message, undo: false },
        }
    }
}
