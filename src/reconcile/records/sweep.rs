//! Takes away what is kept of adopted objects and named by no record: a process died between the two, or between the record
//! that no longer names it and its deletion.
//!
//! A release that never adopted anything asks for nothing. As long as any record of the release cannot be read, or is not proved to
//! be ours, it may name anything, and everything stays. So it does while a record knows of an object that no record explains: the
//! one that did may be lost, and what was kept then is nowhere else.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{Class, Settings, names};
use crate::manifest::ObjectId;
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::reconcile::records::NewestRecord;
use crate::release::Private;
use crate::storage::{self, Head, Records as _};

/// The Secret that keeps what an adopted object was before.
pub(in crate::reconcile) fn kept_secret(settings: &Settings, digest: &str) -> ObjectId {
    let hash: String = digest.trim_start_matches("sha256:").chars().take(20).collect();
    kept_by_name(settings, format!("{}.{}.{hash}", names::KEPT_PREFIX, settings.release_name))
}

fn kept_by_name(settings: &Settings, name: String) -> ObjectId {
    let namespace = Some(settings.history_namespace.clone());
    ObjectId { group: String::new(), kind: "Secret".to_owned(), namespace, name }
}

impl NewestRecord<'_> {
    /// Sweeps after an operation. What stays for an error stays for nothing, and does no harm.
    pub(in crate::reconcile) async fn sweep_kept(&self, private: Option<&Private>) {
        if !private.is_some_and(Private::has_adopted) {
            return;
        }
        if let Err(error) = self.try_to_sweep(true).await {
            tracing::debug!(release = %self.scope.key, %error, "what is kept of adopted objects is not swept");
        }
    }

    /// Sweeps before the records go: then nothing names anything any more.
    pub(in crate::reconcile) async fn sweep_all_kept(&self) -> Result<(), Error> {
        let head = match &self.memory.head {
            Some((Head::Ours(head), _)) => Some(head),
            _ => self.memory.departed.as_ref(),
        };
        let private = head.and_then(|head| head.private.as_ref());
        if !private.is_some_and(Private::has_adopted) {
            return Ok(());
        }
        match self.try_to_sweep(false).await {
            Err(error) if error.class() != Class::Retry => {
                tracing::warn!(release = %self.scope.key, %error, "what is kept of adopted objects stays");
                Ok(())
            }
            swept => swept,
        }
    }

    pub(in crate::reconcile) fn access(&self) -> Access<'_> {
        Access { scope: self.scope }
    }

    async fn try_to_sweep(&self, records_stay: bool) -> Result<(), Error> {
        self.access().require_rights_to_kept().await?;
        let settings = self.scope.settings;
        let (namespace, target) = (&settings.history_namespace, &settings.target_namespace);
        let client = self.scope.ctx.as_operator.client();
        let found = storage::kept_secrets(client, namespace, target, &settings.release_name).await?;
        if found.is_empty() {
            return Ok(());
        }
        let Some(named) = self.named_by_records().await? else { return Ok(()) };
        let named = if records_stay { named } else { BTreeSet::new() };
        for meta in unnamed(found, &named) {
            let (Some(name), Some(uid)) = (meta.name, meta.uid) else { continue };
            let id = kept_by_name(settings, name);
            self.scope.ctx.as_operator.delete("v1", &id, &uid).await?;
        }
        Ok(())
    }

    /// The Secrets that records of this release name. `None`: there may be one that names others.
    async fn named_by_records(&self) -> Result<Option<BTreeSet<String>>, Error> {
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        let records = self.access().record_store().await?;
        let mut history = std::pin::pin!(records.survey(namespace, name));
        let mut named = BTreeSet::new();
        while let Some(head) = history.try_next().await? {
            let Head::Ours(stored) = self.judged(head) else { return Ok(None) };
            let Some(private) = stored.private.as_ref().filter(|private| self.scope.owns(&private.owner))
            else {
                return Ok(None);
            };
            let entries = private.inventory.iter().chain(&private.leftovers);
            if entries.flat_map(|entry| &entry.adopted).any(|adopted| adopted.unexplained) {
                return Ok(None);
            }
            named.extend(private.kept().map(|digest| kept_secret(self.scope.settings, digest).name));
        }
        Ok(Some(named))
    }
}

fn unnamed(found: Vec<ObjectMeta>, named: &BTreeSet<String>) -> impl Iterator<Item = ObjectMeta> {
    found.into_iter().filter(|meta| meta.name.as_ref().is_some_and(|name| !named.contains(name)))
}
