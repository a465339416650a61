//! The manifest of a release that another tool installs, and what is sent to put one of its objects back.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

use super::{REPLICAS, autoscaled};
use crate::api::names;
use crate::manifest::managed_fields::ignore::{Wishes, as_held, as_live};
use crate::manifest::managed_fields::{self, Holder, as_ours, held, lost_paths};
use crate::manifest::{Error, Object, ObjectId, remove_pointer, yaml};

/// An object that another tool installs.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarded {
    /// In normal form: what it is, and what is told of it.
    pub object: Object,
    /// As its installer sends it.
    pub body: Value,
}

/// The objects of a manifest. Lists are taken apart, as their installers do.
///
/// # Errors
/// Of the first document that is no YAML or no object. A part of a manifest is not guarded: what cannot be read may be
/// anything.
pub fn documents(manifest: &str, file: &str) -> Result<Vec<Guarded>, Error> {
    let mut found = Vec::new();
    for document in yaml::parse_documents(manifest, file)? {
        take(document, &mut found)?;
    }
    Ok(found)
}

fn take(document: Value, found: &mut Vec<Guarded>) -> Result<(), Error> {
    let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
    let is_list = kind.ends_with("List") && document.pointer("/metadata/name").is_none();
    match document.get("items").and_then(Value::as_array).filter(|_| is_list) {
        Some(items) => items.iter().try_for_each(|item| take(item.clone(), found)),
        None => {
            found.push(Guarded { object: Object::from_value(document.clone())?, body: document });
            Ok(())
        }
    }
}

impl Guarded {
    /// It is not locked: its manifest says so, or it is a hook, which comes and goes.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let is_hook =
            [names::HOOK, names::HELM_HOOK].iter().any(|hook| self.object.annotation(hook).is_some());
        is_hook || self.object.unlocked()
    }

    /// The same in a namespace, or in none for a kind that has none.
    #[must_use]
    pub fn within(self, namespace: Option<&str>) -> Self {
        let Self { object, mut body } = self;
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            match namespace {
                Some(namespace) => metadata.insert("namespace".to_owned(), namespace.into()),
                None => metadata.remove("namespace"),
            };
        }
        Self { object: object.with_namespace(namespace), body }
    }

    /// The same with what Helm puts on everything that it installs and that is not in its manifest. Without it a later
    /// upgrade refuses an object that was made again.
    #[must_use]
    pub fn marked_by_helm(mut self, release: &str, namespace: &str) -> Self {
        let marks = [
            ("labels", names::MANAGED_BY, names::MANAGED_BY_HELM),
            ("annotations", names::HELM_RELEASE_NAME, release),
            ("annotations", names::HELM_RELEASE_NAMESPACE, namespace),
        ];
        for (field, key, value) in marks {
            set(&mut self.body, field, key, value);
            match field {
                "labels" => self.object.set_label(key, value),
                _ => self.object.set_annotation(key, value),
            }
        }
        self
    }

    /// The same without what `wishes` leave to others: that is as it is in the `live` object. `managed` are its managedFields,
    /// with the installer's in our place; `applies`: he holds the object by server-side apply.
    #[must_use]
    pub fn leaving(
        &self,
        wishes: &Wishes<'_>,
        live: &Value,
        managed: &[ManagedFieldsEntry],
        applies: bool,
    ) -> Self {
        let sent = Object { body: self.body.clone(), ..self.object.clone() };
        // A patch with the value that is there changes nothing.
        let rest = if applies { as_held } else { as_live };
        let mut body = rest(&sent, wishes, live, managed);
        if let Some(texts) = body.get_mut("stringData").and_then(Value::as_object_mut) {
            // It is kept, and spoken of, as `data`.
            let left = as_live(&self.object, wishes, live, managed);
            let of = |body: &Value, key: &str| body.get("data").and_then(|data| data.get(key)).cloned();
            texts.retain(|key, text| {
                let value = of(&left, key);
                if value == of(&self.object.body, key) {
                    return true;
                }
                let Some(now) = value.and_then(|value| decoded(value.as_str()?)) else { return false };
                *text = now.into();
                true
            });
        }
        Self { object: self.object.clone(), body }
    }
}

/// The text of a value of a Secret, if it is one.
#[must_use]
pub fn decoded(value: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(value).ok()?).ok()
}

fn set(body: &mut Value, field: &str, key: &str, value: &str) {
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let map = metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    if let Some(map) = map.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Workloads whose replicas an autoscaler of the same manifest sets. What names no namespace is in `namespace`.
#[must_use]
pub fn scaled(guarded: &[Guarded], namespace: &str) -> BTreeSet<ObjectId> {
    let placed = |guarded: &Guarded| {
        let own = guarded.object.id.namespace.clone().unwrap_or_else(|| namespace.to_owned());
        guarded.object.clone().with_namespace(Some(&own))
    };
    let objects: Vec<Object> = guarded.iter().map(placed).collect();
    autoscaled(&objects)
}

/// What is sent to put a live object back.
///
/// `taken` are pointers to fields that others took by trade: they are left to them. `scaled` says that an autoscaler
/// sets the replicas, whichever manager holds them at the moment. What an installer that applies still holds itself cannot be left
/// out, because that would reset it: it is sent as it is.
#[must_use]
pub fn revert_body(
    guarded: &Guarded,
    holder: &Holder,
    live: &Value,
    taken: &[String],
    scaled: bool,
) -> Value {
    let mut body = guarded.body.clone();
    for pointer in taken {
        remove_pointer(&mut body, pointer);
    }
    let managed: Vec<ManagedFieldsEntry> = live
        .pointer("/metadata/managedFields")
        .and_then(|entries| serde_json::from_value(entries.clone()).ok())
        .unwrap_or_default();
    let lost = lost_paths(&guarded.body, &as_ours(&managed, holder));
    let is_lost = |pointer: &str| {
        let covers = |path: &String| {
            pointer.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        lost.iter().any(covers)
    };
    let aggregated = guarded.object.id.kind == "ClusterRole" && guarded.body.get("aggregationRule").is_some();
    for (pointer, by_trade) in [(REPLICAS, scaled), ("/rules", aggregated)] {
        if !by_trade || body.pointer(pointer).is_none() {
            continue;
        }
        match live.pointer(pointer).filter(|_| holder.applies && !is_lost(pointer)) {
            Some(value) => {
                let value = value.clone();
                if let Some(field) = body.pointer_mut(pointer) {
                    *field = value;
                }
            }
            None => drop(remove_pointer(&mut body, pointer)),
        }
    }
    if let Some(version) = live.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
        // A manager that writes in between, the installer above all, is not overwritten.
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
    }
    body
}

/// Whether a write would change anything: a value, or what `holder` holds if it applies.
#[must_use]
pub fn would_change(live: &Value, would: &Value, holder: Option<&Holder>) -> bool {
    let applies = holder.filter(|holder| holder.applies);
    bare(live) != bare(would) || applies.is_some_and(|holder| held_of(live, holder) != held_of(would, holder))
}

fn held_of(object: &Value, holder: &Holder) -> Option<Value> {
    let entries = object.pointer("/metadata/managedFields")?;
    let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries.clone()).ok()?;
    held(&entries, holder).cloned()
}

/// The object without what every write changes, and without what only its controller writes.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    for pointer in ["/metadata/managedFields", "/metadata/resourceVersion", "/metadata/generation", "/status"]
    {
        remove_pointer(&mut object, pointer);
    }
    object
}

/// The Helm release that an object says it belongs to, when that is another one.
#[must_use]
pub fn other_helm_release(live: &Value, release: &str, namespace: &str) -> Option<String> {
    let annotation = |key: &str| live.pointer("/metadata/annotations")?.get(key)?.as_str();
    let name = annotation(names::HELM_RELEASE_NAME)?;
    let within = annotation(names::HELM_RELEASE_NAMESPACE).unwrap_or(namespace);
    (name != release || within != namespace).then(|| format!("{within}/{name}"))
}

/// How an object is held by its installer.
#[must_use]
pub fn helm_holder(live: &Value) -> Option<Holder> {
    let entries = live.pointer("/metadata/managedFields")?;
    let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries.clone()).ok()?;
    managed_fields::helm_holder(&entries)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::api::{DriftIgnore, IgnoreRule};
    use crate::manifest::managed_fields::ignore::wishes;

    fn rule(paths: &[&str]) -> Arc<IgnoreRule> {
        let rule: DriftIgnore = serde_json::from_value(json!({ "paths": paths })).unwrap();
        Arc::new(IgnoreRule::parse(&rule).unwrap())
    }

    const MANIFEST: &str = "---\n# Source: shop/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  color: blue\n---\n# Source: empty\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ServiceAccount, metadata: {name: b}}\n";

    fn applied() -> Holder {
        Holder { manager: "helm".to_owned(), applies: true }
    }

    fn patched() -> Holder {
        Holder { applies: false, ..applied() }
    }

    fn deployment() -> Guarded {
        let manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2, paused: false}\n";
        documents(manifest, "m").unwrap().remove(0)
    }

    fn live(owns_replicas: bool) -> Value {
        let replicas =
            if owns_replicas { json!({"f:replicas": {}, "f:paused": {}}) } else { json!({"f:paused": {}}) };
        json!({"metadata": {"resourceVersion": "7", "managedFields": [
            {"manager": "helm", "operation": "Apply", "fieldsV1": {"f:spec": replicas}},
        ]}, "spec": {"replicas": 5, "paused": false}})
    }

    #[test]
    fn documents_are_taken_apart_and_marked_as_helm_marks_them() {
        let found = documents(MANIFEST, "m").unwrap();
        let names: Vec<&str> = found.iter().map(|guarded| guarded.object.id.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let marked = found[0].clone().within(Some("apps")).marked_by_helm("shop", "apps");
        assert_eq!(
            marked.body["metadata"],
            json!({"name": "a", "namespace": "apps",
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "apps"}})
        );
        assert_eq!(marked.object.label("app.kubernetes.io/managed-by"), Some("Helm"));
        assert_eq!(found[1].clone().within(None).object.id.namespace, None);
        assert!(documents("a: [", "m").is_err());
        assert!(documents("---\nkind: A\n", "m").is_err(), "a part of a manifest is no manifest");
    }

    #[test]
    fn replicas_of_an_autoscaler_are_not_reset() {
        let body = |holder: &Holder, live: &Value, taken: &[String], scaled| {
            revert_body(&deployment(), holder, live, taken, scaled)["spec"].clone()
        };
        let kept = json!({"replicas": 5, "paused": false});
        let without = json!({"paused": false});
        let plain = json!({"replicas": 2, "paused": false});
        assert_eq!(body(&applied(), &live(true), &[], false), plain);
        assert_eq!(body(&applied(), &live(true), &[], true), kept, "left out it would be reset");
        assert_eq!(body(&applied(), &live(false), &[], true), without, "not taken either");
        assert_eq!(body(&patched(), &live(true), &[], true), without);
        assert_eq!(body(&applied(), &live(false), &[REPLICAS.to_owned()], false), without);
    }

    #[test]
    fn what_a_rule_leaves_to_others_is_neither_reset_nor_taken() {
        let rules = [rule(&["/spec/replicas"])];
        let body = |holder: &Holder, live: &Value| {
            let guarded = deployment();
            let entries: Vec<ManagedFieldsEntry> =
                serde_json::from_value(live["metadata"]["managedFields"].clone()).unwrap();
            let wishes = wishes(&rules, &guarded.object).unwrap();
            let managed = as_ours(&entries, holder);
            guarded.leaving(&wishes, live, &managed, holder.applies).body["spec"].clone()
        };
        let kept = json!({"replicas": 5, "paused": false});
        assert_eq!(body(&applied(), &live(true)), kept, "left out it would be reset");
        assert_eq!(
            body(&applied(), &live(false)),
            json!({"paused": false}),
            "it is another's, and stays his"
        );
        assert_eq!(body(&patched(), &live(true)), kept);
        let mut without = live(false);
        without["spec"].as_object_mut().unwrap().remove("replicas");
        assert_eq!(body(&patched(), &without), json!({"paused": false}));
    }

    #[test]
    fn a_value_of_a_secret_is_left_to_others_however_it_is_written() {
        let manifest =
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: one, b: two, c: three}\n";
        let guarded = documents(manifest, "m").unwrap().remove(0);
        let rules = [rule(&["/data/a", "/data/c"])];
        let wishes = wishes(&rules, &guarded.object).unwrap();
        let live = json!({"data": {"a": STANDARD.encode("ein"), "b": STANDARD.encode("zwei")}});
        let left = guarded.leaving(&wishes, &live, &[], false);
        assert_eq!(left.body["stringData"], json!({"a": "ein", "b": "two"}));
    }

    #[test]
    fn the_object_that_was_looked_at_is_the_one_that_is_written() {
        let body = revert_body(&deployment(), &patched(), &live(true), &[], false);
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!(deployment().body["metadata"].get("resourceVersion"), None);
    }

    #[test]
    fn a_write_that_changes_nothing_is_told_from_one_that_does() {
        let before = live(true);
        let mut after = before.clone();
        after["metadata"]["resourceVersion"] = json!("8");
        after["metadata"]["generation"] = json!(2);
        after["status"] = json!({"replicas": 5});
        assert!(!would_change(&before, &after, Some(&applied())));
        after["metadata"]["managedFields"] = live(false)["metadata"]["managedFields"].clone();
        assert!(would_change(&before, &after, Some(&applied())), "the installer has lost a field");
        assert!(!would_change(&before, &after, None));
        assert!(!would_change(&before, &after, Some(&patched())), "that a patch cannot mend");
        after["spec"]["replicas"] = json!(6);
        assert!(would_change(&before, &after, Some(&patched())));
    }

    #[test]
    fn an_object_of_another_release_is_told() {
        let live = |name: &str, namespace: &str| {
            json!({"metadata": {"annotations": {
                "meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace}}})
        };
        assert_eq!(other_helm_release(&live("shop", "apps"), "shop", "apps"), None);
        assert_eq!(other_helm_release(&json!({"metadata": {}}), "shop", "apps"), None);
        assert_eq!(other_helm_release(&live("other", "apps"), "shop", "apps").as_deref(), Some("apps/other"));
        assert_eq!(other_helm_release(&live("shop", "x"), "shop", "apps").as_deref(), Some("x/shop"));
    }
}
