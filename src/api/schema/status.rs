//! What the operator reports about a release.
//!
//! Words that come from elsewhere (revision states, actions, health) are texts here and not enums: a status
//! written by a newer operator must stay readable to an older one, else one unknown word would take the whole
//! release away from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::conditions::{clip, cut};

/// Most bytes of a name that others chose: of a pack, a chart, a version, a field manager.
pub const NAME_MAX: usize = 253;

/// Most entries in any list of the status; [`SherpackReleaseStatus::bound`] keeps to it.
pub const LIST_MAX: usize = 20;

/// What the operator knows about the release. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SherpackReleaseStatus {
    /// The generation of the spec that this status is about; -1 until the first one is written. While it is less than
    /// `metadata.generation`, work is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready says it all: its message is the one thing that blocks the release. Reconciling and Stalled follow
    /// kstatus; Released, Healthy, Drifted and Tested say more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub conditions: Vec<Condition>,

    /// Newest stored revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// How often that revision was written: an older state of it that is put back is not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_writes: Option<i64>,

    /// The pack of the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<PackStatus>,

    /// Stored revisions, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub history: Vec<HistoryEntry>,

    /// The running install, upgrade, rollback or uninstall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationStatus>,

    /// What others changed, and what was done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,

    /// Verdicts on the pack's CustomResourceDefinitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub crds: Vec<CrdStatus>,

    /// The plan that waits for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,

    /// Digest of everything that went into the newest revision: pack, values, names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,

    /// How often these inputs have failed in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<i64>,

    /// The requests by annotation that were last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled: Option<LastHandled>,
}

/// A pack that was released.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackStatus {
    /// Name of the pack.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Version of the pack.
    #[schemars(length(max = 253))]
    pub version: String,
    /// Version of what the pack installs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub app_version: Option<String>,
    /// Digest of the pack's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// One stored revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Number of the revision.
    pub revision: i64,
    /// State of the revision: deployed, failed, superseded, uninstalled, recovering, or pending-install,
    /// pending-upgrade, pending-rollback, pending-uninstall.
    pub state: String,
    /// What made it: Install, Upgrade, Rollback or Uninstall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Name of its pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pack: Option<String>,
    /// Version of its pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub version: Option<String>,
    /// Digest of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_digest: Option<String>,
    /// Digest of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<String>,
    /// When it got its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Why it has its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// How its hooks ended, such as `pre-install Job/migrate Succeeded`; a failure with its reason in place of Succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub hooks: Vec<String>,
}

/// A running operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// Install, Upgrade, Rollback or Uninstall.
    pub action: String,
    /// The revision that it makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// What it does at the moment, such as apply, wait or prune.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The wave at which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<i64>,
    /// How many waves there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<i64>,
    /// How many steps are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    /// How many steps there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<i64>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it fails unless it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Which attempt this is, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// Objects that are not healthy or not gone yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub waiting_for: Vec<WaitingFor>,
}

/// An object that is waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFor {
    /// The object, such as `apps/Deployment apps/web`.
    pub object: String,
    /// InProgress, Failed, Terminating or Suspended.
    pub state: String,
    /// How many parts of it are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    /// How many parts of it are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i64>,
    /// Why it is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Since when it is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What others changed, and what was done about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// How many changes were put back (mode Enabled) or are there now (mode Warn).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// When something was last put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reverted_at: Option<Time>,
    /// Objects that another field manager changes again and again; they are put back less often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub contended: Vec<Contended>,
    /// The latest changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub objects: Vec<DriftedObject>,
}

/// An object that another field manager changes again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contended {
    /// The object, such as `apps/Deployment apps/web`.
    pub object: String,
    /// Field manager of the rival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub manager: Option<String>,
    /// Fields that it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub paths: Vec<String>,
}

/// An object that another field manager changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedObject {
    /// The object, such as `apps/Deployment apps/web`.
    pub object: String,
    /// Fields that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub paths: Vec<String>,
    /// Field manager that changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub manager: Option<String>,
    /// What was done: Reverted, Recreated or Reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// Verdict on one CustomResourceDefinition of the pack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CrdStatus {
    /// Name of the definition.
    pub name: String,
    /// Its policy: managed, shared or external.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Safe, Warning, Dangerous or Blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The changes behind the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub changes: Vec<String>,
    /// Digest of the change, for `spec.crds.confirmChanges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A plan that waits for approval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Digest of the plan, for annotation `sherpack.io/approve`.
    pub digest: String,
    /// The plan in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub summary: Option<String>,
}

/// Values of the request annotations that were last acted on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastHandled {
    /// Last value of `sherpack.io/reconcile-at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile_at: Option<String>,
    /// Last value of `sherpack.io/reset-at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<String>,
    /// Last value of `sherpack.io/test-at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_at: Option<String>,
}

impl SherpackReleaseStatus {
    /// Cuts every list to [`LIST_MAX`] entries, keeping the first, and every long text to what the schema takes.
    /// A status that is over is refused by the API server as a whole, so the last step before a write is this.
    pub fn bound(&mut self) {
        // Written out so that a new field cannot be forgotten.
        let Self {
            observed_generation: _,
            conditions,
            revision: _,
            record_writes: _,
            pack,
            history,
            operation,
            drift,
            crds,
            plan,
            inputs: _,
            failures: _,
            last_handled: _,
        } = self;
        conditions.truncate(LIST_MAX);
        if let Some(PackStatus { name, version, app_version, digest: _ }) = pack {
            (*name, *version) = (cut(name, NAME_MAX), cut(version, NAME_MAX));
            name_in_place(app_version);
        }
        history.truncate(LIST_MAX);
        history.iter_mut().for_each(|entry| {
            name_in_place(&mut entry.pack);
            name_in_place(&mut entry.version);
            clip_in_place(&mut entry.message);
            clip_all(&mut entry.hooks);
        });
        if let Some(OperationStatus { waiting_for, .. }) = operation {
            waiting_for.truncate(LIST_MAX);
            waiting_for.iter_mut().for_each(|waiting| clip_in_place(&mut waiting.reason));
        }
        if let Some(DriftStatus { count: _, last_reverted_at: _, contended, objects }) = drift {
            contended.truncate(LIST_MAX);
            contended.iter_mut().for_each(|rival| {
                name_in_place(&mut rival.manager);
                clip_all(&mut rival.paths);
            });
            objects.truncate(LIST_MAX);
            objects.iter_mut().for_each(|object| {
                name_in_place(&mut object.manager);
                clip_all(&mut object.paths);
            });
        }
        crds.truncate(LIST_MAX);
        crds.iter_mut().for_each(|crd| clip_all(&mut crd.changes));
        if let Some(PlanStatus { digest: _, summary }) = plan {
            clip_in_place(summary);
        }
    }
}

fn name_in_place(name: &mut Option<String>) {
    if let Some(name) = name {
        *name = cut(name, NAME_MAX);
    }
}

/// Cuts a list of texts to what the status shows of it.
pub fn clip_all(texts: &mut Vec<String>) {
    texts.truncate(LIST_MAX);
    texts.iter_mut().for_each(|text| *text = clip(text));
}

fn clip_in_place(text: &mut Option<String>) {
    if let Some(text) = text {
        *text = clip(text);
    }
}
