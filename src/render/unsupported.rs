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

/// The first thing that a pack uses and that would be ignored, if any.
#[must_use]
pub fn unsupported(rendered: &Rendered) -> Option<Unsupported> {
    rendered.objects.iter().find_map(object)
}

fn object(object: &Value) -> Option<Unsupported> {
    let kind = object["kind"].as_str().unwrap_or("object");
    let name = object["metadata"]["name"].as_str().unwrap_or("?");
    let object_name = format!("{kind}/{name}");
    let annotations = object["metadata"]["annotations"].as_object()?;
    annotations.keys().find_map(|key| {
        let (prefix, name) = key.split_once('/')?;
        if prefix != GROUP && prefix != "helm.sh" {
            return None;
        }
        let topic = name.starts_with("health-check").then_some("health check")?;
        Some(Unsupported { what: format!("the {topic} annotation `{key}`"), object: object_name.clone() })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(objects: &[Value]) -> Rendered {
        Rendered {
            objects: objects.to_vec(),
            origins: vec![String::new(); objects.len()],
            notes: None,
            values: Value::Null,
            definitions: Vec::new(),
            wishes: std::collections::BTreeMap::new(),
            secrets: crate::render::Secrets::new(),
        }
    }

    #[test]
    fn annotations_that_would_be_ignored_are_named_with_their_object() {
        for key in ["sherpack.io/health-check", "sherpack.io/health-check-path"] {
            let job = json!({"kind": "Job", "metadata": {"name": "a", "annotations": {key: "x"}}});
            let found = unsupported(&rendered(&[json!({"kind": "Pod"}), job])).unwrap();
            assert!(found.what.contains(key) && found.object == "Job/a", "{found}");
        }
    }

    #[test]
    fn what_is_done_already_and_what_is_not_ours_passes() {
        for key in [
            "sherpack.io/resource-policy",
            "helm.sh/resource-policy",
            "sherpack.io/drift",
            "example.com/hook",
        ] {
            let object = json!({"kind": "Pod", "metadata": {"name": "a", "annotations": {key: "keep"}}});
            assert_eq!(unsupported(&rendered(&[object])), None, "{key}");
        }
    }
}
