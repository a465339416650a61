//! The deployed revision against what is in the cluster. Whatever is sent is a dry run.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::conceal::Secrets;
use super::report::{Change, ObjectLine, Report, What};
use super::subject::Subject;
use crate::api::{FieldPath, IgnoreRule, reasons};
use crate::cli::output::answer::Failure;
use crate::cli::plan::reached;
use crate::cluster::{self, Cluster, Mode};
use crate::manifest::differences::{Difference, Step, asked_for, compare, holder, stated};
use crate::manifest::managed_fields::ignore::{Wishes, as_live, values_at, wishes};
use crate::manifest::managed_fields::{self, Taken};
use crate::manifest::{InventoryEntry, Object, ObjectId, order};
use crate::plan::{self, Marks};
use crate::reconcile::{left_to_others, stored_parts};
use crate::release::Private;
use crate::storage::codec::Because;
use crate::storage::{Provenance, Stored};

/// Objects that are looked at at once.
const PARALLEL: usize = 8;

/// What the deployed revision wants and is another way in the cluster.
pub(super) async fn drift(subject: &Subject) -> Result<Report, Failure> {
    let (stored, note) = subject.deployed().await?;
    let parts = stored_parts(&stored).map_err(|error| error.to_string())?;
    let version = stored.record.version;
    let mut notes: Vec<String> = note.into_iter().collect();
    if stored.private.is_none() {
        notes.push(format!(
            "revision {version} says nothing here of the objects that it applied, so what it handed over to others is \
             known only as far as managedFields tell"
        ));
    }
    let look = Look {
        cluster: Cluster::new(subject.place.client.clone()),
        rules: rules(subject, stored.private.as_ref()),
        strict: strict(subject),
        autoscaled: plan::autoscaled(&parts.objects),
        secrets: Secrets::of(&[&stored]),
        subject,
        stored: &stored,
    };
    let mut objects = parts.objects;
    objects.sort_by_cached_key(|object| (order::rank(&object.id.group, &object.id.kind), object.id.clone()));
    let work = objects.into_iter().map(|object| look.at(object));
    let looks: Vec<_> = stream::iter(work.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
    let mut lines = Vec::new();
    for seen in looks {
        let (line, note) = seen?;
        lines.extend(line);
        notes.extend(note);
    }
    Ok(Report {
        release: subject.name.clone(),
        namespace: subject.namespace.clone(),
        from: version,
        to: None,
        differs: !lines.is_empty(),
        objects: lines,
        notes,
    })
}

/// Those of the spec, and those that the record was applied with: the operator's own stand nowhere else.
fn rules(subject: &Subject, private: Option<&Private>) -> Vec<Arc<IgnoreRule>> {
    let spec = subject.release.as_ref().and_then(|release| release.spec.drift.as_ref());
    let spec = spec.and_then(|drift| drift.ignore.as_deref()).unwrap_or_default();
    let recorded = private.map_or(&[][..], |private| &private.ignore[..]);
    let added = recorded.iter().filter(|rule| !spec.contains(rule));
    spec.iter().chain(added).filter_map(|rule| IgnoreRule::parse(rule).ok()).map(Arc::new).collect()
}

fn strict(subject: &Subject) -> Vec<String> {
    let drift = subject.release.as_ref().and_then(|release| release.spec.drift.as_ref());
    drift.and_then(|drift| drift.strict.as_ref()?.managers.clone()).unwrap_or_default()
}

struct Look<'s> {
    cluster: Cluster,
    subject: &'s Subject,
    stored: &'s Stored,
    rules: Vec<Arc<IgnoreRule>>,
    strict: Vec<String>,
    /// What autoscalers of the manifest scale.
    autoscaled: BTreeSet<ObjectId>,
    secrets: Secrets,
}

type Seen = (Option<ObjectLine>, Option<String>);

impl Look<'_> {
    async fn at(&self, object: Object) -> Result<Seen, Failure> {
        let object = self.placed(object).await?;
        let Some(mut entry) = self.entry(&object).filter(|entry| entry.skipped.is_empty()) else {
            // It is not locked.
            return Ok((None, None));
        };
        let wishes = wishes(&self.rules, &object);
        if wishes.as_ref().is_some_and(|wishes| wishes.whole) {
            return Ok((None, None));
        }
        let told =
            |what: What, changes: Vec<Change>| ObjectLine { object: object.id.to_string(), what, changes };
        let live = match reached(self.cluster.get(&object.api_version, &object.id).await)? {
            Ok(Some(live)) if live.is_leaving() => return Ok((Some(told(What::Leaving, Vec::new())), None)),
            Ok(Some(live)) => live,
            // A Job that has run may be gone.
            Ok(None) if entry.ran.is_some() => return Ok((None, None)),
            Ok(None) => return Ok((Some(told(What::Gone, Vec::new())), None)),
            Err(cluster::Error::UnknownKind { .. }) => {
                return Ok((Some(told(What::Unserved, Vec::new())), None));
            }
            Err(error) => return Err(error.to_string().into()),
        };
        let (fields, live) = (live.managed_fields(), live.value());
        entry.handed_over.extend(self.left_to_others(&object, fields).await?);
        let body = match &wishes {
            // What is left to other field managers does not count as a difference.
            Some(wishes) => as_live(&object, wishes, &live, fields),
            None => object.body.clone(),
        };
        let body = self.applied(&Object { body, ..object.clone() }, &entry);
        let (mut changes, note) = self.changes(&object, &body, &live, fields).await?;
        self.additions(&object, &live, fields, wishes.as_ref(), &mut changes);
        Ok(((!changes.is_empty()).then(|| told(What::Changed, changes)), note))
    }

    /// In the namespace of the release, where it names none: another tool may have left that open.
    async fn placed(&self, object: Object) -> Result<Object, Failure> {
        if object.id.namespace.is_some() {
            return Ok(object);
        }
        Ok(match reached(self.cluster.kind(&object.api_version, &object.id.kind).await)? {
            Ok(kind) if kind.namespaced => object.with_namespace(Some(&self.subject.namespace)),
            _ => object,
        })
    }

    /// What the revision remembers of the object; `None`: it never applied it.
    fn entry(&self, object: &Object) -> Option<InventoryEntry> {
        let Some(private) = &self.stored.private else {
            let known =
                plan::next_inventory(std::slice::from_ref(object), self.stored.record.version, &[], &[]);
            return known.wanted.into_iter().next();
        };
        let entry = private.inventory.iter().find(|entry| entry.id == object.id)?;
        // What is left out by a rule has its live value here.
        Some(InventoryEntry { ignored: Vec::new(), ..entry.clone() })
    }

    async fn left_to_others(
        &self,
        object: &Object,
        fields: &[ManagedFieldsEntry],
    ) -> Result<Vec<String>, Failure> {
        let mut taken = left_to_others(&object.body, fields);
        if taken.iter().any(|path| path == plan::REPLICAS) {
            return Ok(taken);
        }
        let is_scaled = self.autoscaled.contains(&object.id)
            || (plan::lost_replicas(&object.body, fields) && self.has_autoscaler(&object.id).await?);
        if is_scaled {
            taken.push(plan::REPLICAS.to_owned());
        }
        Ok(taken)
    }

    async fn has_autoscaler(&self, id: &ObjectId) -> Result<bool, Failure> {
        Ok(reached(self.cluster.is_scaled(id).await)?.unwrap_or(false))
    }

    /// The object as the operator would apply it; as it is where another tool did.
    fn applied(&self, object: &Object, entry: &InventoryEntry) -> Value {
        let owner = self.stored.private.as_ref().map(|private| &private.owner);
        let marks = Marks {
            release_name: &self.subject.name,
            release_namespace: owner.map_or(&self.subject.place.namespace, |owner| &owner.namespace),
            uid: owner.map_or("", |owner| &owner.uid),
        };
        if self.stored.provenance == Provenance::Foreign(Because::NoPrivatePart) {
            let mut bare = object.clone();
            entry
                .handed_over
                .iter()
                .for_each(|path| drop(crate::manifest::remove_pointer(&mut bare.body, path)));
            return bare.body;
        }
        plan::apply_body(object, entry, marks)
    }

    /// The fields of `body` that are another way, and a word when they are not sure.
    async fn changes(
        &self,
        object: &Object,
        body: &Value,
        live: &Value,
        fields: &[ManagedFieldsEntry],
    ) -> Result<(Vec<Change>, Option<String>), Failure> {
        let change = |one: &Difference<'_>| {
            let (old, new) = self.secrets.values(&object.id, one);
            Change { path: one.pointer(), old, new, manager: holder(live, &one.at, fields) }
        };
        let answer = self.cluster.apply(&object.api_version, &object.id, body, Mode::DryRun).await;
        let error = match reached(answer)? {
            Ok(would) => {
                let (wanted, live) = (asked_for(would.value()), asked_for(live.clone()));
                return Ok((compare(&wanted, &live).iter().map(change).collect(), None));
            }
            Err(error) => error,
        };
        let mut there = asked_for(live.clone());
        crate::manifest::normalise(&mut there);
        let wanted = asked_for(body.clone());
        let changes: Vec<Change> = stated(&wanted, &there).iter().map(change).collect();
        Ok((changes, Some(self.unsure(&object.id, &error))))
    }

    fn unsure(&self, id: &ObjectId, error: &cluster::Error) -> String {
        // A refusal may quote what it refuses.
        let why = if id.kind == "Secret" && error.reason() != reasons::FORBIDDEN {
            String::new()
        } else {
            format!(": {}", self.secrets.hidden(&error.to_string()))
        };
        let reason = error.reason();
        format!(
            "{id}: a dry run was refused ({reason}), so only the fields that the manifest states were compared, and what \
             the API server writes another way shows as a difference{why}"
        )
    }

    /// What `spec.drift.strict` takes away.
    fn additions(
        &self,
        object: &Object,
        live: &Value,
        fields: &[ManagedFieldsEntry],
        wishes: Option<&Wishes<'_>>,
        changes: &mut Vec<Change>,
    ) {
        if self.strict.is_empty() || object.id.is_definition() {
            return;
        }
        for Taken { manager, paths, .. } in managed_fields::added(fields, &self.strict, wishes, None) {
            for path in paths {
                if changes.iter().any(|change| change.path == path) {
                    continue;
                }
                let found =
                    FieldPath::parse(&path).ok().and_then(|path| values_at(&path, live).into_iter().next());
                let at: Vec<Step<'_>> = path.split('/').nth(1).map(Step::Field).into_iter().collect();
                let (_, new) = self.secrets.values(&object.id, &Difference { at, old: None, new: found });
                changes.push(Change { path, old: None, new, manager: Some(manager.clone()) });
            }
        }
    }
}
