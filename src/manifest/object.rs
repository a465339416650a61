use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Error, ObjectId, id::group_of, normalise};
use crate::api::names;

/// One Kubernetes object as a manifest gives it.
///
/// Invariant: `body` is normalised (see [`normalise()`]) and agrees with `id` and `api_version`.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Which object.
    pub id: ObjectId,
    /// `apps/v1`.
    pub api_version: String,
    /// The whole object, `apiVersion` and `kind` included.
    pub body: Value,
    /// When the pack that it is of has its turn: 0 first. Other than 0 only for what packs with packs inside render.
    pub layer: u32,
}

impl Object {
    /// Takes one document and normalises it.
    ///
    /// # Errors
    /// When `apiVersion`, `kind` or `metadata.name` is missing, when the name is left to the server, or when
    /// the document is a list.
    pub fn from_value(mut body: Value) -> Result<Self, Error> {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).filter(|s| !s.is_empty());
        let kind = text("/kind");
        let name = text("/metadata/name");
        let called = || match (kind, name) {
            (Some(kind), Some(name)) => format!("{kind}/{name}"),
            (Some(kind), None) => kind.to_owned(),
            (None, Some(name)) => format!("object {name}"),
            (None, None) => "object".to_owned(),
        };
        let missing = |field| Error::MissingField { object: called(), field };

        let kind = kind.ok_or_else(|| missing("kind"))?;
        let api_version = text("/apiVersion").ok_or_else(|| missing("apiVersion"))?;
        if is_list(&body) {
            return Err(Error::IsList { kind: kind.to_owned() });
        }
        if body.get("metadata").is_some_and(|m| !m.is_object()) {
            return Err(Error::NotAMap { object: called(), field: "metadata" });
        }
        if let (Some(prefix), None) = (text("/metadata/generateName"), name) {
            return Err(Error::GenerateName { object: format!("{kind}/{prefix}") });
        }
        let name = name.ok_or_else(|| missing("metadata.name"))?;
        if text("/metadata/generateName").is_some() {
            return Err(Error::GenerateName { object: called() });
        }
        let id = ObjectId {
            group: group_of(api_version).to_owned(),
            kind: kind.to_owned(),
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: name.to_owned(),
        };
        let api_version = api_version.to_owned();
        normalise(&mut body);
        Ok(Self { id, api_version, body, layer: 0 })
    }

    /// The same object in a layer.
    #[must_use]
    pub fn in_layer(mut self, layer: u32) -> Self {
        self.layer = layer;
        self
    }

    /// The same object in `namespace`; `None` removes the field, as a cluster-scoped object needs it.
    ///
    /// Which of the two is right is known only from discovery, so the caller says.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Option<&str>) -> Self {
        self.id.namespace = namespace.map(str::to_owned);
        if let Some(metadata) = self.body.get_mut("metadata").and_then(Value::as_object_mut) {
            match namespace {
                Some(namespace) => metadata.insert("namespace".into(), namespace.into()),
                None => metadata.remove("namespace"),
            };
        }
        self
    }

    /// Value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata_map("labels")?.get(key)?.as_str()
    }

    /// Value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata_map("annotations")?.get(key)?.as_str()
    }

    /// Sets a label in the body.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set_metadata("labels", key, value);
    }

    /// Sets an annotation in the body.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.set_metadata("annotations", key, value);
    }

    /// Whether the object outlives its release: `sherpack.io/resource-policy: keep`. Helm's spelling counts when ours
    /// is not set.
    #[must_use]
    pub fn keep(&self) -> bool {
        self.annotation(names::RESOURCE_POLICY)
            .or_else(|| self.annotation(names::HELM_RESOURCE_POLICY))
            .is_some_and(|value| value.trim() == names::KEEP)
    }

    /// Whether others may change the object: `sherpack.io/drift: ignore`.
    #[must_use]
    pub fn unlocked(&self) -> bool {
        self.annotation(names::DRIFT).is_some_and(|value| value.trim() == names::IGNORE)
    }

    fn metadata_map(&self, field: &str) -> Option<&Map<String, Value>> {
        self.body.get("metadata")?.get(field)?.as_object()
    }

    fn set_metadata(&mut self, field: &str, key: &str, value: &str) {
        let Some(metadata) = self.body.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let map = metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
        if !map.is_object() {
            *map = Value::Object(Map::new());
        }
        if let Some(map) = map.as_object_mut() {
            map.insert(key.to_owned(), value.into());
        }
    }
}

/// Whether a document is a `List`, or a typed list such as `ConfigMapList`, with its `items`.
///
/// A custom resource may have a kind that ends in `List` and an `items` field of its own, so a typed list counts
/// only without `metadata.name`: a list has none.
pub(super) fn is_list(body: &Value) -> bool {
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or_default();
    let core = body.get("apiVersion").and_then(Value::as_str) == Some("v1");
    (kind == "List" && core)
        || (kind.ends_with("List")
            && body.get("items").is_some_and(Value::is_array)
            && body.pointer("/metadata/name").is_none())
}

/// The first object, in order, that an earlier one has already named.
#[must_use]
pub fn duplicates(objects: &[Object]) -> Option<ObjectId> {
    let mut seen = BTreeSet::new();
    objects.iter().find(|object| !seen.insert(&object.id)).map(|object| object.id.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"}})
    }

    #[test]
    fn a_document_gives_its_id() {
        let object = Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "apps"}
        }))
        .unwrap();
        assert_eq!(object.id.to_string(), "Deployment apps/web");
        assert_eq!(object.id.group, "apps");
        assert_eq!(object.api_version, "apps/v1");
    }

    #[test]
    fn what_cannot_be_applied_is_refused_by_name() {
        let cases = [
            (json!({"kind": "A", "metadata": {"name": "n"}}), "A/n: field `apiVersion`"),
            (json!({"apiVersion": "v1", "metadata": {"name": "n"}}), "object n: field `kind`"),
            (json!({"apiVersion": "v1", "kind": "A"}), "A: field `metadata.name`"),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": ""}}), "A: field `metadata.name`"),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": 5}}), "A: field `metadata.name`"),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": "n"}), "A: `metadata` is not an object"),
            (
                json!({"apiVersion": "v1", "kind": "A", "metadata": {"generateName": "n-"}}),
                "A/n-: `metadata.generateName`",
            ),
            (
                json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "generateName": "n-"}}),
                "A/x: `metadata.generateName`",
            ),
            (json!({"apiVersion": "v1", "kind": "List", "items": []}), "List is a list"),
            (json!({"apiVersion": "v1", "kind": "PodList", "items": []}), "PodList is a list"),
        ];
        for (body, start) in cases {
            let message = Object::from_value(body).unwrap_err().to_string();
            assert!(message.starts_with(start), "{message} does not start with {start}");
        }
    }

    #[test]
    fn a_custom_resource_may_be_called_a_list() {
        let body =
            json!({"apiVersion": "x.io/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": []});
        assert_eq!(Object::from_value(body).unwrap().id.kind, "AllowList");
    }

    #[test]
    fn the_namespace_changes_in_body_and_id_together() {
        let object = Object::from_value(config_map("a")).unwrap();
        let moved = object.clone().with_namespace(Some("other"));
        assert_eq!(moved.id.namespace.as_deref(), Some("other"));
        assert_eq!(moved.body["metadata"]["namespace"], "other");
        let cluster = object.with_namespace(None);
        assert_eq!(cluster.id.namespace, None);
        assert_eq!(cluster.body["metadata"].get("namespace"), None);
    }

    #[test]
    fn keep_is_understood_in_both_spellings() {
        for key in [names::RESOURCE_POLICY, names::HELM_RESOURCE_POLICY] {
            let mut object = Object::from_value(config_map("a")).unwrap();
            assert!(!object.keep());
            object.set_annotation(key, "delete");
            assert!(!object.keep());
            object.set_annotation(key, "keep");
            assert!(object.keep());
            object.set_annotation(names::RESOURCE_POLICY, "delete");
            assert!(!object.keep(), "ours wins");
        }
    }

    #[test]
    fn a_label_can_be_set_where_there_was_none() {
        let mut object = Object::from_value(config_map("a")).unwrap();
        object.set_label("x", "y");
        assert_eq!(object.label("x"), Some("y"));
        assert_eq!(object.annotation("x"), None);
    }

    #[test]
    fn an_object_named_twice_is_found() {
        let object = |name| Object::from_value(config_map(name)).unwrap();
        assert_eq!(duplicates(&[object("a"), object("b")]), None);
        assert_eq!(duplicates(&[object("a"), object("b"), object("a")]), Some(object("a").id));
    }
}
