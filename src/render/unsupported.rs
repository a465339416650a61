//! What a pack asks for that this version does not do.

use serde_json::Value;

use super::Rendered;
use crate::api::names::GROUP;

/// The first thing found. Applying the rest without it would not be what the author meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What it is: `the hook annotation helm.sh/hook`, `a CustomResourceDefinition`.
    pub what: String,
    /// Kind and name of the object, or the file of the pack.
    pub object: String,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {} is not supported yet", self.what, self.object)
    }
}

/// Annotations that change how an object is applied, without the prefix.
const ANNOTATIONS: [(&str, &str); 1] = [("crd-policy", "CRD policy")];

/// The first thing that a pack uses and that would be ignored, if any: files first, then the objects in order.
#[must_use]
pub fn unsupported(rendered: &Rendered) -> Option<Unsupported> {
    if let Some(path) = rendered.crds.first() {
        return Some(Unsupported { what: "a CustomResourceDefinition".to_owned(), object: path.clone() });
    }
    rendered.objects.iter().find_map(object)
}

fn object(object: &Value) -> Option<Unsupported> {
    let kind = object["kind"].as_str().unwrap_or("object");
    let name = object["metadata"]["name"].as_str().unwrap_or("?");
    let object_name = format!("{kind}/{name}");
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    if kind == "CustomResourceDefinition" && api_version.starts_with("apiextensions.k8s.io/") {
        return Some(Unsupported { what: "a CustomResourceDefinition".to_owned(), object: object_name });
    }
    let annotations = object["metadata"]["annotations"].as_object()?;
    annotations.keys().find_map(|key| {
        let (prefix, name) = key.split_once('/')?;
        if prefix != GROUP && prefix != "helm.sh" {
            return None;
        }
        let topic = ANNOTATIONS.iter().find(|(known, _)| *known == name).map(|(_, topic)| *topic)?;
        Some(Unsupported { what: format!("the {topic} annotation `{key}`"), object: object_name.clone() })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(objects: &[Value], crds: &[&str]) -> Rendered {
        Rendered {
            objects: objects.to_vec(),
            origins: vec![String::new(); objects.len()],
            notes: None,
            values: Value::Null,
            crds: crds.iter().map(|path| (*path).to_owned()).collect(),
            secrets: crate::render::Secrets::new(),
        }
    }

    #[test]
    fn files_that_would_be_ignored_are_named() {
        let found = unsupported(&rendered(&[], &["charts/db/crds/a.yaml"])).unwrap().to_string();
        assert_eq!(found, "a CustomResourceDefinition on charts/db/crds/a.yaml is not supported yet");
    }

    #[test]
    fn annotations_that_would_be_ignored_are_named_with_their_object() {
        let key = "sherpack.io/crd-policy";
        let job = json!({"kind": "Job", "metadata": {"name": "a", "annotations": {key: "x"}}});
        let found = unsupported(&rendered(&[json!({"kind": "Pod"}), job], &[])).unwrap();
        assert!(found.what.contains(key) && found.object == "Job/a", "{found}");
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}});
        assert_eq!(unsupported(&rendered(&[crd], &[])).unwrap().object, "CustomResourceDefinition/a.b");
    }

    #[test]
    fn what_is_done_already_and_what_is_not_ours_passes() {
        for key in [
            "sherpack.io/resource-policy",
            "helm.sh/resource-policy",
            "sherpack.io/drift",
            "sherpack.io/health-check",
            "example.com/hook",
        ] {
            let object = json!({"kind": "Pod", "metadata": {"name": "a", "annotations": {key: "keep"}}});
            assert_eq!(unsupported(&rendered(&[object], &[])), None, "{key}");
        }
    }
}
