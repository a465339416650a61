//! Records in another namespace than the release's own.
//!
//! The operator reads, writes and deletes records as itself. In the namespace of the release this gives its author nothing
//! new. In another namespace the operator asks first whether the account of the release may do all of this to the objects
//! that hold records there. An answer counts for a minute, and nothing is asked while nothing is read or written.

use crate::api::{ActsAs, Class, HistoryStorage};
use crate::cluster;
use crate::plan::rights::Right;
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::storage::{AnyRecords, Keeping};

/// All that happens to records while a release lives and when it goes. A release that lacks one of these may begin nothing
/// there: what it could not end would stay.
const ON_RECORDS: [&str; 6] = ["get", "list", "create", "update", "patch", "delete"];
const SECRETS: &str = "secrets";

/// Whether a release may know the newest record.
pub(in crate::reconcile) enum HeadAccess {
    Granted,
    /// There is no namespace that could hold one.
    NoNamespace,
    /// What the account lacks.
    Refused(Error),
}

impl Access<'_> {
    /// The driver, writing where and as this release wants its records written. Fails while the account may not touch
    /// records there.
    pub(in crate::reconcile) async fn record_store(&self) -> Result<AnyRecords, Error> {
        self.require_rights_to(self.record_resource()).await?;
        Ok(self.record_store_unasked())
    }

    /// [`Access::record_store`] for the one read that keeps nothing which the account may not have.
    pub(in crate::reconcile) fn record_store_unasked(&self) -> AnyRecords {
        let settings = &self.scope.settings;
        self.scope.ctx.records.of(&Keeping {
            storage: settings.history_storage,
            namespace: Some(settings.history_namespace.clone()),
            compression: settings.compression.into(),
            large: settings.large.into(),
        })
    }

    /// What adopted objects were before is kept in Secrets beside the records, whatever holds the records.
    pub(in crate::reconcile) async fn require_rights_to_kept(&self) -> Result<(), Error> {
        self.require_rights_to(SECRETS).await
    }

    /// The rights that the account needs before a revision is stored; none in the release's own namespace.
    pub(in crate::reconcile) fn rights_to_keep_records(&self, adopts: bool) -> Vec<Right> {
        if !self.keeps_elsewhere() {
            return Vec::new();
        }
        let mut resources = vec![self.record_resource()];
        if adopts && !resources.contains(&SECRETS) {
            resources.push(SECRETS);
        }
        resources.into_iter().flat_map(|resource| self.rights_to(resource)).collect()
    }

    /// Whether the newest record is for the release. Where the account may not have it, the release is told nothing else. One
    /// that is being deleted may still need what it stored itself, so there this is no error.
    pub(in crate::reconcile) async fn may_know_head(&self) -> Result<HeadAccess, Error> {
        match self.require_rights_to(self.record_resource()).await {
            Ok(()) => Ok(HeadAccess::Granted),
            // It holds no records. Of one that is made meanwhile nothing was asked yet, so nothing is read there.
            Err(Error::Cluster(error)) if matches!(*error, cluster::Error::NamespaceNotFound { .. }) => {
                Ok(HeadAccess::NoNamespace)
            }
            Err(error) if error.class() == Class::Retry => Err(error),
            Err(error) if self.scope.release.metadata.deletion_timestamp.is_some() => {
                Ok(HeadAccess::Refused(error))
            }
            Err(error) => Err(error),
        }
    }

    fn keeps_elsewhere(&self) -> bool {
        self.scope.settings.history_namespace != self.scope.key.namespace
            && self.scope.settings.acts_as != ActsAs::Operator
    }

    /// What holds the records. RBAC knows no rights to files, so those to Secrets stand in for them.
    fn record_resource(&self) -> &'static str {
        match self.scope.settings.history_storage {
            HistoryStorage::ConfigMap => "configmaps",
            HistoryStorage::Secret | HistoryStorage::File => SECRETS,
        }
    }

    fn rights_to(&self, resource: &str) -> Vec<Right> {
        let namespace = &self.scope.settings.history_namespace;
        let right =
            |verb| crate::reconcile::access::preflight::right(verb, "", resource, Some(namespace), "");
        ON_RECORDS.into_iter().map(right).collect()
    }

    async fn require_rights_to(&self, resource: &str) -> Result<(), Error> {
        if !self.keeps_elsewhere() {
            return Ok(());
        }
        let Some(account) = self.scope.cluster.account() else { return Err(Error::NoAccount) };
        let missing = self.scope.ctx.rights.missing(self.scope.cluster, self.rights_to(resource)).await?;
        if missing.is_empty() {
            return Ok(());
        }
        let namespace = &self.scope.settings.history_namespace;
        if self.scope.cluster.namespace(namespace).await?.is_none() {
            // Bindings go with their namespace.
            return Err(cluster::Error::NamespaceNotFound { namespace: namespace.clone() }.into());
        }
        Err(Error::RightsMissing { account: account.clone(), missing: missing.to_string() })
    }
}
