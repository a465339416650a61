//! What only this operator needs to know of a revision.
//!
//! Owns the shape of the private part; `storage::codec` seals it with a MAC. May import `render` and below.
//! Invariant: it is believed only when its MAC is right. Pruning, resuming and locking read it and nothing else.

use serde::{Deserialize, Serialize};

use crate::manifest::InventoryEntry;
use crate::render::Secrets;

/// The version of [`Private`] that this program writes. A higher one is refused, never guessed at.
pub const PRIVATE_VERSION: u32 = 1;

/// The operator's own part of a revision record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Private {
    /// Always [`PRIVATE_VERSION`] when written.
    pub version: u32,
    /// The `SherpackRelease` that this revision belongs to.
    pub owner: Owner,
    /// Identity of the process that runs, or ran, the operation.
    pub holder: String,
    pub action: Action,
    /// Which try of the same inputs this is, from 1.
    pub attempt: u32,
    /// Digest of everything that decides the manifest; equal inputs need no new revision.
    pub inputs: String,
    /// `sha256:<hex>` of the pack.
    pub pack_digest: String,
    /// What this revision applies, with the fingerprints of what was applied.
    pub inventory: Vec<InventoryEntry>,
    /// Objects of earlier revisions that may still exist and are no longer wanted.
    #[serde(default)]
    pub leftovers: Vec<InventoryEntry>,
    /// How far the operation is; `None` once it ended.
    #[serde(default)]
    pub operation: Option<Operation>,
    /// The newest revision of this release that was deployed; prune decides by it.
    #[serde(default)]
    pub last_deployed: Option<u32>,
    /// What `generate_secret` gave, for the revisions to come.
    #[serde(default, skip_serializing_if = "Secrets::is_empty")]
    pub secrets: Secrets,
}

/// The `SherpackRelease` that owns a revision. The uid tells a recreated one from the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Which operation made the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    Install,
    Upgrade,
    Rollback,
    Uninstall,
}

/// The checkpoint of a running operation. It is authoritative; a status only displays it.
///
/// Everything before `step` of `phase` and `wave` is done. What `step` itself did is unknown: it is repeated, so
/// every step must bear that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub phase: OperationPhase,
    #[serde(default)]
    pub wave: i32,
    #[serde(default)]
    pub step: u32,
}

/// The phases of an operation in their order; the first five belong to install, upgrade and rollback, pruning
/// to all, and `Delete` takes the place of `Apply` on uninstall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OperationPhase {
    PreHooks,
    Crds,
    Apply,
    Wait,
    PostHooks,
    Prune,
    Delete,
}
