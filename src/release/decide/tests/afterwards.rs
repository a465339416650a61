//! A model of what operations do.

use super::*;

/// What the world looks like after `operation`, with no other release or tool around. `succeeds`: whether an attempt does.
pub(super) fn afterwards(seen: &Observation, operation: &Operation, succeeds: bool) -> Observation {
    let after = After { seen, succeeds };
    // What just failed is not healthy.
    let mut next = Observation { healed: false, ..seen.clone() };
    match (operation, &seen.head) {
        (Operation::Recover | Operation::Interrupt, head) => next.head = after.broken_off(head),
        (Operation::AwaitHook, Head::Ours(head)) => {
            next.head = Head::Ours(OurHead { hook_running: false, ..head.clone() });
        }
        (Operation::Test, Head::Ours(head)) => {
            next.head = Head::Ours(OurHead { hook_running: false, ..head.clone() });
            next.test = false;
        }
        (Operation::Remove, Head::Ours(head)) => {
            let undone = after.failure(head);
            let state = HeadState::Uninstalled;
            next.head = Head::Ours(OurHead { state, undone: Some(undone), ..head.clone() });
        }
        (Operation::Rollback { revision, target, attempt }, _) => {
            next.head = after.gone_back(*revision, *target, *attempt);
            next.reset_requested = false;
        }
        (Operation::Resume | Operation::Hasten, Head::Ours(head)) => {
            next.head = after.ended(head.clone());
            next.reset_requested = false;
        }
        (Operation::Install { revision, attempt } | Operation::Upgrade { revision, attempt }, _) => {
            next.head = after.attempted(*revision, *attempt, after.last_deployed());
            next.reset_requested = false;
        }
        (Operation::AcceptRecord, _) => {
            let head = head_of(HeadState::Deployed, WANTED, 1);
            next.head = Head::Ours(OurHead { last_deployed: Some(4), ..head });
        }
        (Operation::StartOver, _) => {
            next.head = after.attempted(50, 1, None);
            next.reset_requested = false;
        }
        _ => {}
    }
    next
}

struct After<'o> {
    /// Before the operation.
    seen: &'o Observation,
    succeeds: bool,
}

impl After<'_> {
    fn before(&self) -> Option<&OurHead> {
        match &self.seen.head {
            Head::Ours(head) => Some(head),
            _ => None,
        }
    }

    fn last_deployed(&self) -> Option<u32> {
        self.before().and_then(|head| head.last_deployed)
    }

    fn failures(&self) -> Vec<Failure> {
        self.before().map(|head| head.failures.clone()).unwrap_or_default()
    }

    /// What a record tells of a head that failed.
    fn failure(&self, head: &OurHead) -> Failure {
        Failure {
            inputs: head.inputs.clone(),
            attempt: head.attempt,
            at: self.seen.now,
            spec: head.spec.clone(),
            for_good: head.undo_at_once,
        }
    }

    fn broken_off(&self, head: &Head) -> Head {
        let state = HeadState::Failed { at: self.seen.now };
        match head.clone() {
            Head::Foreign { revision, .. } => Head::Foreign { revision, state },
            Head::Ours(head) => Head::Ours(OurHead { state, ..head }),
            other => other,
        }
    }

    /// An attempt has ended, well or not.
    fn ended(&self, head: OurHead) -> Head {
        let succeeds = self.succeeds;
        let state = if succeeds { HeadState::Deployed } else { HeadState::Failed { at: self.seen.now } };
        let last_deployed = if succeeds { Some(head.revision) } else { head.last_deployed };
        let mut failures = head.failures.clone();
        if succeeds || head.target.is_none() {
            failures.retain(|known| known.inputs != head.inputs);
        }
        if !succeeds && head.target.is_none() {
            failures.push(self.failure(&head));
        }
        Head::Ours(OurHead { state, last_deployed, failures, hook_running: false, ..head })
    }

    fn attempted(&self, revision: u32, attempt: u32, last_deployed: Option<u32>) -> Head {
        self.ended(OurHead {
            revision,
            last_deployed,
            failures: self.failures(),
            ..head_of(HeadState::Deployed, WANTED, attempt)
        })
    }

    fn gone_back(&self, revision: u32, target: u32, attempt: u32) -> Head {
        let undoes = |head: &OurHead| head.undone.clone().unwrap_or_else(|| self.failure(head));
        self.ended(OurHead {
            revision,
            target: Some(target),
            // A pin undoes nothing.
            undone: self.before().filter(|_| self.seen.rollback_to.is_none()).map(undoes),
            last_deployed: self.last_deployed(),
            failures: self.failures(),
            ..head_of(HeadState::Deployed, OTHER, attempt)
        })
    }
}
