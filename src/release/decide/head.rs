//! What a record says to a decision.

use std::time::Duration;

use super::{Failure, HeadState, OurHead, RECOVERING_TIMEOUT};
use crate::api::reasons;
use crate::release::{Operation, Private, State, Undone};

impl OurHead {
    /// The newest record of a release, which is its own.
    #[must_use]
    pub fn of(revision: u32, state: &State, private: &Private) -> Self {
        Self {
            revision,
            state: HeadState::of(state),
            inputs: private.inputs.clone(),
            spec: private.spec.clone(),
            attempt: private.attempt,
            last_deployed: private.last_deployed,
            unreachable: private.unreachable,
            earlier_deployed: false,
            target: private.target,
            undone: private.undone.as_ref().map(Failure::of),
            failures: private.failures.iter().map(Failure::of).collect(),
            undo_at_once: private.undo_at_once,
            hook_running: private.operation.as_ref().is_some_and(Operation::hook_running),
        }
    }
}

impl HeadState {
    #[must_use]
    pub fn of(state: &State) -> Self {
        let pending = |started_at: &jiff::Timestamp, timeout: Duration, uninstalling| Self::Pending {
            started_at: *started_at,
            timeout,
            uninstalling,
        };
        let seconds = Duration::from_secs;
        match state {
            State::Deployed => Self::Deployed,
            State::Superseded => Self::Superseded,
            State::Uninstalled => Self::Uninstalled,
            State::Failed { reason, .. } if reason.starts_with(reasons::INTERRUPTED) => Self::Interrupted,
            State::Failed { failed_at, .. } => Self::Failed { at: *failed_at },
            State::PendingInstall { started_at, timeout }
            | State::PendingUpgrade { started_at, timeout, .. }
            | State::PendingRollback { started_at, timeout, .. } => {
                pending(started_at, seconds(*timeout), false)
            }
            State::PendingUninstall { started_at, timeout } => pending(started_at, seconds(*timeout), true),
            State::Recovering { started_at, .. } => pending(started_at, RECOVERING_TIMEOUT, false),
        }
    }
}

impl Failure {
    fn of(failed: &Undone) -> Self {
        let Undone { inputs, attempt, at, reason: _, message: _, spec, revision: _, for_good } = failed;
        let (inputs, spec) = (inputs.clone(), spec.clone());
        Self { inputs, attempt: *attempt, at: *at, spec, for_good: *for_good }
    }
}
