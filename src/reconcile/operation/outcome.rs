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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_failed_ends_its_step_and_leaves_the_attempts_that_are_left() {
        let until = Timestamp::from_second(1_800_000_000).unwrap();
        assert!(matches!(Step::from(Verdict::Wait { until }), Step::Wait { until: then } if then == until));
        let verdict = Verdict::Failed { reason: "HealthFailed", message: "crashed".to_owned() };
        let Step::Failed { reason, message, undo } = Step::from(verdict) else { panic!("it goes on") };
        assert_eq!((reason, &*message, undo), ("HealthFailed", "crashed", false));
    }
}
