//! A CustomResourceDefinition as far as it says what the API server will serve.

use serde_json::Value;

use super::{Object, ObjectId, id::group_of};

/// Group and kind of a definition.
const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "CustomResourceDefinition";

/// What a definition makes the API server serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defined {
    /// Of its resources.
    pub group: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// Those that are served, in their order.
    pub versions: Vec<String>,
}

impl Defined {
    /// Reads a definition; `None` when it lacks what makes it one. The API server says then what.
    #[must_use]
    pub fn of(body: &Value) -> Option<Self> {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let versions = body.pointer("/spec/versions")?.as_array()?;
        let served = versions.iter().filter(|version| version["served"].as_bool() == Some(true));
        Some(Self {
            group: text("/spec/group")?,
            kind: text("/spec/names/kind")?,
            plural: text("/spec/names/plural")?,
            namespaced: body.pointer("/spec/scope").and_then(Value::as_str) == Some("Namespaced"),
            versions: served.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect(),
        })
    }

    /// Whether it makes `kind` of `api_version` be served.
    #[must_use]
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        self.kind == kind
            && self.group == group_of(api_version)
            && self.versions.iter().any(|served| served == version)
    }
}

impl ObjectId {
    /// The definition of this name.
    #[must_use]
    pub fn definition(name: &str) -> Self {
        Self { group: GROUP.to_owned(), kind: KIND.to_owned(), namespace: None, name: name.to_owned() }
    }

    /// Whether this is a CustomResourceDefinition.
    #[must_use]
    pub fn is_definition(&self) -> bool {
        self.group == GROUP && self.kind == KIND
    }
}

/// Whether a document defines a kind, in whatever version of that API.
#[must_use]
pub fn is_definition(document: &Value) -> bool {
    let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
    group_of(text("apiVersion")) == GROUP && text("kind") == KIND
}

/// The definition among `objects` that makes a kind be served.
#[must_use]
pub fn defining<'o>(objects: &'o [Object], api_version: &str, kind: &str) -> Option<(&'o Object, Defined)> {
    objects.iter().filter(|object| object.id.is_definition()).find_map(|object| {
        let definition = Defined::of(&object.body).filter(|found| found.serves(api_version, kind))?;
        Some((object, definition))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn widgets() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true}, {"name": "v1beta1", "served": false, "storage": false}
                ],
            },
        })
    }

    #[test]
    fn it_serves_its_kind_in_the_versions_that_are_served() {
        let definition = Defined::of(&widgets()).unwrap();
        assert!(definition.namespaced);
        for (api_version, kind, serves) in [
            ("example.com/v1", "Widget", true),
            ("example.com/v1beta1", "Widget", false),
            ("example.com/v1", "Gadget", false),
            ("example.org/v1", "Widget", false),
            ("v1", "Widget", false),
        ] {
            assert_eq!(definition.serves(api_version, kind), serves, "{api_version} {kind}");
        }
    }

    #[test]
    fn it_is_found_among_objects() {
        let objects = [Object::from_value(widgets()).unwrap()];
        assert_eq!(objects[0].id, ObjectId::definition("widgets.example.com"));
        assert_eq!(defining(&objects, "example.com/v1", "Widget").unwrap().1.plural, "widgets");
        assert!(defining(&objects, "example.com/v2", "Widget").is_none());
    }

    #[test]
    fn every_version_of_the_api_defines() {
        let document = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind});
        assert!(is_definition(&document("apiextensions.k8s.io/v1", KIND)));
        assert!(is_definition(&document("apiextensions.k8s.io/v1beta1", KIND)));
        assert!(!is_definition(&document("apiextensions.k8s.io/v1", "ConversionReview")));
        assert!(!is_definition(&document("example.com/v1", KIND)));
        assert!(!is_definition(&json!({})));
    }

    #[test]
    fn what_is_no_definition_is_none() {
        let mut broken = widgets();
        broken["spec"]["versions"] = json!("v1");
        assert_eq!(Defined::of(&broken), None);
    }
}
