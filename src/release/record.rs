//! The revision record: one stored attempt of a release, in Sherpack's published JSON shape.
//!
//! Owns the shape and nothing else; where and how it is stored is `storage`'s. May import `pack` and below, and
//! reads no clock. Invariant: what is written here parses with Sherpack's own library (0.4.0), field for field:
//! camelCase record fields, kebab-case `status` tags, snake_case fields inside a state, integer seconds, RFC 3339
//! in UTC, and `null` for an absent option. Fields that only this operator needs live in
//! [`Private`](super::Private), never here: another tool's write would lose them silently.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hook::Hook;
use crate::api::names::RECORD_PREFIX;
use crate::pack;

/// So often a text is in memory while objects are made of it and applied.
const TEXT: usize = 5;
/// What one scalar, list or map takes, in bytes.
const NODE: usize = 250;

/// How long a `recovering` record is left alone: the state has no `timeout` field, readers agree on 120 s.
const RECOVERING_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// One revision of a release.
///
/// Unknown fields are accepted on read and not kept, as every reader of this format does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Name of the release, not of the custom resource.
    pub name: String,
    /// Namespace that the release is installed into.
    pub namespace: String,
    /// The revision number. The published field name is `version`.
    pub version: u32,
    pub state: State,
    pub pack: PackIdentity,
    /// The merged values that the manifest was rendered with, defaults of the pack included.
    pub values: Value,
    #[serde(default)]
    pub values_provenance: ValuesProvenance,
    /// The rendered documents without hooks, joined by `"\n---\n"`.
    ///
    /// Records of other tools may hold hook documents here.
    pub manifest: String,
    #[serde(default)]
    pub hooks: Vec<Hook>,
    /// Free labels of the release. They are not labels of the stored object.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(default)]
    pub notes: Option<String>,
}

/// What a record says of its pack. The version is strict semver: readers refuse anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackIdentity {
    pub name: String,
    pub version: Version,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub app_version: Option<String>,
    #[serde(default)]
    pub kube_version: Option<String>,
    #[serde(default)]
    pub home: Option<String>,
    #[serde(default)]
    pub icon: Option<String>,
    #[serde(default)]
    pub sources: Vec<String>,
    #[serde(default)]
    pub keywords: Vec<String>,
    #[serde(default)]
    pub maintainers: Vec<Person>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// A maintainer of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    pub name: String,
    #[serde(default)]
    pub email: Option<String>,
    #[serde(default)]
    pub url: Option<String>,
}

/// Where each value came from: path to a tagged source. A path speaks for everything below it that has no path of its
/// own, the empty one for all values. Other tools leave it empty; whatever they write is carried along as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValuesProvenance {
    #[serde(default)]
    pub sources: BTreeMap<String, Value>,
}

/// The nine states a revision can be in. A tenth would make the record unreadable for every other tool.
///
/// `timeout` is in whole seconds and says for how long others must take the operation for alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum State {
    Deployed,
    Failed { reason: String, recoverable: bool, failed_at: Timestamp },
    Uninstalled,
    Superseded,
    PendingInstall { started_at: Timestamp, timeout: u64 },
    PendingUpgrade { started_at: Timestamp, timeout: u64, previous_version: u32 },
    PendingRollback { started_at: Timestamp, timeout: u64, target_version: u32 },
    PendingUninstall { started_at: Timestamp, timeout: u64 },
    Recovering { from_status: String, attempt: u32, started_at: Timestamp },
}

impl Record {
    /// Name of the stored object that holds this revision; see [`Record::key_of`].
    pub fn key(&self) -> String {
        Self::key_of(&self.name, self.version)
    }

    /// About how many bytes it takes to work with: its texts, the objects that are made of them, and what is sent and
    /// answered of these.
    #[must_use]
    pub fn weight(&self) -> usize {
        let hooks = self.hooks.iter().map(|hook| hook.resource.as_str());
        let texts = hooks.chain([self.manifest.as_str()]);
        let provenance: usize = self.values_provenance.sources.values().map(pack::values::nodes).sum();
        let nodes = pack::values::nodes(&self.values) + provenance;
        texts.map(weight_of).sum::<usize>() + NODE * nodes + self.other_texts()
    }

    /// Bytes of the texts that are only carried along.
    fn other_texts(&self) -> usize {
        let Self { name, namespace, state, pack, labels, notes, .. } = self;
        let state = match state {
            State::Failed { reason: text, .. } | State::Recovering { from_status: text, .. } => text.len(),
            _ => 0,
        };
        let own = name.len() + namespace.len() + state + notes.as_ref().map_or(0, String::len);
        own + pairs(labels) + pack.texts()
    }

    /// `sh.sherpack.release.v1.<release>.v<revision>`.
    pub fn key_of(release: &str, revision: u32) -> String {
        format!("{RECORD_PREFIX}.{release}.v{revision}")
    }
}

/// About how many bytes it takes to work with a text of documents. A line is a value, or a few, wherever it stands.
#[must_use]
pub fn weight_of(text: &str) -> usize {
    TEXT * text.len() + NODE * text.bytes().filter(|byte| *byte == b'\n').count()
}

impl PackIdentity {
    /// Bytes of its texts.
    fn texts(&self) -> usize {
        let Self { name, version, description, app_version, kube_version, home, icon, .. } = self;
        let some = [description, app_version, kube_version, home, icon].into_iter().flatten();
        let people = self.maintainers.iter().map(|person| {
            let Person { name, email, url } = person;
            name.len() + [email, url].into_iter().flatten().map(String::len).sum::<usize>()
        });
        let lists = self.sources.iter().chain(&self.keywords);
        name.len()
            + version.pre.len()
            + version.build.len()
            + some.chain(lists).map(String::len).sum::<usize>()
            + people.sum::<usize>()
            + pairs(&self.annotations)
    }
}

fn pairs(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// Reads release name and revision out of a stored object's name; the inverse of [`Record::key_of`].
///
/// `None` for every name that `key_of` would not have made, such as `v01` or a chunk's name.
pub fn revision_of(key: &str) -> Option<(&str, u32)> {
    let (release, digits) = key.strip_prefix(RECORD_PREFIX)?.strip_prefix('.')?.rsplit_once(".v")?;
    let revision: u32 = digits.parse().ok()?;
    // `parse` takes "+1" and "01" too; two names must never mean one revision.
    let canonical = revision.to_string() == digits;
    (canonical && !release.is_empty()).then_some((release, revision))
}

impl State {
    /// The `status` tag, as it is stored.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Failed { .. } => "failed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::PendingInstall { .. } => "pending-install",
            Self::PendingUpgrade { .. } => "pending-upgrade",
            Self::PendingRollback { .. } => "pending-rollback",
            Self::PendingUninstall { .. } => "pending-uninstall",
            Self::Recovering { .. } => "recovering",
        }
    }

    /// True while an operation claims the release: the four `pending-*` states and `recovering`.
    pub fn is_pending(&self) -> bool {
        self.deadline().is_some()
    }

    /// When the claim of a pending state ends; `None` for the states that claim nothing.
    ///
    /// A timeout beyond the end of time is a claim without end, not an error: the record is another tool's to write.
    pub fn deadline(&self) -> Option<Timestamp> {
        let (started_at, length) = match self {
            Self::PendingInstall { started_at, timeout }
            | Self::PendingUpgrade { started_at, timeout, .. }
            | Self::PendingRollback { started_at, timeout, .. }
            | Self::PendingUninstall { started_at, timeout } => {
                (started_at, SignedDuration::from_secs(i64::try_from(*timeout).unwrap_or(i64::MAX)))
            }
            Self::Recovering { started_at, .. } => (started_at, RECOVERING_TIMEOUT),
            Self::Deployed | Self::Failed { .. } | Self::Uninstalled | Self::Superseded => return None,
        };
        Some(started_at.checked_add(length).unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
