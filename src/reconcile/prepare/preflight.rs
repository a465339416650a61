//! The rights that a revision takes, all of them asked for before anything of it is stored or touched.

use crate::api::Adopt;
use crate::cluster;
use crate::manifest::{Object, ObjectId, group_of};
use crate::plan::rights::Right;
use crate::reconcile::Error;
use crate::reconcile::access::preflight::right;
use crate::reconcile::crds::Crds;
use crate::reconcile::health::probes::rights_to_probe;
use crate::reconcile::objects::Objects;
use crate::reconcile::prepare::revision::Prepared;
use crate::reconcile::records::NewestRecord;
use crate::release::State;
use crate::storage::Head;

/// What is done to an object: looked for, created or put back.
const KEEP: &[&str] = &["get", "create", "patch"];
/// What is done to a hook: looked at, made for each run, deleted.
const RUN: &[&str] = &["get", "create", "delete"];
/// Looked for and deleted.
const REMOVE: &[&str] = &["get", "delete"];

/// Asks what the account lacks for what is to be done.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Preflight<'a> {
    pub newest: NewestRecord<'a>,
}

impl Preflight<'_> {
    /// Everything that the account would need for a revision, before anything of it is stored or touched.
    pub(in crate::reconcile) async fn revision(&self, prepared: &Prepared) -> Result<(), Error> {
        if self.newest.scope.cluster.account().is_none() {
            return Ok(());
        }
        let target = &self.newest.scope.settings.target_namespace;
        let live = Objects { scope: self.newest.scope };
        let mut needed = Vec::new();
        let objects = &prepared.parts.objects;
        for object in objects {
            self.need(&object.api_version, &object.id, KEEP, objects, &mut needed).await?;
        }
        for entry in prepared.private.inventory.iter().filter(|entry| live.may_have_to_recreate(entry)) {
            self.need(&entry.api_version, &entry.id, &["delete"], &[], &mut needed).await?;
        }
        for hook in &prepared.parts.hooks {
            self.need(&hook.object.api_version, &hook.object.id, RUN, objects, &mut needed).await?;
        }
        for entry in prepared.private.leftovers.iter().filter(|entry| !entry.keep) {
            self.need(&entry.api_version, &entry.id, REMOVE, &[], &mut needed).await?;
        }
        needed.extend(rights_to_probe(&prepared.parts.objects, &prepared.plan, |wait| {
            self.newest.scope.waits(wait)
        }));
        let adopts = self.newest.scope.settings.adopt != Adopt::Never || prepared.private.has_adopted();
        needed.extend(self.newest.access().rights_to_keep_records(adopts));
        let makes_namespace = self.newest.scope.settings.create_namespace
            && self.newest.scope.cluster.namespace(target).await?.is_none();
        if makes_namespace {
            needed.push(right("create", "", "namespaces", None, target));
        }
        self.newest.access().require(needed, makes_namespace).await
    }

    /// What an uninstall takes that has not begun yet, asked for before anything of it is done.
    pub(in crate::reconcile) async fn uninstall(&self) -> Result<(), Error> {
        let Some((Head::Ours(head), _)) = &self.newest.memory.head else { return Ok(()) };
        let begun = matches!(head.record.state, State::PendingUninstall { .. });
        let Some(private) =
            head.private.as_ref().filter(|_| !begun && self.newest.scope.cluster.account().is_some())
        else {
            return Ok(());
        };
        let mut needed = Vec::new();
        for entry in private.inventory.iter().chain(&private.leftovers).filter(|entry| !entry.keep) {
            self.need(&entry.api_version, &entry.id, REMOVE, &[], &mut needed).await?;
        }
        self.newest.access().require(needed, false).await
    }

    async fn need(
        &self,
        api_version: &str,
        id: &ObjectId,
        verbs: &[&'static str],
        definitions: &[Object],
        needed: &mut Vec<Right>,
    ) -> Result<(), Error> {
        let crds = Crds { scope: self.newest.scope };
        let plural = match crds.kind_to_be(api_version, &id.kind, definitions).await {
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
}
