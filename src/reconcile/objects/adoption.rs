//! Objects that were there before their release: what it changes of them is kept, and goes back with them.
//!
//! That an object was adopted stands in the record before the first apply of it, and so does the digest of what is kept:
//! that is in a Secret of its own, which is made before the record names it and never changes. An apply names the version
//! of the object that was kept, so that nothing is lost which others write in between.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::api::{Class, IgnoreRule, names, reasons};
use crate::cluster::{self, Applied, Mode};
use crate::manifest::adoption::{Adopted, Before};
use crate::manifest::{InventoryEntry, Object, ObjectId, digest_of};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::reconcile::objects::{Objects, Rollout};
use crate::reconcile::records::sweep::kept_secret;
use crate::storage::Stored;

/// Most bytes that are kept of one object.
const KEPT_MAX: usize = 64 * 1024;

impl Objects<'_> {
    /// What an apply of the object changes, beside what this line of revisions has changed already.
    async fn before_of(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        uid: &str,
        live: &Applied,
    ) -> Result<Before, Error> {
        let body = plan::apply_body(object, entry, self.marks(uid));
        // Without our mark and without a uid in the record nothing of ours ever reached it.
        let touched = entry.uid.is_some() || plan::is_marked(live.live.metadata.annotations.as_ref(), uid);
        let known =
            match entry.adopted.as_ref().and_then(|adopted| adopted.kept.as_deref()).filter(|_| touched) {
                Some(digest) => self.kept(uid, &object.id, digest).await?.unwrap_or_default(),
                None => Before::default(),
            };
        let after = match self.scope.cluster.apply(&object.api_version, &object.id, &body, Mode::DryRun).await
        {
            Err(refusal) if !refusal.suspects().is_empty() => {
                // The apply will be refused as well, and meets the fate that this one would.
                self.fate(object, entry, rules, uid, refusal).await?;
                return Ok(known);
            }
            after => after?,
        };
        let managers = known.managers(live.managed_fields());
        Ok(Before::of(&known.restored(&live.value()), &after.value(), managers))
    }

    /// Stores what is kept of an object; gives its digest.
    async fn store_before(&self, uid: &str, id: &ObjectId, before: &Before) -> Result<String, Error> {
        // Texts and JSON always serialise.
        let text = serde_json::to_vec(&(kept_name(uid, id), before)).unwrap_or_default();
        if text.len() > KEPT_MAX {
            let error =
                cluster::Error::AdoptionTooLarge { id: id.clone(), bytes: text.len(), limit: KEPT_MAX };
            return Err(error.into());
        }
        Access { scope: self.scope }.require_rights_to_kept().await?;
        let digest = digest_of(&text);
        let secret = kept_secret(self.scope.settings, &digest);
        let body = json!({
            "apiVersion": "v1", "kind": "Secret", "type": names::KEPT_TYPE, "immutable": true,
            "metadata": {
                "name": secret.name, "namespace": secret.namespace,
                "labels": {
                    names::KEPT: self.scope.settings.release_name,
                    names::RELEASE_NAMESPACE: self.scope.settings.target_namespace,
                },
                "annotations": {"kubernetes.io/description": format!("What {id} was before a release adopted it.")},
            },
            "data": {names::DATA_BEFORE: STANDARD.encode(&text)},
        });
        // One that is there holds the same: its name says so, and a reader checks it.
        self.scope.ctx.as_operator.create("v1", &secret, &body).await?;
        Ok(digest)
    }

    /// What was kept; `None` when it is not there any more, or is not what was kept.
    async fn kept(&self, uid: &str, id: &ObjectId, digest: &str) -> Result<Option<Before>, Error> {
        Access { scope: self.scope }.require_rights_to_kept().await?;
        let Some(secret) =
            self.scope.ctx.as_operator.get("v1", &kept_secret(self.scope.settings, digest)).await?
        else {
            return Ok(None);
        };
        let secret = secret.value();
        let text =
            secret.pointer("/data").and_then(|data| data.get(names::DATA_BEFORE)).and_then(Value::as_str);
        let text = text.and_then(|text| STANDARD.decode(text).ok()).filter(|text| digest_of(text) == digest);
        let kept = text.and_then(|text| serde_json::from_slice::<(String, Before)>(&text).ok());
        Ok(kept.filter(|(of, _)| *of == kept_name(uid, id)).map(|(_, before)| before))
    }

    /// Deletes what need not be kept any more. What stays for an error stays for nothing, and does no harm.
    pub(in crate::reconcile) async fn forget_kept(&self, digests: Vec<String>) {
        for digest in digests {
            let id = kept_secret(self.scope.settings, &digest);
            let gone = async {
                Access { scope: self.scope }.require_rights_to_kept().await?;
                let meta = self.scope.ctx.as_operator.metadata("v1", &id).await?;
                match meta.and_then(|meta| meta.uid) {
                    Some(uid) => Ok(self.scope.ctx.as_operator.delete("v1", &id, &uid).await?),
                    None => Ok(false),
                }
            };
            let gone: Result<bool, Error> = gone.await;
            if let Err(error) = gone {
                tracing::warn!(release = %self.scope.key, %error, "what was kept of an adopted object stays");
            }
        }
    }

    /// Gives an adopted object back: its values of before that no field manager changed since, without our marks and our ownership.
    /// Done again after a crash it finds nothing of ours.
    pub(in crate::reconcile) async fn hand_back(
        &self,
        api_version: &str,
        entry: &InventoryEntry,
        uid: &str,
    ) -> Result<(), Error> {
        let digest = entry.adopted.as_ref().and_then(|adopted| adopted.kept.clone());
        let live = self.scope.cluster.get(api_version, &entry.id).await?;
        let ours = |live: &Applied| plan::is_marked(live.live.metadata.annotations.as_ref(), uid);
        if let Some(live) = live.filter(|live| ours(live) && !live.is_leaving()) {
            let before = match &digest {
                Some(digest) => self.kept(uid, &entry.id, digest).await?,
                None => Some(Before::default()),
            };
            let lost = before.is_none();
            let before = before.unwrap_or_default();
            let holders = before.managers(live.managed_fields());
            let (live, refused) = self.give_values(api_version, &entry.id, live, &before).await?;
            self.scope.cluster.let_go(api_version, &entry.id, &live, &holders).await?;
            self.tell_of_hand_back(entry, lost, &refused);
        }
        self.forget_kept(digest.into_iter().collect()).await;
        Ok(())
    }

    /// Gives an object its values of before. When the API server refuses them together, each is given for itself, and what is
    /// refused then stays: a volume that grew does not shrink. Gives their places.
    async fn give_values(
        &self,
        api_version: &str,
        id: &ObjectId,
        live: Applied,
        before: &Before,
    ) -> Result<(Applied, Vec<String>), Error> {
        match self.scope.cluster.change(api_version, id, &live, &before.restored(&live.value())).await {
            Ok(given) => return Ok((given, Vec::new())),
            Err(refusal) if refusal.class() == Class::FixSpec => {}
            Err(error) => return Err(error.into()),
        }
        let (mut live, mut refused) = (live, Vec::new());
        for (place, part) in before.parts() {
            match self.scope.cluster.change(api_version, id, &live, &part.restored(&live.value())).await {
                Ok(given) => live = given,
                Err(refusal) if refusal.class() == Class::FixSpec => refused.push(place),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((live, refused))
    }

    fn tell_of_hand_back(&self, entry: &InventoryEntry, lost: bool, refused: &[String]) {
        let what = format!("{} was there before this release", entry.id);
        let deployed = entry.adopted.as_ref().is_some_and(|adopted| adopted.deployed);
        let note = match (lost, refused) {
            (true, _) => format!(
                "{what}: it is handed back, but with the values of the release, because what was kept of it is lost"
            ),
            (false, []) if deployed => format!("{what}: it stays, with the values that were deployed"),
            (false, []) => format!("{what}: it is handed back as it was"),
            (false, refused) => format!(
                "{what}: it is handed back, but the API server does not take these values of before: {}",
                refused.join(", ")
            ),
        };
        let warning = lost || !refused.is_empty();
        self.scope.ctx.report.event(self.scope.release, warning, reasons::HANDED_BACK, "HandBack", note);
    }
}

impl Rollout<'_> {
    /// Keeps what the applies to come change of adopted objects, and writes down where. Gives the versions that were
    /// looked at.
    ///
    /// # Errors
    /// Those of the API server; [`cluster::Error::AdoptionTooLarge`]. Nothing was applied then.
    pub(in crate::reconcile) async fn keep_adopted(
        &mut self,
        stored: &mut Stored,
        due: &[&Object],
        absent: &mut BTreeSet<ObjectId>,
    ) -> Result<HashMap<ObjectId, String>, Error> {
        let objects = self.objects();
        let mut versions = HashMap::new();
        let Some(private) = &stored.private else { return Ok(versions) };
        let adopted = |object: &&&Object| {
            let entry = private.inventory.iter().find(|entry| entry.id == object.id);
            entry.and_then(|entry| entry.adopted.as_ref()).is_some_and(|adopted| !adopted.deployed)
        };
        let adopted: Vec<&Object> = due.iter().filter(adopted).copied().collect();
        if adopted.is_empty() {
            return Ok(versions);
        }
        let uid = private.owner.uid.clone();
        let rules = objects.rules(private);
        let mut next = private.clone();
        let mut replaced = Vec::new();
        for object in adopted {
            let Some(entry) = next.inventory.iter_mut().find(|entry| entry.id == object.id) else { continue };
            let Some(live) = objects.scope.cluster.get(&object.api_version, &object.id).await? else {
                // It has gone, so what comes is the release's own.
                replaced.extend(entry.adopted.take().and_then(|adopted| adopted.kept));
                absent.insert(object.id.clone());
                continue;
            };
            versions.extend(
                live.live.metadata.resource_version.clone().map(|version| (object.id.clone(), version)),
            );
            let before = objects.before_of(object, entry, &rules, &uid, &live).await?;
            let kept = if before.is_empty() {
                None
            } else {
                Some(objects.store_before(&uid, &object.id, &before).await?)
            };
            let known = entry.adopted.take().unwrap_or_default();
            replaced.extend(known.kept.filter(|known| Some(known) != kept.as_ref()));
            entry.adopted = Some(Adopted { kept, deployed: false, unexplained: known.unexplained });
        }
        if stored.private.as_ref() != Some(&next) {
            let mut whole = stored.clone();
            whole.private = Some(next);
            *stored = self.records.save(&whole, true).await?;
            self.records.wrote(stored);
            objects.forget_kept(replaced).await;
        }
        Ok(versions)
    }
}

/// Says of what something is kept, for which line of revisions: no two objects share it, however equal they were.
fn kept_name(uid: &str, id: &ObjectId) -> String {
    format!("{uid} {id}")
}
