//! `lookup` of templates: from the thread that renders to the cluster, within what the release may see.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::runtime::Handle;

use crate::api::Class;
use crate::cluster::{self, Cluster, Kind, LookError};
use crate::manifest::{ObjectId, group_of};
use crate::pack::render::{Asked, Lookup, Refusal};
use crate::storage::RECORD_KEY_SECRET;

/// The cluster as the templates of one release see it. It reads as the account that acts for the release.
pub(crate) struct Seen {
    pub cluster: Arc<Cluster>,
    /// Of the operator: the async work runs there while the render waits.
    pub runtime: Handle,
    pub target_namespace: String,
    /// Where the `SherpackRelease` is.
    pub own_namespace: String,
    /// `--allow-lookup`: further namespaces; `*` is all of them, and kinds without a namespace.
    pub allowed: Arc<[String]>,
    /// The Secrets that were found: what they hold is never told.
    pub secrets: Arc<Mutex<Vec<Value>>>,
}

impl Seen {
    fn note(&self, of: &Asked<'_>, found: &[Value]) {
        if of.kind == "Secret" && group_of(of.api_version).is_empty() {
            let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            secrets.extend(found.iter().cloned());
        }
    }

    fn resolve(&self, of: &Asked<'_>) -> Result<(Kind, Option<String>), Refusal> {
        let kind = self.runtime.block_on(self.cluster.kind(of.api_version, of.kind)).map_err(refusal)?;
        let namespace = self.namespace(&kind, of)?;
        Ok((kind, namespace))
    }

    /// The namespace to look in, `None` for a kind that has none.
    fn namespace(&self, kind: &Kind, of: &Asked<'_>) -> Result<Option<String>, Refusal> {
        let everywhere = self.allowed.iter().any(|allowed| allowed == "*");
        if !kind.namespaced {
            if everywhere {
                return Ok(None);
            }
            return Err(forbidden(format!(
                "{} has no namespace, and a release sees only objects of its own: run the operator with --allow-lookup='*'",
                of.kind
            )));
        }
        let namespace = of.namespace.unwrap_or(&self.target_namespace);
        let own = namespace == self.target_namespace || namespace == self.own_namespace;
        if own || everywhere || self.allowed.iter().any(|allowed| allowed == namespace) {
            return Ok(Some(namespace.to_owned()));
        }
        Err(forbidden(format!(
            "the namespace {namespace} is not the release's own: run the operator with --allow-lookup={namespace}"
        )))
    }
}

impl Lookup for Seen {
    fn object(&self, of: &Asked<'_>, name: &str) -> Result<Option<Value>, Refusal> {
        let (_, namespace) = self.resolve(of)?;
        if of.kind == "Secret" && name == RECORD_KEY_SECRET {
            return Err(forbidden("the key of the revision records is the operator's alone".to_owned()));
        }
        let id = ObjectId {
            group: group_of(of.api_version).to_owned(),
            kind: of.kind.to_owned(),
            namespace,
            name: name.to_owned(),
        };
        let found = self.runtime.block_on(self.cluster.look(of.api_version, &id)).map_err(look_refusal)?;
        self.note(of, found.as_slice());
        Ok(found)
    }

    fn objects(&self, of: &Asked<'_>) -> Result<Vec<Value>, Refusal> {
        let (kind, namespace) = self.resolve(of)?;
        let found = self.runtime.block_on(self.cluster.look_all(&kind, namespace.as_deref()));
        let mut found = found.map_err(look_refusal)?;
        if of.kind == "Secret" {
            found.retain(|secret| secret["metadata"]["name"] != RECORD_KEY_SECRET);
        }
        self.note(of, &found);
        Ok(found)
    }
}

fn forbidden(message: String) -> Refusal {
    Refusal { class: Class::FixCluster, reason: "LookupForbidden", message }
}

fn look_refusal(error: LookError) -> Refusal {
    match error {
        LookError::Cluster(error) => refusal(error),
        LookError::Late => {
            Refusal { class: Class::Retry, reason: "LookupFailed", message: error.to_string() }
        }
        LookError::TooMany { .. } | LookError::TooLarge => {
            Refusal { class: Class::FixSpec, reason: "LookupTooLarge", message: error.to_string() }
        }
    }
}

fn refusal(error: cluster::Error) -> Refusal {
    let class = error.class();
    let reason = match (&error, class) {
        (cluster::Error::UnknownKind { .. }, _) => error.reason(),
        (_, Class::Retry) => "LookupFailed",
        _ => "LookupForbidden",
    };
    Refusal { class, reason, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;

    use super::*;

    fn kind(namespaced: bool) -> Kind {
        Kind { resource: ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()), namespaced }
    }

    async fn seen(allowed: &[&str]) -> Seen {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        Seen {
            cluster: Arc::new(Cluster::new(client)),
            runtime: Handle::current(),
            target_namespace: "apps".to_owned(),
            own_namespace: "team".to_owned(),
            allowed: allowed.iter().map(|name| (*name).to_owned()).collect(),
            secrets: Arc::default(),
        }
    }

    fn asked(namespace: Option<&str>) -> Asked<'_> {
        Asked { api_version: "v1", kind: "ConfigMap", namespace }
    }

    #[tokio::test]
    async fn a_release_sees_its_own_namespaces_and_those_that_the_operator_allows() {
        let own = seen(&[]).await;
        for (namespace, found) in [(None, "apps"), (Some("apps"), "apps"), (Some("team"), "team")] {
            assert_eq!(own.namespace(&kind(true), &asked(namespace)).unwrap().as_deref(), Some(found));
        }
        let refused = own.namespace(&kind(true), &asked(Some("other"))).unwrap_err();
        assert_eq!(refused.reason, "LookupForbidden");
        assert!(refused.message.contains("--allow-lookup=other"), "{}", refused.message);
        let refused = own.namespace(&kind(false), &asked(None)).unwrap_err();
        assert!(refused.message.contains("--allow-lookup='*'"), "{}", refused.message);

        let one = seen(&["other"]).await;
        assert_eq!(one.namespace(&kind(true), &asked(Some("other"))).unwrap().as_deref(), Some("other"));
        assert!(one.namespace(&kind(true), &asked(Some("third"))).is_err());
        assert!(one.namespace(&kind(false), &asked(None)).is_err());
        let all = seen(&["*"]).await;
        assert_eq!(all.namespace(&kind(true), &asked(Some("third"))).unwrap().as_deref(), Some("third"));
        assert_eq!(all.namespace(&kind(false), &asked(Some("third"))).unwrap(), None);
    }
}
