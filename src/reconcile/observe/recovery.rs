//! A revision that failed because objects were not healthy in time, and whose objects get healthy after all.
//!
//! The retries may be spent and the next slow one an hour away; the objects that the revision failed for wake the
//! release, and once the last of them is healthy the next attempt is due at once.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::api::reasons;
use crate::manifest::Object;
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::health::Waits;
use crate::reconcile::health::verdict::bearable;
use crate::reconcile::health::wait::LOOK_AGAIN;
use crate::reconcile::objects::Objects;
use crate::reconcile::records::Records;
use crate::reconcile::records::failures::failure;
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::state::Ailing;
use crate::reconcile::state::Waiting;
use crate::reconcile::state::redact::Secrets;
use crate::release::State;
use crate::storage::Head;

/// Sees whether what failed has healed.
pub(in crate::reconcile) struct Recovery<'a> {
    pub records: Records<'a>,
    /// What the newest revision failed for.
    pub ailing: &'a mut Option<Ailing>,
    pub secrets: &'a Secrets,
}

impl Recovery<'_> {
    fn health(&self) -> Waits<'_> {
        Waits { scope: self.records.scope, secrets: self.secrets }
    }

    /// Whether everything that the newest revision failed for is healthy by now, or what is to happen to fields that
    /// cannot change is another wish than the one with which it failed for them.
    pub(in crate::reconcile) async fn healed(&mut self) -> Result<bool, Error> {
        if self.other_wish() {
            return Ok(true);
        }
        let Some(revision) = self.failed_for_health() else {
            *self.ailing = None;
            return Ok(false);
        };
        let known = self.ailing.take().filter(|ailing| ailing.revision == revision);
        let mut ailing = match known {
            Some(ailing) => ailing,
            None => self.ailing_after_restart(revision).await?,
        };
        let due = ailing.looked_at.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        let too_early = ailing.looked_at < self.records.scope.now && self.records.scope.now < due;
        ailing.look_at = too_early.then_some(due);
        if !too_early {
            ailing.looked_at = self.records.scope.now;
            if let Err(error) = self.health().look_again(&mut ailing.waiting).await {
                // What the revision failed for is the better thing to say.
                tracing::debug!(release = %self.records.scope.key, error = self.secrets.shown(&error), "cannot see whether a failed revision has healed");
            }
            self.health().wake_on(&ailing.waiting);
        }
        let healed = bearable(&ailing.waiting);
        *self.ailing = Some(ailing);
        Ok(healed)
    }

    /// The next attempt has the wish of now, so that this holds once.
    fn other_wish(&self) -> bool {
        let Some((head @ Head::Ours(stored), _)) = &self.records.memory.head else { return false };
        let Some(private) = &stored.private else { return false };
        let failed = matches!(stored.record.state, State::Failed { .. }) || private.undone.is_some();
        failed
            && failure(head).0 == reasons::IMMUTABLE_FIELD
            && private.immutable_fields != self.records.scope.settings.immutable_fields
    }

    /// The newest revision if it is ours, failed, and would not have if its objects had become healthy.
    fn failed_for_health(&self) -> Option<u32> {
        let Some((Head::Ours(stored), _)) = &self.records.memory.head else { return None };
        let State::Failed { reason, .. } = &stored.record.state else { return None };
        let code = reason.split_once(':').map_or(reason.as_str(), |(code, _)| code);
        [reasons::HEALTH_FAILED, reasons::HEALTH_TIMEOUT].contains(&code).then_some(stored.record.version)
    }

    /// A process that did not see it fail looks at every object of the revision, once.
    async fn ailing_after_restart(&mut self, revision: u32) -> Result<Ailing, Error> {
        let stored = self.records.read_head_whole().await?;
        let inventory = stored.private.as_ref().map(|private| private.inventory.clone()).unwrap_or_default();
        Objects { scope: self.records.scope }.watch(&inventory).await?;
        let unseen = |object: &Object| Waiting {
            pods_at: Timestamp::MAX,
            // Another Job of its name is not the one that failed.
            uid: inventory
                .iter()
                .find(|entry| entry.id == object.id && plan::is_job(&entry.id))
                .and_then(|entry| entry.uid.clone()),
            ..Waiting::unseen(&object.api_version, "", self.records.scope.now)
        };
        let objects = objects_in(&stored).await?;
        let waiting: BTreeMap<_, _> =
            objects.into_iter().map(|object| (object.id.clone(), unseen(&object))).collect();
        Ok(Ailing { revision, waiting, looked_at: self.records.scope.now, look_at: None })
    }
}
