//! What the revisions below the newest one say, when the newest one cannot be asked: another tool wrote it, or it is lost.

use futures::TryStreamExt;

use super::{Error, Pass};
use crate::manifest::InventoryEntry;
use crate::release::{Private, State};
use crate::storage::{Head, Records};

/// What a new revision may know of those before it.
#[derive(Default)]
pub(super) struct Past {
    /// The newest record of ours, as far as there is one.
    pub(super) private: Option<Private>,
    /// It is the newest of all, so nothing of it is left to others, and what it left over is ours to prune.
    pub(super) newest: bool,
    /// The newest revision that was deployed and to which nobody can go back.
    pub(super) unreachable: Option<u32>,
}

impl Past {
    /// What the record of ours applied, for reading.
    pub(super) fn inventory(&self) -> Vec<InventoryEntry> {
        let known = self.private.iter().flat_map(|private| &private.inventory);
        if self.newest {
            return known.cloned().collect();
        }
        // Others have worked on these objects since, so they are looked at like any object.
        known.map(|entry| InventoryEntry { uid: None, fingerprint: None, ..entry.clone() }).collect()
    }

    /// What may be pruned: nothing, unless the record of ours is the newest.
    pub(super) fn prunes(&self) -> Option<&Private> {
        self.private.as_ref().filter(|_| self.newest)
    }
}

impl Pass<'_> {
    /// The past of `revision`. Costs nothing when the newest record is ours, else one read of all records.
    pub(super) async fn past(&self, revision: u32, start_over: bool) -> Result<Past, Error> {
        if let Some(private) = self.own_private().filter(|_| !start_over) {
            let (private, unreachable) = (Some(private.clone()), private.unreachable);
            return Ok(Past { private, newest: true, unreachable });
        }
        if matches!(self.mem.head, None | Some((Head::None, _))) && !start_over {
            return Ok(Past::default());
        }
        let mut past = self.past_records().await?;
        if start_over {
            // Whatever was deployed last is lost.
            past.unreachable = past.unreachable.max(revision.checked_sub(1).filter(|before| *before > 0));
        }
        Ok(past)
    }

    /// What the records say that are there.
    pub(super) async fn past_records(&self) -> Result<Past, Error> {
        let (namespace, name) = (&self.settings.target_namespace, &self.settings.release_name);
        let records = self.records();
        let mut history = std::pin::pin!(records.history(namespace, name));
        let mut past = Past::default();
        let mut newest = 0;
        while let Some(head) = history.try_next().await? {
            let (Head::Ours(stored) | Head::Foreign(stored)) = head else { continue };
            let revision = stored.record.version;
            match stored.private.filter(|private| self.owns(&private.owner)) {
                Some(private) => {
                    past.unreachable = past.unreachable.max(private.unreachable);
                    if newest < revision {
                        (newest, past.private) = (revision, Some(private));
                    }
                }
                None if matches!(stored.record.state, State::Deployed | State::Superseded) => {
                    past.unreachable = past.unreachable.max(Some(revision));
                }
                None => {}
            }
        }
        Ok(past)
    }
}
