//! Whose the objects are that an operation is about to write.
//!
//! All are judged before anything is stored or written, so that one object of others leaves the cluster as it is. What was not there
//! then is created only if it still is not: what comes between is judged in its turn.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use serde_json::Value;

use crate::api::{Adopt, names};
use crate::cluster::{Applied, Error, Holder, Meta, Mode, fingerprint_of};
use crate::manifest::{Object, ObjectId, defining};
use crate::plan::{self, Hook};
use crate::reconcile::objects::Objects;
use crate::reconcile::objects::field_handover::Found;
use crate::release::Private;
use crate::storage::Stored;

/// Questions under way for one release.
const PARALLEL: usize = 8;
/// How often something that is not there is created before it is applied like anything else.
const ROUNDS: usize = 3;

/// What an operation finds of the objects that no earlier revision applied.
#[derive(Default)]
pub(in crate::reconcile) struct Survey {
    /// Those that are there, and may be taken.
    pub(in crate::reconcile) found: Vec<Found>,
    /// Those of them that this line of revisions has not made.
    pub(in crate::reconcile) adopted: BTreeSet<ObjectId>,
    /// Those of the latter that carry its mark all the same.
    pub(in crate::reconcile) unexplained: BTreeSet<ObjectId>,
    /// Those that are not there.
    pub(in crate::reconcile) absent: BTreeSet<ObjectId>,
}

impl Objects<'_> {
    /// Refuses to touch an object that exists and that another owner has. Only objects that no earlier revision
    /// applied cost a call, and all of them as long as none was deployed; what this very line of revisions made passes. `before`: in
    /// which revision the objects that the records know last changed, if records can say.
    pub(in crate::reconcile) async fn check_ownership(
        &self,
        objects: &[Object],
        private: &Private,
        before: Option<&BTreeMap<ObjectId, u32>>,
    ) -> Result<Survey, Error> {
        // Nothing locked what a failed first install had made: others may have made it anew.
        let doubted = private.last_deployed.is_none() && private.unreachable.is_none();
        let inventory = private.inventory.iter();
        let made: &BTreeMap<&ObjectId, &str> =
            &inventory.clone().filter_map(|entry| Some((&entry.id, entry.uid.as_deref()?))).collect();
        let trusted: BTreeSet<&ObjectId> = inventory
            .filter(|entry| entry.uid.is_some() && (!doubted || entry.ran.is_some()))
            .map(|entry| &entry.id)
            .collect();
        // Definitions were judged before.
        let unknown =
            objects.iter().filter(|object| !trusted.contains(&object.id) && !object.id.is_definition());
        let checks = unknown.map(|object| async move {
            let meta = match made.get(&object.id) {
                Some(_) => self.scope.cluster.metadata(&object.api_version, &object.id).await,
                None => self.present(object).await,
            };
            let meta = match meta {
                // What this revision defines itself cannot be there yet.
                Err(Error::UnknownKind { .. })
                    if defining(objects, &object.api_version, &object.id.kind).is_some() =>
                {
                    None
                }
                meta => meta?,
            };
            Ok::<_, Error>((object, meta))
        });
        let checked: Vec<_> = stream::iter(checks.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
        let mut survey = Survey::default();
        for result in checked {
            let (object, meta) = result?;
            let Some(meta) = meta else {
                survey.absent.insert(object.id.clone());
                continue;
            };
            let made = made.get(&object.id).copied();
            let ours = is_made_by(&private.owner.uid, made, object, &meta, before);
            if ours && made.is_some() {
                continue;
            }
            if let Some(obstacle) = self.obstacle(&object.id, &meta, &private.owner.uid) {
                return Err(obstacle);
            }
            if !ours {
                survey.adopted.insert(object.id.clone());
                if plan::is_marked(meta.annotations.as_ref(), &private.owner.uid) {
                    survey.unexplained.insert(object.id.clone());
                }
            }
            survey.found.push((object.id.clone(), meta.managed_fields.unwrap_or_default()));
        }
        Ok(survey)
    }

    /// Objects that an operation has made before this process began, and in whose place there is nothing or another object now.
    /// Once a revision was deployed the lock would put them back; before that they may be another owner's.
    pub(in crate::reconcile) async fn made_anew(&self, stored: &Stored) -> Result<BTreeSet<ObjectId>, Error> {
        let first = |private: &&Private| private.last_deployed.is_none() && private.unreachable.is_none();
        let inventory = stored.private.as_ref().filter(first).map_or(&[][..], |private| &private.inventory);
        let mut anew = BTreeSet::new();
        for entry in inventory.iter().filter(|entry| entry.uid.is_some() && !plan::is_job(&entry.id)) {
            let live = self.scope.cluster.metadata(&entry.api_version, &entry.id).await?;
            if live.is_none_or(|live| live.uid != entry.uid) {
                anew.insert(entry.id.clone());
            }
        }
        Ok(anew)
    }

    /// Refuses a hook in whose place an ordinary object of this line of revisions stands that no record explains: a revision
    /// whose record is lost may have adopted it, and then it does not make way.
    pub(in crate::reconcile) async fn check_hooks(
        &self,
        hooks: &[Hook],
        uid: &str,
        before: Option<&BTreeMap<ObjectId, u32>>,
    ) -> Result<(), Error> {
        for Hook { object, .. } in hooks {
            let meta = match self.scope.cluster.metadata(&object.api_version, &object.id).await {
                // What the revision defines itself cannot be there yet.
                Err(Error::UnknownKind { .. }) => None,
                meta => meta?,
            };
            let Some(meta) = meta else { continue };
            let annotations = meta.annotations.as_ref();
            let ran = annotations.is_some_and(|all| all.contains_key(names::HOOK_RUN));
            let ordinary = !ran && plan::is_marked(annotations, uid);
            if ordinary && !is_made_by(uid, None, object, &meta, before) {
                return Err(Error::NotOwned { id: object.id.clone(), holder: Holder::Unknown });
            }
        }
        Ok(())
    }

    /// The metadata of an object, if it is there. That it is not may be out of date, see [`Objects::apply_absent`]; not where
    /// objects of others are taken over, with what is left to those others.
    async fn present(&self, object: &Object) -> Result<Option<Meta>, Error> {
        let Object { api_version, id, .. } = object;
        if self.scope.settings.adopt == Adopt::Unowned
            || self.scope.cluster.is_cached(api_version, id).await?
        {
            return self.scope.cluster.metadata(api_version, id).await;
        }
        Ok(None)
    }

    /// Why the line of revisions `uid` may not take an object, if it may not.
    pub(in crate::reconcile) fn obstacle(&self, id: &ObjectId, meta: &Meta, uid: &str) -> Option<Error> {
        if meta.deletion_timestamp.is_some() {
            return Some(Error::Terminating { id: id.clone() });
        }
        let marked_by = plan::marked_by(meta.annotations.as_ref());
        if marked_by == Some(uid) {
            return None;
        }
        let holder = match marked_by.and_then(|uid| self.scope.ctx.living(uid)) {
            Some(owner) => Holder::Release(owner.to_string()),
            None if self.scope.settings.adopt == Adopt::Unowned => return None,
            None if marked_by.is_some() && plan::is_kept(meta.annotations.as_ref()) => Holder::Kept,
            None => {
                let helm = meta.annotations.as_ref().and_then(|all| all.get("meta.helm.sh/release-name"));
                helm.map_or(Holder::Unknown, |name| Holder::Helm(name.clone()))
            }
        };
        Some(Error::NotOwned { id: id.clone(), holder })
    }

    /// Applies an object that was not there. If it is by now, it is judged first.
    pub(in crate::reconcile) async fn apply_absent(
        &self,
        object: &Object,
        body: &Value,
        uid: &str,
    ) -> Result<Applied, Error> {
        let Object { api_version, id, .. } = object;
        for _ in 0..ROUNDS {
            if let Some(made) = self.scope.cluster.apply_new(api_version, id, body).await? {
                return Ok(made);
            }
            if let Some(meta) = self.scope.cluster.metadata(api_version, id).await? {
                if let Some(obstacle) = self.obstacle(id, &meta, uid) {
                    return Err(obstacle);
                }
                if !plan::is_marked(meta.annotations.as_ref(), uid) {
                    return Err(Error::Appeared { id: id.clone() });
                }
                break;
            }
            // It has gone again, or the conflict was about something else, such as a quota.
        }
        self.scope.cluster.apply(api_version, id, body, Mode::Real).await
    }
}

/// Whether the line of revisions `uid` made a live object, of which its record knows the uid `made`, or none. Where it knows
/// another, the object was made anew: a process of ours that died before that was written down has applied it, and a copy
/// that carries our marks none of our releases has. Where it knows none the marks count, as far as a record explains them: a revision
/// whose record is lost may have adopted the object. What was left in the cluster because its policy says so is in no record.
fn is_made_by(
    uid: &str,
    made: Option<&str>,
    object: &Object,
    live: &Meta,
    before: Option<&BTreeMap<ObjectId, u32>>,
) -> bool {
    let Some(before) = before else { return false };
    let annotations = live.annotations.as_ref();
    let same = made.is_some() && made == live.uid.as_deref();
    let known = before.get(&object.id).is_some_and(|changed_in| plan::explains(*changed_in, annotations));
    let kept = object.keep() && plan::is_kept(annotations);
    let marked = plan::is_marked(annotations, uid) && (known || kept);
    same || (marked && (made.is_none() || fingerprint_of(live).is_some()))
}

/// Objects that no revision is known to have applied. Definitions are judged in their own way.
pub(in crate::reconcile) fn never_applied(stored: &Stored) -> BTreeSet<ObjectId> {
    let entries = stored.private.iter().flat_map(|private| &private.inventory);
    entries
        .filter(|entry| entry.uid.is_none() && entry.adopted.is_none() && !entry.id.is_definition())
        .map(|entry| entry.id.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_others_made_anew_is_not_made_by_us_whatever_marks_it_copies() {
        let meta = |uid: &str, marked: bool, applied: bool| -> Meta {
            let mut meta = json!({"uid": uid});
            if marked {
                meta["annotations"] = json!({"sherpack.io/applied": "line.1"});
            }
            let manager = if applied { "sherpack" } else { "kubectl-create" };
            meta["managedFields"] = json!([{"manager": manager, "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": Value::Null}}]);
            serde_json::from_value(meta).unwrap()
        };
        let object =
            Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
        let object = object.unwrap();
        let before = BTreeMap::from([(object.id.clone(), 1)]);
        let ours = |made: Option<&str>, meta: &Meta| is_made_by("line", made, &object, meta, Some(&before));
        assert!(ours(Some("a"), &meta("a", true, true)));
        assert!(ours(Some("a"), &meta("a", false, false)), "somebody took our marks off");
        assert!(!ours(Some("a"), &meta("b", false, false)));
        assert!(!ours(Some("a"), &meta("b", true, false)), "a copy");
        assert!(ours(Some("a"), &meta("b", true, true)), "made by a process that could not write it down");
        assert!(ours(None, &meta("b", true, false)) && !ours(None, &meta("b", false, false)));
        assert!(!is_made_by("another", None, &object, &meta("b", true, true), Some(&before)));
        let older = BTreeMap::from([(object.id.clone(), 0)]);
        let marked = meta("b", true, true);
        assert!(
            !is_made_by("line", None, &object, &marked, Some(&older)),
            "of a revision whose record is lost"
        );
        assert!(!is_made_by("line", None, &object, &marked, Some(&BTreeMap::new())), "in no record");
        assert!(!is_made_by("line", None, &object, &marked, None));
    }
}
