//! What releases refer to: ConfigMaps and Secrets with packs, values and credentials, and service accounts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};

use super::handle::{Cluster, version_of};
use crate::api::{ArtifactKind, ReferenceKind, names};
use crate::cluster::{describe, status_code};

/// The API group of Flux's sources.
const FLUX: &str = "source.toolkit.fluxcd.io";
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// What a release can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Referent {
    ConfigMap,
    Secret,
    /// Only whether it is there: it holds nothing.
    ServiceAccount,
    /// A Flux source. What it says of its artifact is read by [`Cluster::flux_source`].
    Flux(ArtifactKind),
}

impl Referent {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccount,
        Self::Flux(ArtifactKind::OCIRepository),
        Self::Flux(ArtifactKind::GitRepository),
        Self::Flux(ArtifactKind::Bucket),
        Self::Flux(ArtifactKind::HelmChart),
        Self::Flux(ArtifactKind::ExternalArtifact),
    ];

    /// The kind as it is written in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::Flux(kind) => kind.as_str(),
        }
    }

    /// The resource as it is written in roles.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::ServiceAccount => "serviceaccounts",
            Self::Flux(kind) => kind.resource(),
        }
    }

    /// The API group; empty for the core.
    #[must_use]
    pub fn group(self) -> &'static str {
        if let Self::Flux(_) = self { FLUX } else { "" }
    }

    /// How the API serves it.
    #[must_use]
    pub fn api_resource(self) -> ApiResource {
        match self {
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::Flux(kind) => {
                let kinds = GroupVersionKind::gvk(FLUX, "v1", kind.as_str());
                ApiResource::from_gvk_with_plural(&kinds, kind.resource())
            }
        }
    }
}

impl From<ReferenceKind> for Referent {
    fn from(kind: ReferenceKind) -> Self {
        match kind {
            ReferenceKind::ConfigMap => Self::ConfigMap,
            ReferenceKind::Secret => Self::Secret,
        }
    }
}

/// An object that a release refers to, by its name. `Display`: `Secret apps/web`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: Referent,
    pub namespace: String,
    pub name: String,
}

impl Reference {
    #[must_use]
    pub fn new(kind: impl Into<Referent>, namespace: &str, name: &str) -> Self {
        Self { kind: kind.into(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
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

/// Why a reference was not read; nothing of its content. `Display` is what the API server says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unread {
    /// The account that read it may not.
    pub forbidden: bool,
    pub message: String,
}

impl Unread {
    /// The API server said nothing until the deadline.
    pub(super) fn late() -> Self {
        Self { forbidden: false, message: format!("no answer within {}s", DEADLINE.as_secs()) }
    }
}

impl From<kube::Error> for Unread {
    fn from(error: kube::Error) -> Self {
        // The message of a failed decode may quote what it could not decode.
        if let kube::Error::SerdeError(_) = error {
            return Self {
                forbidden: false,
                message: "the answer of the API server cannot be read".to_owned(),
            };
        }
        Self { forbidden: matches!(status_code(&error), Some(401 | 403)), message: describe(&error) }
    }
}

impl Cluster {
    /// Reads what a release refers to; `None` when it does not exist.
    ///
    /// # Errors
    /// What the API server says, or that it said nothing within 30 s. Content is never part of it.
    pub async fn contents(&self, reference: &Reference) -> Result<Option<Contents>, Unread> {
        let Reference { kind, namespace, name } = reference;
        let read = async {
            match kind {
                Referent::ConfigMap => {
                    let api: Api<ConfigMap> = Api::namespaced(self.client().clone(), namespace);
                    api.get_opt(name).await.map(|found| found.map(Contents::from))
                }
                Referent::Secret => {
                    let api: Api<Secret> = Api::namespaced(self.client().clone(), namespace);
                    api.get_opt(name).await.map(|found| found.map(Contents::from))
                }
                Referent::ServiceAccount | Referent::Flux(_) => {
                    let resource = kind.api_resource();
                    let api: Api<DynamicObject> =
                        Api::namespaced_with(self.client().clone(), namespace, &resource);
                    let found = api.get_metadata_opt(name).await?;
                    Ok(found.map(|found| Contents::of(&found.metadata, None, None)))
                }
            }
        };
        match tokio::time::timeout(DEADLINE, read).await {
            Ok(result) => result.map_err(Unread::from),
            Err(_) => Err(Unread::late()),
        }
    }
}
