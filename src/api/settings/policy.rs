//! What the operator was started with, as far as it decides what a release may ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::{Selector, SelectorExt as _};

use crate::api::names::is_dns_label;
use crate::api::{IgnoreRule, SherpackRelease};

/// How far the authors of releases trust each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenancy {
    /// A release without a service account is worked on as the operator.
    #[default]
    Single,
    /// Every release needs a service account, and none may refer to another namespace.
    Multi,
}

/// As whom the objects, the pack and the values of a release are read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActsAs {
    /// As the operator itself.
    Operator,
    /// As this service account of the release's own namespace.
    ServiceAccount(String),
    /// An account is required and the spec names no usable one: every call for the release ends in an error.
    Nobody,
}

/// Whether a service account can have this name: labels of a-z, 0-9 and `-`, separated by dots.
#[must_use]
pub fn is_account_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

/// What the operator was started with, as far as it decides which specs are valid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Whether `--pack-dir` was given.
    pub pack_dir_enabled: bool,
    /// Whether `--storage-dir` was given.
    pub storage_dir_enabled: bool,
    /// Namespaces, besides that of the target, in which revisions may be stored; `*` stands for all.
    pub storage_namespaces: Vec<String>,
    /// The only namespace whose releases are watched, if there is one.
    pub watch_namespace: Option<String>,
    /// Only releases with such labels are worked on: one shard of several.
    pub watch_labels: Option<Selector>,
    /// The service account of releases that name none, in the namespace of each.
    pub default_service_account: Option<String>,
    /// Whether every release needs one, and none may refer to another namespace.
    pub tenancy: Tenancy,
    /// Whether every pack has to be signed by a key that its release names, or be verified by Flux.
    pub require_signatures: bool,
    /// Whether a pack alone may have definitions changed at any cost, or deleted.
    pub trust_pack_crds: bool,
    /// What of all releases is left to others, before what each says itself.
    pub ignore: Vec<Arc<IgnoreRule>>,
    pub lock: LockPolicy,
}

/// What `spec.lock` may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockPolicy {
    /// How many objects one lock may have.
    pub objects: usize,
    /// Whether a lock without a service account may write what is beyond the namespace of its records, or gives rights.
    pub as_operator: bool,
}

impl Default for LockPolicy {
    fn default() -> Self {
        Self { objects: 1000, as_operator: false }
    }
}

impl Policy {
    /// Whether a release is this operator's to work on.
    #[must_use]
    pub fn selects(&self, release: &SherpackRelease) -> bool {
        let labels = release.metadata.labels.as_ref();
        self.watch_labels.as_ref().is_none_or(|selector| selector.matches(labels.unwrap_or(&BTreeMap::new())))
    }
}
