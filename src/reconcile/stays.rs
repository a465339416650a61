//! What a release leaves behind when it goes.

use super::Pass;
use crate::api::reasons;
use crate::manifest::ObjectId;
use crate::storage::Head;

/// So many objects are named; of the others only the number is told.
const NAMED: usize = 10;

impl Pass<'_> {
    /// Says by an Event and in the log which objects and records stay, if any do. Nothing of this may hold the release
    /// back: what cannot be read is told as such.
    pub(super) async fn tell_what_stays(&self) {
        let nothing_left = {
            let table = self.ctx.objects.table();
            !table.tracked(&self.key).is_empty() && table.all_gone(&self.key)
        };
        if self.past_objects() || nothing_left {
            return;
        }
        let (ids, whole) = match self.mem.head.as_ref().map(|(head, _)| head) {
            Some(Head::Ours(stored)) => (inventory(stored.private.as_ref()), true),
            Some(Head::Foreign(_) | Head::Unreadable(_)) => match self.past_records().await {
                Ok(past) => (inventory(past.private.as_ref()), false),
                Err(error) => {
                    tracing::debug!(release = %self.key, %error, "what stays of the release cannot be read");
                    (Vec::new(), false)
                }
            },
            None | Some(Head::None) if self.known_revision() == 0 => return,
            None | Some(Head::None) => (Vec::new(), false),
        };
        let seen = || self.ctx.objects.table().tracked(&self.key).into_iter().collect();
        let ids: Vec<ObjectId> = if ids.is_empty() { seen() } else { ids };
        let more = if whole { "" } else { "; which others of it there are is not known" };
        let note = match named(&ids) {
            Some(named) => format!("the release is gone; its records stay, and so do {named}{more}"),
            None => format!("the release is gone; its objects and records stay as they are{more}"),
        };
        self.ctx.report.event(self.release, true, reasons::ORPHANED, "Uninstall", note);
    }
}

fn inventory(private: Option<&crate::release::Private>) -> Vec<ObjectId> {
    let entries = private.iter().flat_map(|private| private.inventory.iter().chain(&private.leftovers));
    entries.map(|entry| entry.id.clone()).collect()
}

fn named(ids: &[ObjectId]) -> Option<String> {
    let first: Vec<String> = ids.iter().take(NAMED).map(ToString::to_string).collect();
    match ids.len().saturating_sub(NAMED) {
        _ if first.is_empty() => None,
        0 => Some(first.join(", ")),
        more => Some(format!("{} and {more} more", first.join(", "))),
    }
}
