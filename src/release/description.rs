//! What a revision says of itself in a history: its author's words, else what happened.
//!
//! The author's words stand among the labels of the record, which every tool keeps; what happened follows from its
//! state. Pure.

use super::{Action, Record, State};
use crate::api::{conditions, names, reasons};
use crate::manifest::InventoryEntry;

/// What a new record keeps under the label [`names::DESCRIPTION`]: the annotation of that name on its release, else
/// what its state will not tell any more once it is deployed. `target` is the revision that a rollback goes back to.
#[must_use]
pub fn note(annotation: Option<&str>, action: Action, target: Option<u32>) -> Option<String> {
    let written = annotation.map(str::trim).filter(|text| !text.is_empty()).map(conditions::clip);
    written.or_else(|| match (action, target) {
        (Action::Rollback, Some(target)) => Some(format!("Rollback to {target}")),
        _ => None,
    })
}

/// The description of a revision. Without `action` it is guessed from what the record says.
#[must_use]
pub fn describe(record: &Record, action: Option<Action>) -> String {
    let note = record.labels.get(names::DESCRIPTION).filter(|note| !note.is_empty());
    let happened = happened(record, action);
    match (note, &record.state) {
        (None, _) => happened,
        (Some(note), State::Deployed | State::Superseded) => note.clone(),
        (Some(note), _) => format!("{note} ({happened})"),
    }
}

/// Objects that a description names.
const NAMED: usize = 3;

/// Which objects were left as they are, and because of which fields; `None` without any.
#[must_use]
pub fn skipped(inventory: &[InventoryEntry]) -> Option<String> {
    let skipped: Vec<String> = inventory
        .iter()
        .filter(|entry| !entry.skipped.is_empty())
        .map(|entry| format!("{} ({})", entry.id, entry.skipped.join(", ")))
        .collect();
    let more = match skipped.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = skipped.get(..NAMED).unwrap_or(&skipped).join(", ");
    (!named.is_empty())
        .then(|| format!("skipped, because fields cannot change, and not locked: {named}{more}"))
}

fn happened(record: &Record, action: Option<Action>) -> String {
    let action = action.unwrap_or(if record.version == 1 { Action::Install } else { Action::Upgrade });
    let verb = match action {
        Action::Install => "Install",
        Action::Upgrade => "Upgrade",
        Action::Rollback => "Rollback",
        Action::Uninstall => "Uninstall",
    };
    match &record.state {
        State::Deployed | State::Superseded => format!("{verb} complete"),
        // These say by themselves what happened.
        State::Failed { reason, .. }
            if reason.starts_with(reasons::INTERRUPTED) || reason.starts_with("Recovered") =>
        {
            reason.clone()
        }
        State::Failed { reason, .. } => format!("{verb} failed: {reason}"),
        State::Uninstalled => "Uninstall complete".to_owned(),
        State::PendingInstall { .. } => "Install in progress".to_owned(),
        State::PendingUpgrade { .. } => "Upgrade in progress".to_owned(),
        State::PendingRollback { target_version, .. } => format!("Rollback to {target_version} in progress"),
        State::PendingUninstall { .. } => "Uninstall in progress".to_owned(),
        State::Recovering { from_status, .. } => format!("Recovery from {from_status} in progress"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn record(version: u32, state: State, note: Option<&str>) -> Record {
        let mut record: Record = serde_json::from_str(include_str!("golden/record_minimal.json")).unwrap();
        record.version = version;
        record.state = state;
        record.labels =
            note.map(|note| (names::DESCRIPTION.to_owned(), note.to_owned())).into_iter().collect();
        record
    }

    fn failed(reason: &str) -> State {
        State::Failed { reason: reason.to_owned(), recoverable: true, failed_at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn every_state_is_described() {
        let at = Timestamp::UNIX_EPOCH;
        let rollback = State::PendingRollback { started_at: at, timeout: 1, target_version: 3 };
        let upgrade = State::PendingUpgrade { started_at: at, timeout: 1, previous_version: 1 };
        let recovering =
            State::Recovering { from_status: "pending-upgrade".to_owned(), attempt: 1, started_at: at };
        let cases = [
            (1, State::Deployed, None, None, "Install complete"),
            (2, State::Superseded, None, None, "Upgrade complete"),
            (2, State::Superseded, Some(Action::Install), None, "Install complete"),
            (5, State::Deployed, Some(Action::Rollback), None, "Rollback complete"),
            (5, State::Deployed, Some(Action::Rollback), Some("Rollback to 3"), "Rollback to 3"),
            (2, State::Deployed, None, Some("Bump to 2.0"), "Bump to 2.0"),
            (2, failed("HealthTimeout: slow"), None, None, "Upgrade failed: HealthTimeout: slow"),
            (2, failed("Interrupted: other inputs"), None, None, "Interrupted: other inputs"),
            (2, failed("Recovered: late"), None, None, "Recovered: late"),
            (2, failed("A: b"), None, Some("Bump"), "Bump (Upgrade failed: A: b)"),
            (3, State::Uninstalled, None, None, "Uninstall complete"),
            (3, State::PendingInstall { started_at: at, timeout: 1 }, None, None, "Install in progress"),
            (3, State::PendingUninstall { started_at: at, timeout: 1 }, None, None, "Uninstall in progress"),
            (3, upgrade, None, Some("Bump"), "Bump (Upgrade in progress)"),
            (4, rollback, None, None, "Rollback to 3 in progress"),
            (4, recovering, None, None, "Recovery from pending-upgrade in progress"),
        ];
        for (version, state, action, note, expected) in cases {
            let record = record(version, state, note);
            assert_eq!(describe(&record, action), expected, "{:?}", record.state);
        }
    }

    #[test]
    fn what_was_skipped_is_named_with_its_fields_and_the_list_is_bounded() {
        let entry = |name: &str, fields: &[&str]| -> InventoryEntry {
            serde_json::from_value(serde_json::json!({
                "id": {"kind": "Service", "namespace": "apps", "name": name}, "apiVersion": "v1",
                "digest": "", "changedIn": 1, "skipped": fields,
            }))
            .unwrap()
        };
        assert_eq!(skipped(&[entry("a", &[])]), None);
        let some: Vec<InventoryEntry> =
            ["a", "b", "c", "d", "e"].iter().map(|name| entry(name, &["spec.x", "roleRef"])).collect();
        let one = "skipped, because fields cannot change, and not locked: Service apps/a (spec.x, roleRef)";
        assert_eq!(skipped(&some[..1]).as_deref(), Some(one));
        assert!(skipped(&some).unwrap().ends_with("Service apps/c (spec.x, roleRef) and 2 more"));
    }

    #[test]
    fn the_author_has_the_first_word_and_a_rollback_says_where_to() {
        let long = "x".repeat(3000);
        assert_eq!(note(Some(" Bump "), Action::Upgrade, None).as_deref(), Some("Bump"));
        assert_eq!(note(Some("Back"), Action::Rollback, Some(3)).as_deref(), Some("Back"));
        assert_eq!(note(Some("  "), Action::Rollback, Some(3)).as_deref(), Some("Rollback to 3"));
        assert_eq!(note(None, Action::Upgrade, None), None);
        assert!(note(Some(&long), Action::Upgrade, None).unwrap().len() <= conditions::MESSAGE_MAX);
    }
}
