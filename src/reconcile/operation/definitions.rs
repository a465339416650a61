//! The CustomResourceDefinitions of an operation: applied before all else, awaited until discovery tells of what they define, and
//! deleted last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{duration, reasons};
use crate::cluster;
use crate::crd::policy::Fate;
use crate::manifest::{Defined, InventoryEntry, Object, ObjectId};
use crate::reconcile::Error;
use crate::reconcile::health::verdict::bearable;
use crate::reconcile::health::verdict::describe;
use crate::reconcile::health::wait::LOOK_AGAIN;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::operation::uninstall::leaves;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::release::Shipped;

/// Where a definition names its webhook.
const CONVERSION: &str = "/spec/conversion";

impl Operate<'_> {
    /// Applies definitions: without the webhook of a new one, or with `conversion` with it.
    pub(in crate::reconcile) async fn define_step(
        &mut self,
        running: &mut Running,
        definitions: &[usize],
        conversion: bool,
    ) -> Result<Step, Error> {
        let mut held_back: Vec<ObjectId> = Vec::new();
        let objects: Vec<&Object> = definitions.iter().map(|index| &running.parts.objects[*index]).collect();
        let shipped = running.stored.private.as_ref().map(|private| &private.definitions[..]);
        if !conversion {
            self.crds().mark_adopted(shipped.unwrap_or_default(), &objects).await?;
        }
        if let Some(private) = running.stored.private.as_mut()
            && !conversion
        {
            for entry in &mut private.inventory {
                if running.parts.webhooks_later.contains(&entry.id) {
                    entry.handed_over.push(CONVERSION.to_owned());
                    held_back.push(entry.id.clone());
                }
            }
        }
        if conversion {
            // What was applied without is applied again.
            for index in definitions {
                running.applied.remove(&running.parts.objects[*index].id);
            }
        }
        let result = self.apply_rounds(running, &[definitions.to_vec()]).await;
        if let Some(private) = running.stored.private.as_mut() {
            for entry in private.inventory.iter_mut().filter(|entry| held_back.contains(&entry.id)) {
                entry.handed_over.retain(|pointer| pointer != CONVERSION);
            }
        }
        result
    }

    /// Waits until what was applied is established, and discovery tells of it.
    pub(in crate::reconcile) async fn served_step(
        &mut self,
        running: &mut Running,
        definitions: &[usize],
    ) -> Result<Step, Error> {
        let shipped = running.stored.private.iter().flat_map(|private| &private.definitions);
        let waits: BTreeMap<&str, u64> =
            shipped.filter_map(|shipped| Some((&*shipped.name, shipped.wait?))).collect();
        let Some(longest) = waits.values().max().copied() else { return Ok(Step::Done) };
        let objects: Vec<Object> = definitions
            .iter()
            .map(|index| &running.parts.objects[*index])
            .filter(|object| waits.contains_key(&*object.id.name))
            .cloned()
            .collect();
        if !matches!(running.stage, Stage::Wait { .. }) {
            let waiting: BTreeMap<ObjectId, Waiting> = {
                let refs: Vec<&Object> = objects.iter().collect();
                let revision = running.stored.record.version;
                let mut waiting = self.health().unhealthy(&refs, &running.applied, revision);
                for object in objects.iter().filter(|object| !running.applied.contains_key(&object.id)) {
                    let unseen =
                        Waiting::unseen(&object.api_version, "has not been looked at yet", self.scope.now);
                    waiting.insert(object.id.clone(), unseen);
                }
                waiting
            };
            self.health().wake_on(&waiting);
            let deadline = self.scope.later(Duration::from_secs(longest));
            running.stage =
                Stage::Wait { waiting, looked_at: Timestamp::MIN, deadline, jobs: BTreeSet::new() };
        }
        let Stage::Wait { waiting, looked_at, deadline, .. } = &mut running.stage else {
            return Ok(Step::Done);
        };
        let deadline = running.deadline.min(*deadline);
        let due = looked_at.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MIN);
        if !waiting.is_empty() {
            if self.scope.now < due {
                return Ok(Step::Wait { until: due });
            }
            *looked_at = self.scope.now;
            self.health().look_again(waiting).await?;
        }
        if !bearable(waiting) {
            if self.scope.now >= deadline {
                let first = waiting.iter().next().map(|(id, one)| describe(id, one)).unwrap_or_default();
                return Ok(not_ready(&first, longest));
            }
            let until = deadline.min(self.scope.later(crate::reconcile::health::verdict::LOOK_ANYWAY));
            return Ok(Step::Wait { until });
        }
        if let Some(missing) = self.not_served(&objects).await? {
            if self.scope.now >= deadline {
                return Ok(not_ready(&format!("discovery does not tell of {missing}"), longest));
            }
            return Ok(Step::Wait { until: self.scope.later(LOOK_AGAIN) });
        }
        self.health().wake_on(&BTreeMap::new());
        Ok(Step::Done)
    }

    /// Deletes definitions, after a last look at what would go along.
    pub(in crate::reconcile) async fn undefine_step(
        &mut self,
        running: &mut Running,
        entries: &[InventoryEntry],
    ) -> Result<Step, Error> {
        if self.deletion.going_of(leaves(running)).is_none() {
            let mut blocked = Vec::new();
            let shipped = running.stored.private.iter().flat_map(|private| &private.definitions);
            let leaving = |shipped: &&Shipped| entries.iter().any(|entry| entry.id.name == shipped.name);
            for one in shipped.filter(leaving) {
                if let Fate::Blocked(why) = self.crds().fate_of(one, true).await {
                    blocked.push(why);
                }
            }
            if !blocked.is_empty() {
                return Err(Error::CrdDeletionBlocked { blocked });
            }
        }
        self.delete_step(running, entries).await
    }

    /// The first kind that is defined and not served yet.
    async fn not_served(&self, objects: &[Object]) -> Result<Option<String>, Error> {
        for defined in objects.iter().filter_map(|object| Defined::of(&object.body)) {
            for version in &defined.versions {
                let api_version = format!("{}/{version}", defined.group);
                // What was believed absent a moment ago may be there now.
                self.scope.cluster.doubt_absence(&api_version, &defined.kind);
                match self.scope.cluster.kind(&api_version, &defined.kind).await {
                    Ok(_) => {}
                    Err(cluster::Error::UnknownKind { .. }) => {
                        return Ok(Some(format!("{api_version} {}", defined.kind)));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(None)
    }
}

fn not_ready(what: &str, seconds: u64) -> Step {
    let within = duration::format(Duration::from_secs(seconds));
    Step::Failed {
        reason: reasons::CRD_NOT_READY,
        message: format!("not served within {within}: {what}"),
        undo: false,
    }
}
