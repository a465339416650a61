//! What a stored revision is about: its action, and the steps of its operation.

use crate::plan::{self, Occasion};
use crate::release::{Action, Private, State};
use crate::storage::Stored;

/// The steps of the operation that a record is about.
pub(in crate::reconcile) fn plan_of(stored: &Stored, parts: &plan::Parts) -> Result<plan::Plan, plan::Error> {
    match (&stored.record.state, private(stored)) {
        (State::Deployed, _) => Ok(plan::tests(&parts.hooks)),
        (State::PendingUninstall { .. }, Some(private)) => plan::deletion(
            parts,
            &private.inventory,
            &private.leftovers,
            &private.definitions.iter().filter(|one| one.deleted).map(|one| &*one.name).collect(),
            private.last_deployed.is_some(),
        ),
        _ => plan::roll_out(parts, occasion(action_of(stored))),
    }
}

pub(in crate::reconcile) fn private(stored: &Stored) -> Option<&Private> {
    stored.private.as_ref()
}

pub(in crate::reconcile) fn action_of(stored: &Stored) -> Action {
    private(stored).map_or(Action::Install, |private| private.action)
}

/// Which hooks belong to an action.
pub(in crate::reconcile) fn occasion(action: Action) -> Occasion {
    match action {
        Action::Install | Action::Uninstall => Occasion::Install,
        Action::Upgrade => Occasion::Upgrade,
        Action::Rollback => Occasion::Rollback,
    }
}
