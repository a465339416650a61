//! Where a release's pack, values and conditions for starting come from.
#![allow(unreachable_pub, reason = "KubeSchema repeats the type inside a function")]

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Values as users write them: one object of any JSON.
pub type Values = serde_json::Map<String, serde_json::Value>;

/// An object whose content belongs to the pack's author: the API server keeps it as it is.
pub(super) fn values_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Where a pack comes from.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new(
    "[has(self.configMap), has(self.secret), has(self.http), has(self.repository), has(self.oci), \
     has(self.artifact), has(self.path)].filter(set, set).size() == 1"
).message("exactly one source must be set: configMap, secret, http, repository, oci, artifact or path"))]
#[x_kube(validation = Rule::new(
    "!has(self.verify) || (self.verify.provider == 'cosign' ? has(self.oci) : !has(self.oci) && !has(self.artifact))"
).message(
    "cosign verifies packs of oci, minisign those of every other source but artifact, which Flux verifies"
).field_path(".verify"))]
#[serde(rename_all = "camelCase")]
pub struct PackSource {
    /// A pack archive in `binaryData` of a ConfigMap in the release's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ObjectKey>,
    /// A pack archive in `data` of a Secret in the release's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<ObjectKey>,
    /// A pack archive behind a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// A pack in a repository with an `index.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RepositorySource>,
    /// A pack in an OCI registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciSource>,
    /// A pack in the artifact of a Flux source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactSource>,
    /// A pack directory or archive, as a relative path below the directory that the operator was started with
    /// (`--pack-dir`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    /// Takes only packs that a key of the user's has signed. Unset: signatures are not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// Whose signature a pack needs. No transparency log is asked, and no certificate is accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// Who makes the signatures.
    pub provider: SignatureProvider,
    /// Public keys: each key of the Secret that ends in `.pub`. A signature of one of them is enough.
    pub secret_ref: SecretReference,
}

/// Tools that sign packs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignatureProvider {
    /// `cosign sign --key`, for packs in OCI registries: the signature is in the registry.
    #[default]
    Cosign,
    /// minisign, for all other sources: the signature is beside the archive, under its name and `.minisig`.
    Minisign,
}

impl SignatureProvider {
    /// The tool as it is written in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cosign => "cosign",
            Self::Minisign => "minisign",
        }
    }
}

/// A ConfigMap or Secret, and a key in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in it. May be left out when there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// A Secret in the release's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A pack archive behind a URL. It is looked for again each `spec.interval`, at the cost of one conditional request
/// when nothing has changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// URL of the archive, without credentials. Up to five redirects are followed. Loopback, link-local, multicast and
    /// metadata addresses are refused unless the operator's flag `--allow-source` names the host.
    #[schemars(regex(pattern = "^https?://.+$"), length(max = 2048))]
    pub url: String,
    /// Digest of the archive as it is served, `sha256:` and 64 hex digits. Another content is refused. Once such an
    /// archive was fetched from here, it is not fetched again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// Credentials for the URL: `username` and `password`, or `bearerToken`; `ca.crt` to trust a private authority;
    /// `tls.crt` and `tls.key` to show a certificate. They go to the host of the URL only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

/// A pack or chart in a repository. Its index is asked for again each `spec.interval`, once for all releases of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositorySource {
    /// URL of the repository: the place of its `index.yaml`.
    #[schemars(regex(pattern = "^https?://.+$"), length(max = 2048))]
    pub url: String,
    /// Name of the pack in the repository.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Version, or range that chooses the newest version inside it, such as `1.x`. Pre-releases only count when the range names
    /// one. Unset: the newest version that is no pre-release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub version: Option<String>,
    /// Credentials for the repository, with the keys that `http.secretRef` takes. They go to the host of `url` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Shows the credentials to whatever host the index names. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_credentials: Option<bool>,
}

/// A pack or chart in an OCI registry. What the tag stands for is asked again each `spec.interval`; everything is fetched by
/// digest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciSource {
    /// Repository, such as `oci://registry.example.com/packs/podinfo`.
    #[schemars(regex(pattern = "^oci://.+$"), length(max = 2048))]
    pub repository: String,
    /// Tag. Unset: `semver` chooses, else `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub tag: Option<String>,
    /// Version range that chooses the newest tag inside it, such as `1.x`. Pre-releases only count when the range names one, such
    /// as `>=1.0.0-0`. Wins over `tag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub semver: Option<String>,
    /// Digest of the manifest, `sha256:` and 64 hex digits. Wins over `tag` and `semver`. It is fetched once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// Credentials for the registry: a Secret of type `kubernetes.io/dockerconfigjson`, or `username` and `password`, or
    /// `bearerToken`; `ca.crt` to trust a private authority; `tls.crt` and `tls.key` to show a certificate. They go to the
    /// registry and to the token server that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Speaks HTTP without TLS with the registry. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
}

/// A pack in the artifact of a Flux source. A change of the source is seen at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactSource {
    /// Kind of the Flux source.
    pub kind: ArtifactKind,
    /// Name of the Flux source.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Flux source. Unset: the release's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Directory of the pack inside the artifact. Unset: its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
}

/// Kinds of Flux sources.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ArtifactKind {
    #[default]
    OCIRepository,
    GitRepository,
    Bucket,
    HelmChart,
    ExternalArtifact,
}

impl ArtifactKind {
    /// The kind as it is written in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OCIRepository => "OCIRepository",
            Self::GitRepository => "GitRepository",
            Self::Bucket => "Bucket",
            Self::HelmChart => "HelmChart",
            Self::ExternalArtifact => "ExternalArtifact",
        }
    }

    /// The resource as it is written in roles.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::OCIRepository => "ocirepositories",
            Self::GitRepository => "gitrepositories",
            Self::Bucket => "buckets",
            Self::HelmChart => "helmcharts",
            Self::ExternalArtifact => "externalartifacts",
        }
    }
}

/// A release that another tool installs and this operator locks.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.helmRelease) != has(self.sherpackRelease)")
    .message("exactly one of helmRelease and sherpackRelease must be set"))]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    /// A release installed by Helm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_release: Option<ReleaseReference>,
    /// A release installed by another Sherpack tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sherpack_release: Option<ReleaseReference>,
}

/// A release by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReference {
    /// Name of the release.
    #[schemars(length(min = 1, max = 53))]
    pub name: String,
    /// Namespace of the release. Unset: the namespace of this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Another `SherpackRelease`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Name of the SherpackRelease.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Unset: the namespace of this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Values in a ConfigMap or Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesReference {
    /// Kind of the object.
    pub kind: ReferenceKind,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key whose text is read as YAML. Unset: `values.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
    /// Sets the text as one value at this path instead of merging it as YAML: keys separated by dots, `\.` for a dot
    /// in a key, `[0]` for a list item. `true`, `false`, `null` and plain integers are typed; a text in quotes is
    /// what stands between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub target_path: Option<String>,
    /// Goes on when the object or the key does not exist. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Kinds of objects that a release reads packs and values from.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ReferenceKind {
    #[default]
    ConfigMap,
    Secret,
}

impl ReferenceKind {
    /// The kind as it is written in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}
