//! The revisions, as the status lists them.

use super::{Facts, Finished, stored};
use crate::api::{HistoryEntry, LIST_MAX, SherpackReleaseStatus};
use crate::reconcile::records::history::entry;
use crate::release::FAILED_KEPT;
use crate::storage::Head;

/// Adds the revision of an operation that ended.
pub(super) fn finished(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, finished: &Finished) {
    let Finished { action, revision, failure: _, ailing: _, manifest_digest, values_digest } = finished;
    let record = stored(facts.head).map(|stored| &stored.record);
    let Some(record) = record.filter(|record| record.version == *revision) else { return };
    let (values, manifest) = (values_digest.clone(), manifest_digest.clone());
    let entry = entry(record, Some(*action), values, manifest, facts.now);
    add(status, facts, HistoryEntry { hooks: hooks(facts.head), ..entry });
}

/// Adds an entry in the place of an older one of the same revision; newest first.
pub(super) fn add(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, entry: HistoryEntry) {
    let history = &mut status.history;
    if entry.state == "deployed" {
        for older in history.iter_mut().filter(|old| old.state == "deployed") {
            "superseded".clone_into(&mut older.state);
        }
    }
    history.retain(|old| old.revision != entry.revision);
    let place = history.iter().position(|old| old.revision < entry.revision).unwrap_or(history.len());
    history.insert(place, entry);
    history.truncate(facts.history_limit.saturating_add(FAILED_KEPT));
}

/// How the hooks of the newest revision ended, the last ones when there are many.
fn hooks(head: &Head) -> Vec<String> {
    let results: Vec<String> = stored(head)
        .and_then(|stored| stored.private.as_ref())
        .into_iter()
        .flat_map(|private| &private.hooks)
        .map(|result| {
            let outcome = result.failure.as_ref().map_or("Succeeded", |(reason, _)| reason.as_str());
            format!("{} {} {outcome}", result.phase, result.object)
        })
        .collect();
    let surplus = results.len().saturating_sub(LIST_MAX);
    results.into_iter().skip(surplus).collect()
}
