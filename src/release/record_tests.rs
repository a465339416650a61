use serde_json::json;

use super::*;
use crate::release::{Cleanup, OnFailure, Phase};

const FULL: &str = include_str!("golden/record_full.json");
const MINIMAL: &str = include_str!("golden/record_minimal.json");

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn state(value: Value) -> State {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_published_shape_is_read_and_written_field_for_field() {
    let record: Record = serde_json::from_str(FULL).unwrap();
    let golden: Value = serde_json::from_str(FULL).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap(), golden);
}

#[test]
fn a_record_with_only_the_required_fields_is_read() {
    let record: Record = serde_json::from_str(MINIMAL).unwrap();
    assert_eq!((record.version, record.state, record.values), (1, State::Deployed, Value::Null));
}

#[test]
fn absent_options_are_written_as_null_and_empty_collections_are_written() {
    let record: Record = serde_json::from_str(MINIMAL).unwrap();
    let written = serde_json::to_value(&record).unwrap();
    assert_eq!(
        written,
        json!({
            "name": "web", "namespace": "apps", "version": 1, "state": {"status": "deployed"},
            "pack": {
                "name": "podinfo", "version": "1.0.0", "description": null, "appVersion": null,
                "kubeVersion": null, "home": null, "icon": null, "sources": [], "keywords": [],
                "maintainers": [], "annotations": {},
            },
            "values": null, "valuesProvenance": {"sources": {}}, "manifest": "", "hooks": [], "labels": {},
            "createdAt": "2024-05-01T10:00:00Z", "updatedAt": "2024-05-01T10:00:00.123456789Z", "notes": null,
        })
    );
}

#[test]
fn every_required_field_is_required() {
    let minimal: Value = serde_json::from_str(MINIMAL).unwrap();
    let fields: Vec<String> = minimal.as_object().unwrap().keys().cloned().collect();
    for field in &fields {
        let mut cut = minimal.clone();
        cut.as_object_mut().unwrap().remove(field);
        assert!(serde_json::from_value::<Record>(cut).is_err(), "{field}");
    }
}

#[test]
fn a_time_in_another_zone_is_written_in_utc() {
    let mut minimal: Value = serde_json::from_str(MINIMAL).unwrap();
    minimal["createdAt"] = json!("2024-05-01T12:00:00+02:00");
    let record: Record = serde_json::from_value(minimal).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap()["createdAt"], "2024-05-01T10:00:00Z");
}

#[test]
fn a_loose_pack_version_is_refused() {
    let mut minimal: Value = serde_json::from_str(MINIMAL).unwrap();
    minimal["pack"]["version"] = json!("1.0");
    assert!(serde_json::from_value::<Record>(minimal).is_err());
}

#[test]
fn all_nine_states_keep_their_tags_and_fields() {
    let t = "2024-05-01T10:00:00Z";
    let rows = [
        (json!({"status": "deployed"}), "deployed", None),
        (json!({"status": "failed", "reason": "r", "recoverable": true, "failed_at": t}), "failed", None),
        (json!({"status": "uninstalled"}), "uninstalled", None),
        (json!({"status": "superseded"}), "superseded", None),
        (
            json!({"status": "pending-install", "started_at": t, "timeout": 300}),
            "pending-install",
            Some("2024-05-01T10:05:00Z"),
        ),
        (
            json!({"status": "pending-upgrade", "started_at": t, "timeout": 60, "previous_version": 3}),
            "pending-upgrade",
            Some("2024-05-01T10:01:00Z"),
        ),
        (
            json!({"status": "pending-rollback", "started_at": t, "timeout": 0, "target_version": 2}),
            "pending-rollback",
            Some(t),
        ),
        (
            json!({"status": "pending-uninstall", "started_at": t, "timeout": 300}),
            "pending-uninstall",
            Some("2024-05-01T10:05:00Z"),
        ),
        (
            json!({"status": "recovering", "from_status": "failed", "attempt": 2, "started_at": t}),
            "recovering",
            Some("2024-05-01T10:02:00Z"),
        ),
    ];
    for (stored, name, deadline) in rows {
        let read = state(stored.clone());
        assert_eq!(serde_json::to_value(&read).unwrap(), stored);
        assert_eq!(read.name(), name);
        assert_eq!(read.deadline(), deadline.map(at), "{name}");
        assert_eq!(read.is_pending(), deadline.is_some(), "{name}");
    }
}

#[test]
fn states_outside_the_format_are_refused() {
    let t = "2024-05-01T10:00:00Z";
    for bad in [
        json!("deployed"),
        json!({"status": "Deployed"}),
        json!({"status": "paused"}),
        json!({"status": "pending-install", "started_at": t, "timeout": "300s"}),
        json!({"status": "pending-install", "started_at": t}),
        json!({"status": "failed", "reason": "r", "recoverable": true, "failedAt": t}),
    ] {
        assert!(serde_json::from_value::<State>(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn extra_keys_in_a_state_are_tolerated() {
    assert_eq!(state(json!({"status": "deployed", "by": "somebody"})), State::Deployed);
}

#[test]
fn an_absurd_timeout_never_ends_instead_of_failing() {
    let endless = state(
        json!({"status": "pending-install", "started_at": "2024-05-01T10:00:00Z", "timeout": u64::MAX}),
    );
    assert_eq!(endless.deadline(), Some(Timestamp::MAX));
}

#[test]
fn hooks_have_the_published_defaults_and_keep_policies_nobody_knows() {
    let read: Hook =
        serde_json::from_value(json!({"name": "h", "phases": ["post-delete"], "resource": "x"})).unwrap();
    assert_eq!(read.timeout, 300);
    assert_eq!((read.on_failure, read.cleanup), (OnFailure::FailOperation, Cleanup::BeforeNextRun));

    let strange = json!({
        "name": "h", "phases": ["mid-install"], "resource": "x", "weight": 0, "onFailure": {"page": "ada"},
        "timeout": 1, "cleanup": "eventually",
    });
    let read: Hook = serde_json::from_value(strange.clone()).unwrap();
    assert_eq!(read.phases, [Phase::Other("mid-install".into())]);
    assert_eq!(serde_json::to_value(&read).unwrap(), strange);
}

#[test]
fn a_key_leads_back_to_its_release_and_revision() {
    for (release, revision) in [("web", 1), ("a.v2", 3), ("x.chunk", u32::MAX)] {
        assert_eq!(revision_of(&Record::key_of(release, revision)), Some((release, revision)));
    }
    for not_a_record in [
        "sh.sherpack.release.v1.web.v01",
        "sh.sherpack.release.v1.web.v+1",
        "sh.sherpack.release.v1.web.v4294967296",
        "sh.sherpack.release.v1.web.v1.chunk.0",
        "sh.sherpack.release.v1..v1",
        "sh.helm.release.v1.web.v1",
        "web",
    ] {
        assert_eq!(revision_of(not_a_record), None, "{not_a_record}");
    }
}
