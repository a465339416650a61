//! What a release leaves behind when it goes.

use std::collections::BTreeSet;

use crate::api::{HistoryStorage, Settings, reasons};
use crate::manifest::ObjectId;
use crate::reconcile::operation::{Departing, Orphaned};
use crate::release::{Private, Shipped};
use crate::storage::Head;

/// So many objects are named; of the others only the number is told.
const NAMED: usize = 10;

impl Departing<'_> {
    /// Says by an Event, and so in the log, how a release goes and what stays of it. Every way in which its finalizer goes
    /// leads through here.
    pub(in crate::reconcile) fn tell_remaining(
        &self,
        warning: bool,
        reason: &str,
        what: &str,
        stays: Vec<ObjectId>,
        more: &str,
    ) {
        let note = match named(&stays) {
            Some(named) => format!("{what}; what stays: {named}{more}"),
            None => format!("{what}{more}"),
        };
        self.scope().ctx.report.event(self.scope().release, warning, reason, "Uninstall", note);
    }

    /// Says by an Event which revision records an uninstall leaves where they are.
    pub(in crate::reconcile) fn tell_which_records_stay(&self, stays: Vec<String>) {
        if stays.is_empty() {
            return;
        }
        let Settings { history_storage, history_namespace, .. } = &self.scope().settings;
        let kind = match history_storage {
            HistoryStorage::Secret => "Secret",
            HistoryStorage::ConfigMap => "ConfigMap",
            HistoryStorage::File => "file",
        };
        let id = |name| ObjectId {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: Some(history_namespace.clone()),
            name,
        };
        let what = "only the revision records that are sealed for this release are deleted with it";
        self.tell_remaining(true, reasons::ORPHANED, what, stays.into_iter().map(id).collect(), "");
    }

    /// The definitions that an uninstall leaves where they are.
    pub(in crate::reconcile) async fn kept_definitions(&self, shipped: &[Shipped]) -> Vec<ObjectId> {
        let mut kept = Vec::new();
        for one in shipped.iter().filter(|one| one.written && !one.deleted) {
            let id = ObjectId::definition(&one.name);
            // Only what is known to be gone is not named.
            if !matches!(self.scope().cluster.metadata("apiextensions.k8s.io/v1", &id).await, Ok(None)) {
                kept.push(id);
            }
        }
        kept
    }
}

impl Orphaned<'_> {
    /// [`Departing::tell_remaining`] of a release that touches nothing when it goes, unless nothing stays. Nothing of this may hold
    /// the release back: what cannot be read is told as such.
    pub(in crate::reconcile) async fn tell_what_stays(&mut self) {
        let nothing_left = {
            let table = self.records.scope.ctx.objects.table();
            !table.tracked(self.records.scope.key).is_empty() && table.all_gone(self.records.scope.key)
        };
        if self.departing().past_objects() || nothing_left {
            return;
        }
        let (ids, whole) = match self.records.memory.head.as_ref().map(|(head, _)| head) {
            Some(Head::Ours(stored)) => (inventory(stored.private.as_ref()), true),
            Some(Head::Foreign(_) | Head::Unreadable(_)) => match self.records.past_records().await {
                Ok(past) => (inventory(past.private.as_ref()), false),
                Err(error) => {
                    tracing::debug!(release = %self.records.scope.key, %error, "what stays of the release cannot be read");
                    (Vec::new(), false)
                }
            },
            None | Some(Head::None) if self.records.newest().known_revision() == 0 => return,
            None | Some(Head::None) => (Vec::new(), false),
        };
        let seen =
            || self.records.scope.ctx.objects.table().tracked(self.records.scope.key).into_iter().collect();
        let ids: Vec<ObjectId> = if ids.is_empty() { seen() } else { ids };
        let more = if whole { "" } else { "; which others of it there are is not known" };
        let what = "the release is gone; its objects and records stay as they are";
        self.departing().tell_remaining(true, reasons::ORPHANED, what, ids, more);
    }
}

fn inventory(private: Option<&Private>) -> Vec<ObjectId> {
    let entries = private.iter().flat_map(|private| private.inventory.iter().chain(&private.leftovers));
    entries.map(|entry| entry.id.clone()).collect()
}

fn named(ids: &[ObjectId]) -> Option<String> {
    let all: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
    let first: Vec<&str> = all.iter().take(NAMED).map(String::as_str).collect();
    match all.len().saturating_sub(NAMED) {
        _ if first.is_empty() => None,
        0 => Some(first.join(", ")),
        more => Some(format!("{} and {more} more", first.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_by_name_are_named_and_the_others_counted() {
        let id = |name: String| ObjectId { kind: "ConfigMap".to_owned(), name, ..ObjectId::default() };
        assert_eq!(named(&[]), None);
        let two = vec![id("b".to_owned()), id("a".to_owned()), id("b".to_owned())];
        assert_eq!(named(&two).unwrap(), "ConfigMap a, ConfigMap b");
        let many: Vec<ObjectId> = (0..14).rev().map(|n| id(format!("m{n:02}"))).collect();
        let many = named(&many).unwrap();
        assert!(many.starts_with("ConfigMap m00, ") && many.ends_with("ConfigMap m09 and 4 more"), "{many}");
    }
}
