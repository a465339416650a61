//! One example for every kind of change with every severity that it can have: for the document, and for tests.

pub(super) mod document;
mod schemas;
mod whole;

use serde_json::{Map, Value, json};

use super::{Kind, Severity};

/// Two definitions that differ in one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// What they differ in.
    pub kind: Kind,
    /// How bad that is.
    pub severity: Severity,
    /// Whether an API server would hold the old one: some exist in old clusters or for a moment only.
    pub creatable: bool,
    /// Before.
    pub old: Value,
    /// After, under the same name.
    pub new: Value,
}

/// All examples, in the order of [`Kind::ALL`].
#[must_use]
pub fn examples() -> Vec<Example> {
    let mut all = whole::examples();
    all.extend(schemas::examples());
    all.sort_by_key(|example| (example.kind, example.severity));
    all
}

fn example(kind: Kind, severity: Severity, old: Value, new: Value) -> Example {
    Example { kind, severity, creatable: true, old, new }
}

/// `widgets.example.com` with one version.
fn widget() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1", json!({"type": "object", "properties": {"size": {"type": "integer"}}}))],
        },
    })
}

/// A served and stored version whose objects have this `spec`.
fn version(name: &str, spec: Value) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    })
}

/// With something put at a JSON pointer; the parents are made.
fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut document;
    for part in pointer.split('/').skip(1) {
        if let (Ok(index), Some(list)) = (part.parse::<usize>(), place.as_array()) {
            if list.len() <= index
                && let Some(list) = place.as_array_mut()
            {
                list.push(Value::Null);
            }
            place = &mut place[index];
        } else {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[part];
        }
    }
    *place = value;
    document
}
