//! The `SherpackRelease` resource: the top of its schema and the rules of the API server over the whole object.
//!
//! Doc comments of fields are what `kubectl explain` shows, so they are written for users. Every optional
//! field is an `Option`: unset stays unset in the cluster, and [`validate`](crate::api::validate()) gives it its
//! documented default. Nothing here has a schema default except the empty status (see [`super::crd()`]).
#![allow(unreachable_pub, reason = "KubeSchema repeats the type inside a function")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guard::{Drift, History, HistoryStorage};
use super::operations::{Crds, Install, Test, Uninstall, Upgrade, Waves};
use super::source::{Dependency, Lock, PackSource, Values, ValuesReference, values_schema};
use super::status::SherpackReleaseStatus;
use crate::api::{bounds, duration};

/// What to install, and how to keep it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "sherpack.io",
    version = "v1alpha1",
    kind = "SherpackRelease",
    namespaced,
    status = "SherpackReleaseStatus",
    shortname = "sr",
    shortname = "srel",
    category = "sherpack",
    derive = "PartialEq",
    doc = "A pack installed under one name, kept as it was deployed.",
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Pack", type_ = "string", json_path = ".status.pack.name"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.pack.version"),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.revision"),
    printcolumn(name = "Drift", type_ = "integer", json_path = ".status.drift.count"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    // A rule on the field itself would let an unset field be set later, so these compare what is in effect.
    validation = Rule::new(
        "(has(self.spec.releaseName) ? self.spec.releaseName : self.metadata.name) == \
         (has(oldSelf.spec.releaseName) ? oldSelf.spec.releaseName : oldSelf.metadata.name)"
    ).message("immutable (unset means metadata.name)").field_path(".spec.releaseName"),
    // The default is metadata.namespace, which CEL cannot see: so setting it later is refused altogether.
    validation = Rule::new(
        "has(self.spec.targetNamespace) == has(oldSelf.spec.targetNamespace) && \
         (!has(self.spec.targetNamespace) || self.spec.targetNamespace == oldSelf.spec.targetNamespace)"
    ).message("immutable: it can be neither changed nor set nor removed later").field_path(".spec.targetNamespace"),
    validation = Rule::new(
        "(has(self.spec.history) && has(self.spec.history.storage) ? self.spec.history.storage : 'Secret') == \
         (has(oldSelf.spec.history) && has(oldSelf.spec.history.storage) ? oldSelf.spec.history.storage : 'Secret')"
    ).message("immutable (unset means Secret)").field_path(".spec.history.storage"),
    // `namespace` is a reserved word of CEL; Kubernetes calls the field `__namespace__` there.
    validation = Rule::new(
        "(has(self.spec.history) && has(self.spec.history.__namespace__) ? self.spec.history.__namespace__ : \
         has(self.spec.targetNamespace) ? self.spec.targetNamespace : '') == \
         (has(oldSelf.spec.history) && has(oldSelf.spec.history.__namespace__) ? oldSelf.spec.history.__namespace__ : \
         has(oldSelf.spec.targetNamespace) ? oldSelf.spec.targetNamespace : '')"
    ).message("immutable (unset means the target namespace)").field_path(".spec.history.namespace"),
    validation = Rule::new("has(self.spec.lock) == has(oldSelf.spec.lock)")
        .message("a release cannot change between spec.pack and spec.lock: make another one").field_path(".spec.lock"),
    validation = Rule::new(
        "has(self.spec.releaseName) || (self.metadata.name.size() <= 53 && \
         self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))"
    ).message(
        "metadata.name is the release's name: it must have at most 53 characters, only a-z, 0-9 and '-', \
         and start and end with a letter or digit; or set spec.releaseName"
    ).field_path(".spec.releaseName"),
    // With a namespace written out, CEL cannot tell: the operator does.
    validation = Rule::new(
        "!has(self.spec.dependsOn) || \
         !self.spec.dependsOn.exists(other, !has(other.__namespace__) && other.name == self.metadata.name)"
    ).message("a release cannot depend on itself").field_path(".spec.dependsOn"),
)]
#[x_kube(validation = Rule::new("has(self.pack) != has(self.lock)").message("exactly one of spec.pack and spec.lock must be set"))]
#[serde(rename_all = "camelCase")]
pub struct SherpackReleaseSpec {
    /// Where the pack comes from. Set exactly one source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<PackSource>,

    /// Locks a release that another tool installs, instead of installing a pack: its objects are kept as its newest
    /// revision says while that is deployed, and left alone in every other state. Nothing is ever owned, pruned or
    /// deleted, and deleting this resource leaves no trace on the objects. A resource cannot change between pack and lock.
    /// Users who may write the record that is named here decide what is put back: where that is not for all of them to
    /// decide, name a service account that may do no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,

    /// Name of the release, as templates and records see it. Unset: `metadata.name`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub release_name: Option<String>,

    /// Namespace into which the pack is installed. Unset: `metadata.namespace`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub target_namespace: Option<String>,

    /// Creates the target namespace when it does not exist. It is never deleted with the release. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_namespace: Option<bool>,

    /// Values for the pack, merged over its own. A null removes the pack's value; the API server keeps nulls
    /// only when the release is written by server-side apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "values_schema")]
    pub values: Option<Values>,

    /// More values, from ConfigMaps and Secrets in the release's namespace, merged in this order and before
    /// `values`. A change of such an object is rolled out at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub values_from: Option<Vec<ValuesReference>>,

    /// Releases that must be Ready, for their newest spec, before this one is installed or upgraded. What is
    /// deployed stays deployed and locked meanwhile. Of releases that are deleted together, this one goes before
    /// those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub depends_on: Option<Vec<Dependency>>,

    /// Service account in the namespace of this resource as which the pack and values are read and every object of the
    /// release is read and written. Revisions, this resource's status and Events are always written by the operator.
    /// Unset: the operator's `--default-service-account`, else the operator itself, which `--tenancy=multi` refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,

    /// Stops everything but deletion: no install, no upgrade, nothing is put back. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// How often the pack's source is looked up again, such as `10m`; 10s or more. Drift and changed values do not wait for
    /// it. Unset: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = duration::PATTERN), length(max = 64), extend("x-kubernetes-validations" = bounds::interval_rule()))]
    pub interval: Option<String>,

    /// Bounds one whole install, upgrade or rollback, such as `5m`; 24h or less. Unset: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = duration::PATTERN), length(max = 64), extend("x-kubernetes-validations" = bounds::timeout_rule()))]
    pub timeout: Option<String>,

    /// Waits until every object is healthy before a revision counts as deployed. When false, applied is deployed
    /// and health is only reported. Unset: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,

    /// How sync waves are waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<Waves>,

    /// How the first revision is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,

    /// How later revisions are rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,

    /// Pins the release to a stored revision until the field is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2147483647))]
    pub rollback_to: Option<u32>,

    /// Whether the pack's test hooks run after an install or upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,

    /// What happens to the objects when this resource is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uninstall: Option<Uninstall>,

    /// How the pack's CustomResourceDefinitions are treated. What is unset here is taken from the pack, then from
    /// the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crds: Option<Crds>,

    /// What happens when another user or controller changes what this release manages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,

    /// How revisions are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,

    /// `Automatic` rolls a change out at once. `Manual` shows the plan in `status.plan` and goes on when annotation
    /// `sherpack.io/approve` equals its digest; what undoes a failure and `rollbackTo` need no approval. Unset: Automatic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

/// Who lets a planned change through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    #[default]
    Automatic,
    Manual,
}

impl SherpackRelease {
    /// The name in effect: `spec.releaseName`, else `metadata.name`. Empty when neither is set, which the API
    /// server does not allow and [`validate`](crate::api::validate()) refuses.
    #[must_use]
    pub fn release_name(&self) -> &str {
        let name = self.spec.release_name.as_deref();
        name.or(self.metadata.name.as_deref()).unwrap_or_default()
    }

    /// Where revisions are stored: `spec.history.storage`, else Secrets.
    #[must_use]
    pub fn history_storage(&self) -> HistoryStorage {
        self.spec.history.as_ref().and_then(|history| history.storage).unwrap_or_default()
    }

    /// The namespace of the stored revisions: `spec.history.namespace`, else that of the target. Files are always kept
    /// by target.
    #[must_use]
    pub fn history_namespace(&self) -> &str {
        let namespace = self.spec.history.as_ref().and_then(|history| history.namespace.as_deref());
        let namespace = namespace.filter(|_| self.history_storage() != HistoryStorage::File);
        namespace.unwrap_or_else(|| self.target_namespace())
    }

    /// The field managers whose additions are taken away: `spec.drift.strict.managers`.
    #[must_use]
    pub fn strict_managers(&self) -> Option<&[String]> {
        self.spec.drift.as_ref()?.strict.as_ref()?.managers.as_deref()
    }

    /// The namespace in effect: `spec.targetNamespace`, else `metadata.namespace`. Empty when neither is set.
    #[must_use]
    pub fn target_namespace(&self) -> &str {
        let namespace = self.spec.target_namespace.as_deref();
        namespace.or(self.metadata.namespace.as_deref()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Resource;
    use serde_json::json;

    #[test]
    fn the_resource_is_known_under_the_names_of_the_project() {
        assert_eq!(SherpackRelease::api_version(&()), crate::api::names::API_VERSION);
        assert_eq!(SherpackRelease::kind(&()), crate::api::names::KIND);
    }

    #[test]
    fn effective_names_fall_back_to_the_metadata() {
        let mut release = SherpackRelease::new("web", SherpackReleaseSpec::default());
        release.metadata.namespace = Some("apps".into());
        assert_eq!((release.release_name(), release.target_namespace()), ("web", "apps"));
        release.spec.release_name = Some("shop".into());
        release.spec.target_namespace = Some("prod".into());
        assert_eq!((release.release_name(), release.target_namespace()), ("shop", "prod"));
    }

    #[test]
    fn every_field_of_the_api_survives_a_round_trip() {
        let spec = json!({
            "pack": {
                "configMap": {"name": "p", "key": "p.tgz"},
                "secret": {"name": "p", "key": "p.tgz"},
                "http": {"url": "https://x/p.tgz", "digest": "sha256:00", "secretRef": {"name": "s"}},
                "repository": {"url": "https://x", "name": "p", "version": "1.x", "secretRef": {"name": "s"}},
                "oci": {"repository": "oci://x/p", "tag": "1.0.0", "semver": "1.x", "digest": "sha256:00",
                        "secretRef": {"name": "s"}, "insecure": false},
                "artifact": {"kind": "OCIRepository", "name": "p", "namespace": "n", "path": "d"},
                "path": "podinfo"
            },
            "lock": {"helmRelease": {"name": "h", "namespace": "n"}, "sherpackRelease": {"name": "s"}},
            "releaseName": "r", "targetNamespace": "n", "createNamespace": false,
            "values": {"a": null, "b": [1, {"c": 1.5}]},
            "valuesFrom": [{"kind": "ConfigMap", "name": "v", "key": "k", "targetPath": "a.b", "optional": false}],
            "dependsOn": [{"name": "db", "namespace": "n"}],
            "serviceAccountName": "d", "suspend": false, "interval": "10m", "timeout": "5m", "wait": true,
            "waves": {"wait": true, "timeout": "120s"},
            "install": {"retries": 3, "retryInterval": "1h", "onFailure": "Retain", "adopt": "Never"},
            "upgrade": {"retries": 3, "retryInterval": "1h", "onFailure": "Rollback", "immutableFields": "Fail", "paused": false},
            "rollbackTo": 3,
            "test": {"enabled": false, "ignoreFailures": false},
            "uninstall": {"policy": "Delete", "wait": true, "keepHistory": false, "timeout": "5m"},
            "crds": {"install": true, "upgrade": "Safe", "onUninstall": "Keep", "waitReady": true,
                     "waitTimeout": "60s", "confirmChanges": ["a@sha256:00"], "confirmDeletion": ["a"]},
            "drift": {"mode": "Enabled", "strict": {"managers": ["m"]},
                      "ignore": [{"target": {"kind": "Deployment", "name": "web-*", "labelSelector": "app"},
                                  "paths": ["/spec/replicas"], "managers": ["m"]}]},
            "history": {"limit": 10, "storage": "Secret", "namespace": "n", "compression": "Zstd",
                        "large": "Chunked"},
            "approval": "Automatic"
        });
        let read: SherpackReleaseSpec =
            serde_json::from_value(spec.clone()).expect("a spec with every field");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), spec);
    }
}
