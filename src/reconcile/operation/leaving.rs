//! Objects that have to be gone before what a step applies can be what it has to be.
//!
//! Nothing of it is written down: a process that takes over an operation finds the object as it was, on its way out, or gone, and each of
//! these says by itself what comes next.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::cluster;
use crate::manifest::ObjectId;
use crate::reconcile::Error;
use crate::reconcile::health::verdict::LOOK_ANYWAY;
use crate::reconcile::health::wait::LOOK_AGAIN;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;

impl Operate<'_> {
    /// Waits until everything is gone that has to be. `None`: nothing has to be waited for any more.
    pub(in crate::reconcile) async fn await_leaving(
        &mut self,
        running: &mut Running,
    ) -> Result<Option<Step>, Error> {
        let Stage::Leaving { leaving, looked_at } = &mut running.stage else { return Ok(None) };
        let due = looked_at.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        if *looked_at < self.scope.now && self.scope.now < due {
            return Ok(Some(Step::Wait { until: due }));
        }
        *looked_at = self.scope.now;
        let mut gone = BTreeSet::new();
        for (id, waiting) in leaving.iter() {
            let meta = self.scope.cluster.metadata(&waiting.api_version, id).await?;
            // Another object of this name may be there already. It is told from the one before by not leaving.
            if meta.is_none_or(|meta| meta.deletion_timestamp.is_none()) {
                gone.insert(id.clone());
            }
        }
        leaving.retain(|id, _| !gone.contains(id));
        let left: BTreeMap<ObjectId, Waiting> = leaving.clone();
        for entry in running.stored.private.iter_mut().flat_map(|private| &mut private.inventory) {
            if gone.contains(&entry.id) {
                // A create applies the whole object.
                entry.handed_over.clear();
                entry.ignored.clear();
            }
        }
        // Whatever has their names now is judged before it is touched.
        running.absent.extend(gone);
        self.health().wake_on(&left);
        let Some((id, first)) = left.first_key_value() else {
            running.stage = Stage::Begin;
            return Ok(None);
        };
        if self.scope.now >= running.deadline {
            let error = cluster::Error::Terminating { id: id.clone() };
            let message =
                format!("{id} {}, and it did not go in time: see its finalizers", first.health.message);
            return Ok(Some(Step::Failed { reason: error.reason(), message, undo: false }));
        }
        Ok(Some(Step::Wait { until: self.scope.later(LOOK_ANYWAY).min(running.deadline) }))
    }
}

/// Objects that an operation left as they are.
pub(in crate::reconcile) fn skipped(running: &Running) -> BTreeSet<ObjectId> {
    let inventory = running.stored.private.iter().flat_map(|private| &private.inventory);
    inventory.filter(|entry| !entry.skipped.is_empty()).map(|entry| entry.id.clone()).collect()
}
