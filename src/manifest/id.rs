use std::fmt;

use serde::{Deserialize, Serialize};

/// Which object: group, kind, namespace and name. The version is left out on purpose, because one object
/// is served under every version of its group.
///
/// `Display` is `Deployment apps/web`, or `ClusterRole admin` without a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind, in the spelling of the manifest.
    pub kind: String,
    /// `None` for cluster-scoped objects, and for a manifest that leaves the namespace open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectId {
    /// `Deployment/web`: short enough for a status message that speaks of one namespace.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Group of an `apiVersion`: `apps/v1` is `apps`, `v1` is the empty core group.
#[must_use]
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(namespace: Option<&str>) -> ObjectId {
        ObjectId {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: namespace.map(Into::into),
            name: "web".into(),
        }
    }

    #[test]
    fn an_id_reads_as_kind_namespace_and_name() {
        assert_eq!(id(Some("apps")).to_string(), "Deployment apps/web");
        assert_eq!(id(None).to_string(), "Deployment web");
        assert_eq!(id(Some("apps")).short(), "Deployment/web");
    }

    #[test]
    fn the_core_group_is_empty() {
        assert_eq!(group_of("v1"), "");
        assert_eq!(group_of("apps/v1"), "apps");
        assert_eq!(group_of("example.com/v1alpha1"), "example.com");
    }

    #[test]
    fn an_id_survives_json() {
        for id in [id(Some("apps")), id(None), ObjectId { group: String::new(), ..id(None) }] {
            let json = serde_json::to_string(&id).unwrap();
            assert_eq!(serde_json::from_str::<ObjectId>(&json).unwrap(), id);
        }
    }
}
