//! What a revision says of itself when it begins, alike whether it was rendered or goes back to a stored one.

use crate::manifest::InventoryEntry;
use crate::pack::render::Secrets;
use crate::plan::{self, NextInventory, Parts};
use crate::reconcile::prepare::Prepare;
use crate::release::{Action, Owner, PRIVATE_VERSION, Past, Private, Shipped};

/// What is particular to the revision.
pub(super) struct Beginning<'b> {
    pub(super) action: Action,
    pub(super) attempt: u32,
    pub(super) revision: u32,
    pub(super) inputs: String,
    pub(super) pack_digest: String,
    /// Of the line of revisions.
    pub(super) owner_uid: String,
    pub(super) inventory: NextInventory,
    pub(super) hooks: &'b [plan::Hook],
    pub(super) definitions: Vec<Shipped>,
    pub(super) unreachable: Option<u32>,
    pub(super) adopts: bool,
    pub(super) secrets: Secrets,
}

impl Prepare<'_> {
    /// The private part of a revision that nothing was done for yet.
    pub(super) fn private(&self, beginning: Beginning<'_>) -> Private {
        let scope = self.records.scope;
        let Beginning { action, attempt, revision, inputs, pack_digest, owner_uid, .. } = beginning;
        Private {
            version: PRIVATE_VERSION,
            writes: 1,
            owner: Owner {
                namespace: scope.key.namespace.clone(),
                name: scope.key.name.clone(),
                uid: owner_uid,
            },
            holder: scope.ctx.holder.clone(),
            action,
            attempt,
            inputs,
            pack_digest,
            inventory: beginning.inventory.wanted,
            leftovers: beginning.inventory.leftovers,
            hook_objects: plan::hook_objects(beginning.hooks, revision),
            operation: None,
            last_deployed: None,
            unreachable: beginning.unreachable,
            accepted: false,
            approved: None,
            target: None,
            undone: None,
            failures: Vec::new(),
            spec: scope.spec_digest(),
            replaces: Vec::new(),
            undo_at_once: false,
            immutable_fields: scope.settings.immutable_fields,
            hooks: Vec::new(),
            tested: None,
            definitions: beginning.definitions,
            ignore: self.live().written_rules(self.records.newest().own_private()),
            secrets: beginning.secrets,
            adopts: beginning.adopts,
        }
    }
}

/// What the revision wants, and what earlier ones leave to prune. `hooks_before`: what the hooks of before have made.
pub(super) fn inventory(
    past: &Past,
    start_over: bool,
    parts: &Parts,
    revision: u32,
    hooks_before: &[InventoryEntry],
) -> NextInventory {
    let (known, leftovers) =
        if start_over { Default::default() } else { (past.inventory(), past.leftovers()) };
    let mut next = plan::next_inventory(&parts.objects, revision, &known, &leftovers)
        .with_hooks(&parts.hooks, hooks_before);
    if past.prunes().is_none() {
        // What another release of this name and target left behind, orphaned by its owner, was read and is not ours to
        // take away; what was adopted is handed back.
        next.leftovers.retain(|entry| entry.adopted.is_some());
    }
    next
}
