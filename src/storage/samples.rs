//! A revision with everything in it, for tests here and in `tests/behaviour`. What it uses comes from the module around it.

use super::{
    Action, Adopted, InventoryEntry, ObjectId, Operation, OperationPhase, Owner, PRIVATE_VERSION, Private,
    Record, ReleaseKey,
};

pub(crate) const PUBLISHED: &str = include_str!("../release/golden/record_full.json");

pub(crate) fn record(revision: u32) -> Record {
    let mut record: Record = serde_json::from_str(PUBLISHED).unwrap();
    record.version = revision;
    record
}

/// For whom [`private`] seals.
pub(crate) fn owner() -> ReleaseKey {
    ReleaseKey { namespace: "apps".into(), name: "web".into() }
}

pub(crate) fn private(revision: u32) -> Private {
    Private {
        version: PRIVATE_VERSION,
        writes: 1,
        owner: Owner { namespace: "apps".into(), name: "web".into(), uid: "6f1c".into() },
        holder: "operator-0/9a".into(),
        action: Action::Upgrade,
        attempt: 1,
        inputs: "sha256:aa".into(),
        pack_digest: "sha256:bb".into(),
        inventory: vec![InventoryEntry {
            id: ObjectId {
                group: "apps".into(),
                kind: "Deployment".into(),
                namespace: Some("apps".into()),
                name: "web".into(),
            },
            api_version: "apps/v1".into(),
            uid: Some("77".into()),
            digest: "sha256:cc".into(),
            changed_in: revision,
            fingerprint: Some("dd".into()),
            keep: false,
            handed_over: vec!["/spec/replicas".into()],
            ignored: vec!["/data/a".into()],
            replicas: Some(2),
            skipped: vec!["spec.selector".into()],
            adopted: Some(Adopted { kept: Some("sha256:ee".into()), deployed: false, unexplained: false }),
            ran: None,
            layer: 0,
        }],
        leftovers: Vec::new(),
        hook_objects: Vec::new(),
        operation: Some(Operation {
            phase: OperationPhase::Apply,
            wave: -1,
            step: 2,
            hook: None,
            jobs: Vec::new(),
        }),
        last_deployed: Some(1),
        unreachable: None,
        accepted: false,
        approved: None,
        target: None,
        undone: None,
        failures: Vec::new(),
        spec: String::new(),
        replaces: Vec::new(),
        undo_at_once: false,
        immutable_fields: Default::default(),
        hooks: Vec::new(),
        tested: None,
        definitions: Vec::new(),
        ignore: Vec::new(),
        secrets: Default::default(),
        adopts: false,
    }
}
