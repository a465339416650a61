//! What a definition defines can be used: it is established, and discovery tells of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{duration, reasons};
use crate::cluster;
use crate::manifest::{Defined, Object, ObjectId};
use crate::reconcile::health::verdict::bearable;
use crate::reconcile::health::verdict::describe;
use crate::reconcile::health::wait::LOOK_AGAIN;
use crate::reconcile::operation::steps::Step;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::reconcile::{Error, Pass};

impl Pass<'_> {
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
