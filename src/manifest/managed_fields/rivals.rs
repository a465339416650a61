use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::fields::{Child, Fields, Step};
use super::fingerprint::{is_ours, ours};
use crate::manifest::pointer::{by_name, escape};

/// Fields of a body that another manager owns now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Name of the field manager.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// `scale`, `status`; `None` for the object itself.
    pub subresource: Option<String>,
    /// When that manager last changed its fields.
    pub time: Option<Timestamp>,
    /// JSON pointers in which a list element stands as its key: `/spec/containers[name=web]/image`.
    pub paths: Vec<String>,
}

/// Who owns what `body` sets and we own no longer; the newest change first.
///
/// `body` is what we applied, `managed_fields` those of the live object. A field that another manager removed has no
/// owner and appears in [`lost_paths`] only.
#[must_use]
pub fn rivals(body: &Value, managed_fields: &[ManagedFieldsEntry]) -> Vec<Taken> {
    let lost = lost(body, managed_fields);
    let mut taken: Vec<Taken> = managed_fields
        .iter()
        .filter(|entry| !is_ours(entry))
        .filter_map(|entry| {
            let theirs = Fields::of(entry);
            let paths: Vec<String> =
                lost.iter().filter(|path| covers(theirs, path)).map(|path| display(path, theirs)).collect();
            (!paths.is_empty()).then(|| Taken {
                manager: entry.manager.clone().unwrap_or_default(),
                operation: entry.operation.clone().unwrap_or_default(),
                subresource: entry.subresource.clone().filter(|name| !name.is_empty()),
                time: entry.time.as_ref().map(|time| time.0),
                paths,
            })
        })
        .collect();
    taken.sort_by_key(|taken| std::cmp::Reverse(taken.time));
    taken
}

/// What `body` sets and we own no longer, whichever manager has it now; in the notation of [`Taken::paths`].
///
/// A subtree that is lost as a whole is one path.
#[must_use]
pub fn lost_paths(body: &Value, managed_fields: &[ManagedFieldsEntry]) -> Vec<String> {
    let nobody = Fields::new(None);
    lost(body, managed_fields).iter().map(|path| display(path, nobody)).collect()
}

/// Whether an autoscaler sets the replicas: it owns `spec.replicas` through the `scale` subresource.
///
/// The rule by name: `kube-controller-manager` (the HorizontalPodAutoscaler runs in it), or a name that contains
/// `autoscal`, `keda`, `hpa` or `vpa`. Anyone else who scales, `kubectl scale` above all, is a person or a
/// tool whose change is drift.
#[must_use]
pub fn autoscaled(managed_fields: &[ManagedFieldsEntry]) -> bool {
    managed_fields.iter().any(|entry| {
        entry.subresource.as_deref() == Some("scale")
            && entry.manager.as_deref().is_some_and(is_autoscaler)
            && entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
    })
}

fn is_autoscaler(manager: &str) -> bool {
    let manager = manager.to_ascii_lowercase();
    manager == "kube-controller-manager"
        || ["autoscal", "keda", "hpa", "vpa"].iter().any(|part| manager.contains(part))
}

/// JSON pointers into `body` to CA bundles that an injector has taken over: of webhook configurations, APIServices
/// and the conversion of CRDs. They fit [`remove_pointer`](crate::manifest::remove_pointer), and call a webhook by its
/// name: a later revision may have it at another place.
///
/// A manager whose name starts with `kubectl` is a person, and what a person sets is drift.
#[must_use]
pub fn taken_ca_bundles(body: &Value, managed_fields: &[ManagedFieldsEntry]) -> Vec<String> {
    let injectors: Vec<Fields<'_>> = managed_fields
        .iter()
        .filter(|entry| {
            !is_ours(entry) && !entry.manager.as_deref().unwrap_or_default().starts_with("kubectl")
        })
        .map(Fields::of)
        .collect();
    lost(body, managed_fields)
        .iter()
        .filter(|path| matches!(path.last(), Some(Step::Field("caBundle"))))
        .filter(|path| injectors.iter().any(|theirs| covers(*theirs, path)))
        .map(pointer)
        .filter(|pointer| {
            pointer == "/spec/caBundle"
                || pointer == "/spec/conversion/webhook/clientConfig/caBundle"
                || (pointer.starts_with("/webhooks") && pointer.ends_with("/clientConfig/caBundle"))
        })
        .collect()
}

type Path<'a> = Vec<Step<'a>>;

fn lost<'a>(body: &'a Value, managed_fields: &[ManagedFieldsEntry]) -> Vec<Path<'a>> {
    let ours = Fields::of(ours(managed_fields));
    let mut found = Vec::new();
    let Value::Object(top) = body else { return found };
    for (name, value) in top {
        match name.as_str() {
            // Identity: no manager owns it.
            "apiVersion" | "kind" => {}
            "metadata" => {
                let ours = match ours.child(Step::Field(name)) {
                    Child::Inner(inner) => inner,
                    Child::Absent | Child::Leaf => Fields::new(None),
                };
                for (field, value) in value.as_object().into_iter().flatten() {
                    if !matches!(field.as_str(), "name" | "namespace" | "uid") {
                        walk(ours, vec![Step::Field(name), Step::Field(field)], value, &mut found);
                    }
                }
            }
            _ => walk(ours, vec![Step::Field(name)], value, &mut found),
        }
    }
    found
}

/// Collects what lies at or below the last step of `path` and is not in `parent`.
fn walk<'a>(parent: Fields<'_>, path: Path<'a>, value: &'a Value, found: &mut Vec<Path<'a>>) {
    let Some(step) = path.last() else { return };
    if value.is_null() {
        return;
    }
    let inner = match parent.child(*step) {
        Child::Absent => return found.push(path),
        Child::Leaf => return,
        Child::Inner(inner) => inner,
    };
    let extended = |step| path.iter().copied().chain([step]).collect::<Path<'a>>();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                walk(inner, extended(Step::Field(name)), value, found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(inner, extended(Step::Element(i, item)), item, found);
            }
        }
        _ => {}
    }
}

/// Whether the set contains the path, a part of it, or an atomic parent of it.
pub(in crate::manifest) fn covers(mut fields: Fields<'_>, path: &[Step<'_>]) -> bool {
    for step in path {
        match fields.child(*step) {
            Child::Absent => return false,
            Child::Leaf => return true,
            Child::Inner(inner) => fields = inner,
        }
    }
    true
}

fn pointer(path: &Path<'_>) -> String {
    path.iter()
        .map(|step| match step {
            Step::Field(name) => format!("/{}", escape(name)),
            Step::Element(index, element) => match element.get("name").and_then(Value::as_str) {
                Some(name) => by_name(name),
                None => format!("/{index}"),
            },
        })
        .collect()
}

/// `fields` knows the keys of list elements; without it an element is called by its `name`, else by its index.
fn display(path: &Path<'_>, fields: Fields<'_>) -> String {
    let mut text = String::new();
    let mut here = fields;
    for step in path {
        match step {
            Step::Field(name) => {
                text.push('/');
                text.push_str(&escape(name));
            }
            Step::Element(index, element) => {
                let by_name = || Some(format!("[name={}]", element.get("name")?.as_str()?));
                let name = here.element_name(*step).or_else(by_name).unwrap_or_else(|| format!("/{index}"));
                text.push_str(&name);
            }
        }
        here = match here.child(*step) {
            Child::Inner(inner) => inner,
            Child::Absent | Child::Leaf => Fields::new(None),
        };
    }
    text
}

#[cfg(test)]
#[path = "rivals_tests.rs"]
mod tests;
