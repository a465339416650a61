//! As whom a release is worked on: is its service account there, may it do what is to be done, and what happens to a
//! release whose account is gone.

use std::sync::Arc;

use crate::api::{ActsAs, Adopt, reasons};
use crate::cluster::{self, Account, Cluster, Reference, Referent, Unread};
use crate::manifest::{InventoryEntry, Object, ObjectId, group_of};
use crate::plan;
use crate::plan::rights::Right;
use crate::reconcile::health::probes::rights_to_probe;
use crate::reconcile::inputs::references::references;
use crate::reconcile::objects::apply::Away;
use crate::reconcile::prepare::revision::Prepared;
use crate::reconcile::prepare::revision::Wanted;
use crate::reconcile::{Context, Error, Pass};
use crate::release::{ReleaseKey, State};
use crate::storage::Head;
use crate::watch::Seen;

/// What is done to an object: looked for, created or put back.
const KEEP: &[&str] = &["get", "create", "patch"];
/// What is done to a hook: looked at, made for each run, deleted.
const RUN: &[&str] = &["get", "create", "delete"];
/// Looked for and deleted.
const REMOVE: &[&str] = &["get", "delete"];

/// What is left of a release that goes.
#[derive(Default)]
pub(in crate::reconcile) struct Left {
    /// What could not be deleted.
    pub(in crate::reconcile) refused: Vec<ObjectId>,
    /// What is not to be deleted.
    pub(in crate::reconcile) kept: Vec<ObjectId>,
}

impl Context {
    /// The cluster for a release: as its service account if it has one.
    pub(in crate::reconcile) fn cluster_of(&self, acts_as: &ActsAs, key: &ReleaseKey) -> Arc<Cluster> {
        match acts_as {
            ActsAs::Operator => Arc::clone(&self.as_operator),
            ActsAs::Nobody => Arc::new(self.as_operator.acting_as_nobody()),
            ActsAs::ServiceAccount(name) => {
                let account = Account { namespace: key.namespace.clone(), name: name.clone() };
                Arc::new(self.as_operator.acting_as(&account))
            }
        }
    }
}

impl Pass<'_> {
    /// [`Pass::wanted`], read as the release's account.
    pub(in crate::reconcile) async fn wanted_as_account(&mut self) -> Result<Wanted, Error> {
        // Before anything is read, so that no change falls between the two.
        self.scope.ctx.references.refer(self.scope.key, references(self.scope.settings, self.scope.key));
        if let Err(error) = self.require_account().await {
            self.scope.ctx.fetcher.leave(self.scope.key);
            return Err(error);
        }
        match self.wanted().await {
            Err(error @ Error::ReadForbidden { .. }) => Err(self.everything_unreadable(error).await),
            wanted => wanted,
        }
    }

    /// Whoever is to act is there. Costs a read only while the watch of service accounts knows nothing.
    pub(in crate::reconcile) async fn require_account(&self) -> Result<(), Error> {
        let account = match (&self.scope.settings.acts_as, self.scope.cluster.account()) {
            (ActsAs::Operator, _) => return Ok(()),
            (ActsAs::ServiceAccount(_), Some(account)) => account,
            (ActsAs::ServiceAccount(_), None) | (ActsAs::Nobody, _) => return Err(Error::NoAccount),
        };
        if self.account_exists(account, true).await? {
            return Ok(());
        }
        Err(Error::AccountNotFound { account: account.clone() })
    }

    /// A deletion has nobody who could do it. Asks the API server: nothing is ever undone of what follows.
    pub(in crate::reconcile) async fn account_gone(&self) -> Result<bool, Error> {
        match (&self.scope.settings.acts_as, self.scope.cluster.account()) {
            (ActsAs::Operator, _) => Ok(false),
            (_, Some(account)) => Ok(!self.account_exists(account, false).await?),
            (_, None) => Ok(true),
        }
    }

    async fn account_exists(&self, account: &Account, believe_watch: bool) -> Result<bool, Error> {
        let reference = Reference::new(Referent::ServiceAccount, &account.namespace, &account.name);
        match self.scope.ctx.references.seen(&reference) {
            Seen::At(_) if believe_watch => return Ok(true),
            Seen::Absent if believe_watch => return Ok(false),
            Seen::At(_) | Seen::Absent | Seen::Unknown => {}
        }
        let ask = async {
            // As the operator: an account need not be allowed to look at itself.
            match self.scope.ctx.read(&self.scope.ctx.as_operator, &reference).await {
                Ok(found) => Ok(found.is_some()),
                Err(Unread { message, .. }) => {
                    Err(Error::AccountUnknown { account: account.clone(), message })
                }
            }
        };
        if believe_watch { self.scope.ctx.rights.exists(account, ask).await } else { ask.await }
    }

    /// Says at once everything that the account may not read, where only the first of it was met.
    async fn everything_unreadable(&self, met: Error) -> Error {
        let Some(account) = self.scope.cluster.account() else { return met };
        let mut needed: Vec<Right> = references(self.scope.settings, self.scope.key)
            .into_iter()
            .filter(|reference| reference.kind != Referent::ServiceAccount)
            .map(|reference| Right {
                verb: "get",
                group: String::new(),
                resource: reference.kind.resource().to_owned(),
                namespace: Some(reference.namespace),
                name: reference.name,
            })
            .collect();
        needed.sort();
        match self.scope.ctx.rights.missing(self.scope.cluster, needed).await {
            Ok(missing) if !missing.is_empty() => {
                Error::RightsMissing { account: account.clone(), missing: missing.to_string() }
            }
            // What was met says it better than that nothing is known.
            Ok(_) | Err(_) => met,
        }
    }

    /// Everything that the account would need for a revision, before anything of it is stored or touched.
    pub(in crate::reconcile) async fn preflight(&self, prepared: &Prepared) -> Result<(), Error> {
        if self.scope.cluster.account().is_none() {
            return Ok(());
        }
        let target = &self.scope.settings.target_namespace;
        let mut needed = Vec::new();
        let objects = &prepared.parts.objects;
        for object in objects {
            self.need(&object.api_version, &object.id, KEEP, objects, &mut needed).await?;
        }
        for entry in prepared.private.inventory.iter().filter(|entry| self.may_have_to_recreate(entry)) {
            self.need(&entry.api_version, &entry.id, &["delete"], &[], &mut needed).await?;
        }
        for hook in &prepared.parts.hooks {
            self.need(&hook.object.api_version, &hook.object.id, RUN, objects, &mut needed).await?;
        }
        for entry in prepared.private.leftovers.iter().filter(|entry| !entry.keep) {
            self.need(&entry.api_version, &entry.id, REMOVE, &[], &mut needed).await?;
        }
        needed.extend(rights_to_probe(&prepared.parts.objects, &prepared.plan, |wait| self.waits(wait)));
        let adopts = self.scope.settings.adopt != Adopt::Never || prepared.private.has_adopted();
        needed.extend(self.rights_to_keep_records(adopts));
        let makes_namespace =
            self.scope.settings.create_namespace && self.scope.cluster.namespace(target).await?.is_none();
        if makes_namespace {
            needed.push(right("create", "", "namespaces", None, target));
        }
        self.require(needed, makes_namespace).await
    }

    /// The same for an uninstall that has not begun yet.
    pub(in crate::reconcile) async fn preflight_uninstall(&self) -> Result<(), Error> {
        let Some((Head::Ours(head), _)) = &self.mem.head else { return Ok(()) };
        let begun = matches!(head.record.state, State::PendingUninstall { .. });
        let Some(private) =
            head.private.as_ref().filter(|_| !begun && self.scope.cluster.account().is_some())
        else {
            return Ok(());
        };
        let mut needed = Vec::new();
        for entry in private.inventory.iter().chain(&private.leftovers).filter(|entry| !entry.keep) {
            self.need(&entry.api_version, &entry.id, REMOVE, &[], &mut needed).await?;
        }
        self.require(needed, false).await
    }

    async fn require(&self, needed: Vec<Right>, makes_namespace: bool) -> Result<(), Error> {
        let missing = self.scope.ctx.rights.missing(self.scope.cluster, needed).await?;
        let Some(account) = self.scope.cluster.account().filter(|_| !missing.is_empty()) else {
            return Ok(());
        };
        // Bindings go with their namespace, so that nobody may do anything in one that is not there.
        let target = &self.scope.settings.target_namespace;
        if !makes_namespace
            && missing.refused.iter().any(|right| right.namespace.as_ref() == Some(target))
            && self.scope.cluster.namespace(target).await?.is_none()
        {
            return Err(cluster::Error::NamespaceNotFound { namespace: target.clone() }.into());
        }
        Err(Error::RightsMissing { account: account.clone(), missing: missing.to_string() })
    }

    async fn need(
        &self,
        api_version: &str,
        id: &ObjectId,
        verbs: &[&'static str],
        definitions: &[Object],
        needed: &mut Vec<Right>,
    ) -> Result<(), Error> {
        let plural = match self.kind_to_be(api_version, &id.kind, definitions).await {
            Ok((_, plural)) => plural,
            // Nothing is done to what is not served.
            Err(Error::Cluster(error)) if matches!(*error, cluster::Error::UnknownKind { .. }) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (group, namespace) = (group_of(api_version), id.namespace.as_deref());
        needed.extend(verbs.iter().map(|verb| right(verb, group, &plural, namespace, &id.name)));
        Ok(())
    }

    /// A refusal shows that what is known of the account's rights is old.
    pub(in crate::reconcile) fn doubt_rights(&self, reason: &str) {
        if let Some(account) = self.scope.cluster.account().filter(|_| reason == reasons::FORBIDDEN) {
            self.scope.ctx.rights.forget(account);
        }
    }

    /// Deletes what may be deleted.
    pub(in crate::reconcile) async fn delete_allowed(
        &self,
        entries: Vec<InventoryEntry>,
        owner_uid: &str,
    ) -> Result<Left, Error> {
        let asked_at = self.scope.release.metadata.deletion_timestamp.as_ref().map(|at| at.0);
        let deadline = asked_at.and_then(|at| at.checked_add(self.scope.settings.uninstall.timeout).ok());
        let late = deadline.is_some_and(|deadline| deadline <= self.scope.now);
        let mut left = Left::default();
        for entry in plan::deletion_order(entries) {
            match self.take_away(&entry, owner_uid).await {
                Ok(Away::Stays) => left.kept.push(entry.id),
                Ok(Away::Going | Away::NotOurs) => {}
                // Nobody is going to mend it, so nothing waits for that. Longer than an uninstall may take nothing waits
                // for anything.
                Err(error) if late || error.class() != crate::api::Class::Retry => {
                    tracing::debug!(release = %self.scope.key, error = self.secrets.shown(&error), "an object is left behind");
                    // Whoever may not look learns from the operator's watch that it went before.
                    if !self.scope.ctx.objects.table().is_gone(&entry.id) {
                        left.refused.push(entry.id);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    /// The account is gone: what it may still do by its name is done, and the release goes. No hook runs and no record
    /// is written; records go when nothing is left that they speak of. What is in a namespace on its way out goes with it.
    pub(in crate::reconcile) async fn let_go_without_account(
        &mut self,
        namespace_terminating: bool,
    ) -> Result<(), Error> {
        let head = match &self.mem.head {
            Some((Head::Ours(head), _)) => Some(&**head),
            _ => self.mem.departed.as_deref(),
        };
        let private = head.and_then(|head| head.private.clone());
        let mut left = Left::default();
        let mut all = 0;
        let mut records = None;
        if let Some(private) = private.filter(|private| self.owns(&private.owner)) {
            let goes = |entry: &&InventoryEntry| {
                let target = entry.id.namespace.as_ref() == Some(&self.scope.settings.target_namespace);
                !(namespace_terminating && target)
            };
            let entries: Vec<InventoryEntry> = {
                let all = private.inventory.iter().chain(&private.leftovers).chain(&private.hook_objects);
                all.filter(goes).cloned().collect()
            };
            all = entries.len();
            // Nothing of this may be put back while it goes.
            self.scope.ctx.objects.table().wake_on(self.scope.key, &std::collections::BTreeSet::new());
            left = match self.scope.cluster.account() {
                Some(_) => self.delete_allowed(entries, &private.owner.uid).await?,
                None => {
                    let refused = entries.into_iter().map(|entry| entry.id).collect();
                    Left { refused, kept: Vec::new() }
                }
            };
            if left.refused.is_empty() {
                records = self.remove_records_if_allowed().await?;
            }
        }
        let gone = match self.scope.cluster.account() {
            Some(account) => format!("the service account {account} does not exist"),
            None => "no service account acts for the release".to_owned(),
        };
        let Left { refused, kept } = left;
        let what = if refused.is_empty() {
            format!(
                "{gone}: the release is gone without hooks, and so is every object of it that is not kept"
            )
        } else {
            format!(
                "{gone}: the release is gone, and {} of its {all} objects could not be deleted and stay, with its revisions",
                refused.len()
            )
        };
        let reason = match self.scope.cluster.account() {
            Some(_) => reasons::SERVICE_ACCOUNT_NOT_FOUND,
            None => reasons::SERVICE_ACCOUNT_REQUIRED,
        };
        let records = records.unwrap_or_default();
        self.tell_remaining(true, reason, &what, refused.into_iter().chain(kept).collect(), &records);
        Ok(())
    }
}

pub(in crate::reconcile) fn right(
    verb: &'static str,
    group: &str,
    resource: &str,
    namespace: Option<&str>,
    name: &str,
) -> Right {
    Right {
        verb,
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}
