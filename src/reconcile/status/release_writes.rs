//! The writes to the `SherpackRelease` itself.

use std::sync::Arc;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::ObjectRef;
use serde_json::json;

use crate::api::{SherpackRelease, SherpackReleaseStatus, conditions, names, reasons};
use crate::cluster::{describe, version_of};
use crate::reconcile::context::own;
use crate::reconcile::status::{Refused, StatusMemory};
use crate::reconcile::{Context, Error, Snapshot, status};
use crate::release::{Owner, ReleaseKey};
use crate::storage::Head;

/// What is written when it is the status.
const STATUS: &str = "status";
/// Of a write of the status, while others write the release.
const TRIES: usize = 5;

/// Writes to the release itself.
pub(in crate::reconcile) struct ReleaseWrites<'a> {
    pub ctx: &'a Context,
    pub key: &'a ReleaseKey,
    pub release: &'a SherpackRelease,
    pub memory: &'a mut StatusMemory,
    /// The newest record, for what the metrics show of it.
    pub head: Option<&'a Head>,
}

impl ReleaseWrites<'_> {
    pub(in crate::reconcile) async fn add_finalizer(&mut self) -> Result<Arc<SherpackRelease>, Error> {
        let mut finalizers = self.release.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(names::FINALIZER.to_owned());
        self.set_finalizers(&finalizers).await.map(Arc::new)
    }

    pub(in crate::reconcile) async fn drop_finalizer(&mut self) -> Result<(), Error> {
        let mut finalizers = self.release.metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != names::FINALIZER);
        match self.set_finalizers(&finalizers).await {
            Ok(_) => {}
            Err(Error::Own { source, .. }) if crate::cluster::status_code(&source) == Some(404) => {}
            Err(error) => return Err(error),
        }
        if self.release.metadata.deletion_timestamp.is_some() {
            let watched = |key: &ReleaseKey| watched_uid(self.ctx, key);
            self.ctx.let_go.add(self.key, self.release.uid(), watched);
        }
        Ok(())
    }

    async fn set_finalizers(&mut self, finalizers: &[String]) -> Result<SherpackRelease, Error> {
        // The resourceVersion keeps a finalizer that another controller added meanwhile.
        let version = self.newest_version();
        let patch = serde_json::from_value(json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]))
        .unwrap_or_default();
        let params =
            PatchParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PatchParams::default() };
        let written = own(
            "finalizer",
            self.ctx.api(self.release).patch(&self.release.name_any(), &params, &Patch::Json::<()>(patch)),
        )
        .await?;
        self.memory.own_version = version_of(&written.metadata);
        Ok(written)
    }

    /// Writes the status unless nothing but times differ. `true`: it was written. Whatever writer changed the release meanwhile, it is the
    /// status of the very object that the pass was about.
    ///
    /// One that the API server refuses for good is not sent again: what decisions need of it is written in its place.
    pub(in crate::reconcile) async fn write_status(
        &mut self,
        status: SherpackReleaseStatus,
    ) -> Result<bool, Error> {
        let known = self.memory.refused.as_ref().filter(|(digest, _)| *digest == status::digest_of(&status));
        if let Some(why) = known.map(|(_, why)| *why) {
            return self.tell_and_send(&status::essence(&status, why)).await;
        }
        let refused = match self.tell_and_send(&status).await {
            Err(Error::Own { what: STATUS, source }) => source,
            sent => return sent,
        };
        let Some(why) = Refused::of(&refused) else {
            return Err(Error::Own { what: STATUS, source: refused });
        };
        self.memory.refused = Some((status::digest_of(&status), why));
        let said = describe(&refused);
        tracing::warn!(release = %self.key, error = said, "the API server refuses the status: only a part of it is written");
        self.ctx.report.failed(reasons::STATUS_REFUSED);
        let note =
            format!("the API server refused the status, so names and details are left out of it: {said}");
        self.ctx.report.event(self.release, true, reasons::STATUS_REFUSED, "Status", note);
        self.tell_and_send(&status::essence(&status, why)).await
    }

    /// Shows a status in the metrics, and writes it unless nothing but times differ.
    async fn tell_and_send(&mut self, status: &SherpackReleaseStatus) -> Result<bool, Error> {
        let key = self.key;
        let owns = |owner: &Owner| owner.namespace == key.namespace && owner.name == key.name;
        let head = self.head.and_then(Head::stored);
        let head = head.filter(|stored| stored.private.as_ref().is_none_or(|private| owns(&private.owner)));
        let state = head.map(|stored| stored.record.state.name());
        self.ctx.report.release(key, Snapshot { status, state });
        let before = self.release.status.clone().unwrap_or_default();
        if conditions::same_but_time(&before, status) {
            return Ok(false);
        }
        let mut body = json!({
            "apiVersion": names::API_VERSION, "kind": names::KIND,
            "metadata": {"name": self.release.name_any(), "resourceVersion": self.newest_version()},
            "status": without_empty_parts(status),
        });
        let (api, name) = (self.ctx.api(self.release), self.release.name_any());
        let params = PatchParams::apply(names::MANAGER_OWN).force();
        for _ in 0..TRIES {
            match own(STATUS, api.patch_status(&name, &params, &Patch::Apply(&body))).await {
                Ok(written) => {
                    self.memory.own_version = version_of(&written.metadata);
                    return Ok(true);
                }
                Err(error) if error.is_conflict() => {
                    // The API server does not compare the uid in a status: one of the same name that was made anew would
                    // be told what became of this one.
                    let found = own("state", api.get_opt(&name)).await?;
                    let Some(found) = found.filter(|found| found.uid() == self.release.uid()) else {
                        return Err(error);
                    };
                    body["metadata"]["resourceVersion"] = json!(found.resource_version());
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Undecided)
    }

    /// Says that all objects are gone, before the last record goes.
    pub(in crate::reconcile) async fn checkpoint_records(
        &mut self,
        now: jiff::Timestamp,
    ) -> Result<(), Error> {
        let status = status::records_going(self.release, now);
        self.write_status(status).await.map(drop)
    }

    /// Our own last write may be newer than the object at hand.
    fn newest_version(&self) -> String {
        self.memory.own_version.max(version_of(&self.release.metadata)).to_string()
    }
}

fn watched_uid(ctx: &Context, key: &ReleaseKey) -> Option<String> {
    let release = ctx.releases.get(&ObjectRef::new(&key.name).within(&key.namespace))?;
    release.metadata.uid.clone()
}

/// The status as it can be applied: an empty map in place of one that had fields of ours comes out of the API
/// server's merge as null, which the schema refuses, and with it the whole status.
fn without_empty_parts(status: &SherpackReleaseStatus) -> serde_json::Value {
    let mut status = json!(status);
    if let Some(parts) = status.as_object_mut() {
        parts.retain(|_, part| part.as_object().is_none_or(|part| !part.is_empty()));
    }
    status
}
