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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::{InventoryEntry, Object, ObjectId};
    use crate::plan::{Parts, Plan, Step};
    use crate::release::Shipped;
    use crate::storage::samples;

    const WIDGETS: &str = "widgets.example.com";

    fn object(kind: &str, name: &str, annotations: Value) -> Object {
        let metadata = json!({"name": name, "namespace": "apps", "annotations": annotations});
        Object::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap()
    }

    /// A ConfigMap, and a hook for each moment.
    fn parts() -> Parts {
        let phases = ["pre-install", "pre-upgrade", "pre-rollback", "pre-delete", "post-delete", "test"];
        let hooks = phases.map(|phase| object("Pod", phase, json!({"sherpack.io/hook": phase})));
        plan::split(hooks.into_iter().chain([object("ConfigMap", "a", json!({}))]).collect()).unwrap()
    }

    fn told(plan: &Plan) -> String {
        let entries = |entries: &[InventoryEntry]| {
            entries.iter().map(|entry| entry.id.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let word = |step: &Step| match step {
            Step::Hook { phase, .. } => phase.to_string(),
            Step::Define { .. } => "define".to_owned(),
            Step::AwaitServed { .. } => "await".to_owned(),
            Step::Apply { .. } => "apply".to_owned(),
            Step::Wait { .. } => "wait".to_owned(),
            Step::Delete { entries: gone, .. } => format!("delete {}", entries(gone)),
            Step::Undefine { entries: gone } => format!("undefine {}", entries(gone)),
        };
        plan.steps.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    fn stored(state: State, private: Option<Private>) -> Stored {
        let mut record = samples::record(3);
        record.state = state;
        Stored::sample(record, private)
    }

    fn made_by(action: Action) -> Private {
        Private { action, ..samples::private(3) }
    }

    fn at() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn failed() -> State {
        State::Failed { reason: "HookFailed: x".to_owned(), recoverable: true, failed_at: at() }
    }

    #[test]
    fn the_action_of_a_revision_decides_which_hooks_stand_round_its_objects() {
        let pending = || State::PendingUpgrade { started_at: at(), timeout: 300, previous_version: 2 };
        let (install, upgrade) = ("pre-install, apply, wait", "pre-upgrade, apply, wait");
        for (state, private, steps) in [
            (pending(), Some(made_by(Action::Install)), install),
            (pending(), Some(made_by(Action::Upgrade)), upgrade),
            (pending(), Some(made_by(Action::Rollback)), "pre-rollback, apply, wait"),
            (failed(), Some(made_by(Action::Upgrade)), upgrade),
            // Another tool's record names no action.
            (pending(), None, install),
            (failed(), None, install),
            (State::PendingUninstall { started_at: at(), timeout: 300 }, None, install),
            // What is deployed has only its tests to run.
            (State::Deployed, Some(made_by(Action::Upgrade)), "test"),
            (State::Deployed, None, "test"),
        ] {
            let stored = stored(state, private);
            assert_eq!(told(&plan_of(&stored, &parts()).unwrap()), steps, "{:?}", stored.record.state);
        }
    }

    #[test]
    fn an_uninstall_deletes_what_the_record_lists_and_runs_hooks_only_for_what_was_deployed() {
        let entry = |id: ObjectId| InventoryEntry { id, ..samples::private(3).inventory.remove(0) };
        let config = |name: &str| object("ConfigMap", name, json!({})).id;
        let shipped = |deleted: bool| -> Vec<Shipped> {
            let one = json!({"name": WIDGETS, "policy": "managed", "written": true, "deleted": deleted});
            vec![serde_json::from_value(one).unwrap()]
        };
        let all = "pre-delete, delete a b old";
        for (last_deployed, definitions, steps) in [
            (Some(2), vec![], format!("{all}, post-delete")),
            (Some(2), shipped(false), format!("{all}, post-delete")),
            (Some(2), shipped(true), format!("{all}, undefine {WIDGETS}, post-delete")),
            (None, vec![], "delete a b old".to_owned()),
            (None, shipped(true), format!("delete a b old, undefine {WIDGETS}")),
        ] {
            let private = Private {
                inventory: vec![entry(config("b")), entry(config("a")), entry(ObjectId::definition(WIDGETS))],
                leftovers: vec![entry(config("old"))],
                last_deployed,
                definitions,
                ..made_by(Action::Uninstall)
            };
            let state = State::PendingUninstall { started_at: at(), timeout: 300 };
            let plan = plan_of(&stored(state, Some(private)), &parts()).unwrap();
            assert_eq!(told(&plan), steps);
        }
    }

    #[test]
    fn only_an_upgrade_and_a_rollback_run_other_hooks_than_an_install() {
        for (action, occasion_of) in [
            (Action::Install, Occasion::Install),
            (Action::Upgrade, Occasion::Upgrade),
            (Action::Rollback, Occasion::Rollback),
            (Action::Uninstall, Occasion::Install),
        ] {
            assert_eq!(occasion(action), occasion_of, "{action:?}");
            assert_eq!(action_of(&stored(State::Deployed, Some(made_by(action)))), action);
        }
        assert_eq!(action_of(&stored(State::Deployed, None)), Action::Install);
    }
}
