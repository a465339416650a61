//! What the rest of the crate acts on: a release with every default applied.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::sources::{PackFrom, Signatures};
use crate::api::{
    ActsAs, Adopt, Approval, Bounded, Compression, CrdUninstall, CrdUpgrade, DependsOn, DriftMode,
    HistoryStorage, IgnoreRule, ImmutableFields, LargeRevision, ReferenceKind, UninstallPolicy,
};

pub(super) const INTERVAL: Duration = Duration::from_secs(600);
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);
/// Bounds the wait for one wave of several unless the spec says otherwise.
pub const WAVE_TIMEOUT: Duration = Duration::from_secs(120);
pub(super) const RETRIES: u32 = 3;
pub(super) const HISTORY_LIMIT: u32 = 10;
pub(super) const VALUES_KEY: &str = "values.yaml";
/// Entries of `spec.valuesFrom`.
pub(super) const VALUES_FROM_MAX: usize = 32;

/// How far ahead a pause of the lock may reach.
const DRIFT_PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Everything a release asks for, with every default applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the release: a DNS label of at most 53 characters.
    pub release_name: String,
    /// Namespace into which the pack is installed.
    pub target_namespace: String,
    /// Whether that namespace is created when it is missing.
    pub create_namespace: bool,
    /// Where the pack is; nowhere with `lock`.
    pub pack: PackFrom,
    /// Whose signature the pack needs.
    pub signatures: Signatures,
    /// What is locked instead of installing a pack.
    pub lock: Option<LockOf>,
    /// The user's values: always a JSON object. A null in it removes the pack's value.
    pub values: Value,
    /// Objects whose values come before those, the later ones stronger.
    pub values_from: Vec<ValuesFrom>,
    /// Releases that have to be Ready before anything is installed or upgraded.
    pub depends_on: Vec<DependsOn>,
    /// As whom all this is read, and the objects are read and written.
    pub acts_as: ActsAs,
    /// Nothing is done but deletion.
    pub suspend: bool,
    /// How often the source is looked up again; at least [`INTERVAL_MIN`](crate::api::INTERVAL_MIN).
    pub interval: Duration,
    /// Bounds one operation; more than zero, at most [`TIMEOUT_MAX`](crate::api::TIMEOUT_MAX).
    pub timeout: Duration,
    /// Whether a revision is deployed only when its objects are healthy.
    pub wait: bool,
    /// How waves are waited for.
    pub waves: WaveSettings,
    /// How often a failed install is tried again.
    pub install_retries: u32,
    /// How long after a failure one more attempt is made when those are spent; more than zero. `None`: never.
    pub install_retry_interval: Option<Duration>,
    /// Whether an install that failed for good is taken away again.
    pub uninstall_on_failure: bool,
    /// Which existing objects may be taken over.
    pub adopt: Adopt,
    /// How often a failed upgrade is tried again.
    pub upgrade_retries: u32,
    /// As [`Settings::install_retry_interval`].
    pub upgrade_retry_interval: Option<Duration>,
    /// Whether an upgrade that failed for good makes way for the last deployed revision.
    pub rollback_on_failure: bool,
    /// What happens to an object that has to change in a field that cannot change.
    pub immutable_fields: ImmutableFields,
    /// Nothing new is rolled out.
    pub paused: bool,
    /// The revision to which the release is pinned; at least 1.
    pub rollback_to: Option<u32>,
    /// Whether tests run after each install and upgrade.
    pub test: TestSettings,
    /// What happens on deletion.
    pub uninstall: UninstallSettings,
    /// How definitions of resources are treated.
    pub crds: CrdSettings,
    /// How many revisions are kept; at least 1.
    pub history_limit: u32,
    /// Where revisions are stored.
    pub history_storage: HistoryStorage,
    /// The namespace in which they are; for files that of the target, whatever the spec says.
    pub history_namespace: String,
    /// How revisions are compressed.
    pub compression: Compression,
    /// What happens to a revision that does not fit into one object.
    pub large: LargeRevision,
    /// Whether changes made by others are put back.
    pub drift: DriftMode,
    /// Field managers whose additions are taken away.
    pub strict: Vec<String>,
    /// What is left to others; `None`: the spec does not say it in a way that can be read, so it stays as it was.
    pub ignore: Option<Vec<Arc<IgnoreRule>>>,
    /// Who lets a planned change through.
    pub approval: Approval,
    /// What was asked for by annotation.
    pub requests: Requests,
    /// Durations that count as others than the spec says.
    pub bounded: Vec<Bounded>,
}

/// A release that another tool installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOf {
    pub installer: Installer,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for LockOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { installer, namespace, name } = self;
        write!(f, "the {} release {namespace}/{name}", installer.as_str())
    }
}

/// Who installs what is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installer {
    Helm,
    /// Another Sherpack tool than this operator.
    Sherpack,
}

impl Installer {
    /// The name by which people call it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "Helm",
            Self::Sherpack => "Sherpack",
        }
    }
}

/// An entry of `spec.valuesFrom`: an object of the release's own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesFrom {
    pub kind: ReferenceKind,
    pub name: String,
    pub key: String,
    /// Where the text of the key is set as one value; unset when it is YAML that is merged.
    pub target_path: Option<String>,
    /// Nothing is added when the object or the key is missing.
    pub optional: bool,
}

/// How waves are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveSettings {
    /// Whether a wave begins only when the objects of the one before are healthy.
    pub wait: bool,
    /// Bounds the wait for one wave of several; unset when the spec says nothing.
    pub timeout: Option<Duration>,
}

/// Whether tests run after an install or upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestSettings {
    pub enabled: bool,
    /// A test that failed leaves the release Ready.
    pub ignore_failures: bool,
}

/// What happens on deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UninstallSettings {
    /// Whether the objects go or stay.
    pub policy: UninstallPolicy,
    /// Whether the resource stays until the objects are gone.
    pub wait: bool,
    /// Whether the revisions stay.
    pub keep_history: bool,
    /// Bounds the uninstall; more than zero.
    pub timeout: Duration,
}

/// How definitions of resources are treated. What is unset is for the pack to say, and then for the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrdSettings {
    /// Whether those that do not exist are made.
    pub install: Option<bool>,
    /// What happens to those that exist.
    pub upgrade: Option<CrdUpgrade>,
    /// Whether they go with the release.
    pub on_uninstall: Option<CrdUninstall>,
    /// Whether what they define is waited for.
    pub wait_ready: Option<bool>,
    /// How long; more than zero.
    pub wait_timeout: Option<Duration>,
    /// Changes that are let through, as `NAME@DIGEST`.
    pub confirm_changes: Vec<String>,
    /// Names of those that may go although objects of them exist.
    pub confirm_deletion: Vec<String>,
}

/// What was asked for by annotation. The texts are opaque: a value other than the last handled one is a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// `sherpack.io/reconcile-at`.
    pub reconcile_at: Option<String>,
    /// `sherpack.io/reset-at`.
    pub reset_at: Option<String>,
    /// `sherpack.io/test-at`.
    pub test_at: Option<String>,
    /// `sherpack.io/approve`.
    pub approve: Option<String>,
    /// `sherpack.io/accept-record`.
    pub accept_record: Option<String>,
    /// `sherpack.io/drift-pause-until`, as it was written; [`Settings::drift_pause`] judges it.
    pub drift_pause_until: Option<Timestamp>,
}

/// Whether the lock is paused by annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftPause {
    /// No, or not any more.
    Off,
    /// Until then.
    Until(Timestamp),
    /// The moment is more than 24 hours ahead, so the request is not honoured before `from`: the lock is on.
    TooFar { from: Timestamp },
}

impl Settings {
    /// Whether the lock is paused by annotation at `now`.
    #[must_use]
    pub fn drift_pause(&self, now: Timestamp) -> DriftPause {
        match self.requests.drift_pause_until {
            Some(until) if until <= now => DriftPause::Off,
            Some(until) if until.duration_since(now).unsigned_abs() > DRIFT_PAUSE_MAX => {
                DriftPause::TooFar { from: until.checked_sub(DRIFT_PAUSE_MAX).unwrap_or(now) }
            }
            Some(until) => DriftPause::Until(until),
            None => DriftPause::Off,
        }
    }
}
