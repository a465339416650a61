//! ConfigMaps and Secrets that releases refer to: packs, values, credentials.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;

use super::{Cluster, describe, version_of};
use crate::api::{ReferenceKind, names};

const DEADLINE: Duration = Duration::from_secs(30);

/// A ConfigMap or Secret by its name. `Display`: `Secret apps/web`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: ReferenceKind,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// What a ConfigMap or Secret holds. Not `Debug`: nothing of it belongs into a log.
#[derive(Clone, Default)]
pub struct Contents {
    /// resourceVersion of the object.
    pub version: u64,
    /// `data` of a ConfigMap; empty for a Secret.
    pub texts: BTreeMap<String, String>,
    /// `binaryData` of a ConfigMap, `data` of a Secret.
    pub bytes: BTreeMap<String, ByteString>,
    /// It is labelled as a revision record, and so hidden from the watch of references.
    pub is_record: bool,
}

impl Contents {
    /// The value of a key, wherever it stands.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let text = self.texts.get(key).map(String::as_bytes);
        text.or_else(|| self.bytes.get(key).map(|bytes| bytes.0.as_slice()))
    }

    fn of(
        meta: &ObjectMeta,
        texts: Option<BTreeMap<String, String>>,
        bytes: Option<BTreeMap<String, ByteString>>,
    ) -> Self {
        let labels = meta.labels.as_ref();
        Self {
            version: version_of(meta),
            texts: texts.unwrap_or_default(),
            bytes: bytes.unwrap_or_default(),
            is_record: labels.is_some_and(|labels| labels.contains_key(names::STORAGE_DRIVER)),
        }
    }
}

impl From<ConfigMap> for Contents {
    fn from(map: ConfigMap) -> Self {
        Self::of(&map.metadata, map.data, map.binary_data)
    }
}

impl From<Secret> for Contents {
    fn from(secret: Secret) -> Self {
        Self::of(&secret.metadata, None, secret.data)
    }
}

impl Cluster {
    /// Reads what a release refers to; `None` when it does not exist.
    ///
    /// # Errors
    /// What the API server says, or that it said nothing within 30 s. Content is never part of it.
    pub async fn contents(&self, reference: &Reference) -> Result<Option<Contents>, String> {
        let Reference { kind, namespace, name } = reference;
        let read = async {
            match kind {
                ReferenceKind::ConfigMap => {
                    let api: Api<ConfigMap> = Api::namespaced(self.client().clone(), namespace);
                    api.get_opt(name).await.map(|found| found.map(Contents::from))
                }
                ReferenceKind::Secret => {
                    let api: Api<Secret> = Api::namespaced(self.client().clone(), namespace);
                    api.get_opt(name).await.map(|found| found.map(Contents::from))
                }
            }
        };
        match tokio::time::timeout(DEADLINE, read).await {
            Ok(Ok(found)) => Ok(found),
            // The message of a failed decode may quote what it could not decode.
            Ok(Err(kube::Error::SerdeError(_))) => {
                Err("the answer of the API server cannot be read".to_owned())
            }
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err(format!("no answer within {}s", DEADLINE.as_secs())),
        }
    }
}
