use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::reasons::INVALID_SPEC;
use crate::api::sources::{FromObject, FromPath};
use crate::api::{
    ActsAs, Adopt, Approval, Compression, DependsOn, DriftMode, DriftPause, HistoryStorage, IgnoreRule,
    ImmutableFields, LargeRevision, LockPolicy, ReferenceKind, Tenancy, UninstallPolicy, ValuesFrom,
};

pub(in crate::api::settings) const NO_DIR: Policy = policy(false);
pub(in crate::api::settings) const DIR: Policy = policy(true);

const fn policy(pack_dir_enabled: bool) -> Policy {
    Policy {
        pack_dir_enabled,
        storage_dir_enabled: false,
        storage_namespaces: Vec::new(),
        watch_namespace: None,
        watch_labels: None,
        default_service_account: None,
        tenancy: Tenancy::Single,
        require_signatures: false,
        trust_pack_crds: false,
        ignore: Vec::new(),
        lock: LockPolicy { objects: 1000, as_operator: false },
    }
}

/// A release with a pack in a ConfigMap, and `patch` merged over the whole object (null removes).
pub(in crate::api::settings) fn release(patch: Value) -> SherpackRelease {
    let mut object = json!({
        "apiVersion": "sherpack.io/v1alpha1",
        "kind": "SherpackRelease",
        "metadata": {"name": "web", "namespace": "apps"},
        "spec": {"pack": {"configMap": {"name": "web-pack"}}}
    });
    json_patch::merge(&mut object, &patch);
    serde_json::from_value(object).expect("a SherpackRelease")
}

pub(in crate::api::settings) fn spec(patch: Value) -> SherpackRelease {
    release(json!({ "spec": patch }))
}

pub(in crate::api::settings) fn settings(patch: Value) -> Settings {
    validate(&spec(patch), &NO_DIR).expect("valid")
}

pub(in crate::api::settings) fn refusal(release: &SherpackRelease, policy: &Policy) -> Invalid {
    validate(release, policy).expect_err("invalid")
}

pub(in crate::api::settings) fn in_object(kind: ReferenceKind, name: &str, key: Option<&str>) -> PackFrom {
    PackFrom::Object(FromObject { kind, name: name.to_owned(), key: key.map(str::to_owned) })
}

#[test]
fn a_minimal_release_gets_the_documented_defaults() {
    let expected = Settings {
        lock: None,
        signatures: Signatures::Unasked,
        release_name: "web".into(),
        target_namespace: "apps".into(),
        create_namespace: false,
        pack: in_object(ReferenceKind::ConfigMap, "web-pack", None),
        values: json!({}),
        values_from: Vec::new(),
        depends_on: Vec::new(),
        acts_as: ActsAs::Operator,
        suspend: false,
        interval: Duration::from_secs(600),
        timeout: Duration::from_secs(300),
        wait: true,
        waves: WaveSettings { wait: true, timeout: None },
        install_retries: 3,
        install_retry_interval: None,
        uninstall_on_failure: false,
        adopt: Adopt::Never,
        upgrade_retries: 3,
        upgrade_retry_interval: None,
        rollback_on_failure: true,
        immutable_fields: ImmutableFields::Fail,
        paused: false,
        rollback_to: None,
        test: TestSettings::default(),
        crds: CrdSettings::default(),
        uninstall: UninstallSettings {
            policy: UninstallPolicy::Delete,
            wait: true,
            keep_history: false,
            timeout: Duration::from_secs(300),
        },
        history_limit: 10,
        history_storage: HistoryStorage::Secret,
        history_namespace: "apps".into(),
        compression: Compression::Zstd,
        large: LargeRevision::Chunked,
        drift: DriftMode::Enabled,
        strict: Vec::new(),
        ignore: Some(Vec::new()),
        approval: Approval::Automatic,
        requests: Requests::default(),
        bounded: Vec::new(),
    };
    assert_eq!(settings(json!({})), expected);
    let empty_blocks = json!({
        "install": {}, "upgrade": {}, "uninstall": {}, "history": {}, "drift": {}, "waves": {}, "test": {},
        "valuesFrom": [], "dependsOn": []
    });
    assert_eq!(settings(empty_blocks), expected);
}

#[test]
fn durations_out_of_range_are_bounded_and_named() {
    let bounded = settings(json!({
        "interval": "0.000001ms", "timeout": "1000h", "waves": {"timeout": "25h"},
        "uninstall": {"timeout": "48h"}, "crds": {"waitTimeout": "24h1s"},
    }));
    let day = Duration::from_secs(86_400);
    assert_eq!((bounded.interval, bounded.timeout), (Duration::from_secs(10), day));
    assert_eq!((bounded.waves.timeout, bounded.uninstall.timeout), (Some(day), day));
    assert_eq!(bounded.crds.wait_timeout, Some(day));
    let mut fields: Vec<&str> = bounded.bounded.iter().map(|one| one.field.as_str()).collect();
    fields.sort_unstable();
    let all = ["spec.crds.waitTimeout", "spec.interval", "spec.timeout", "spec.uninstall.timeout"];
    assert_eq!(fields, [&all[..], &["spec.waves.timeout"]].concat());
    let endless = spec(json!({"uninstall": {"timeout": "1000h"}}));
    assert_eq!(uninstall_settings(&endless).timeout, day, "a deletion is bounded as well");
}

#[test]
fn defaults_that_are_written_out_ask_for_nothing() {
    let written = json!({
        "createNamespace": false, "suspend": false, "interval": "10m", "timeout": "5m", "wait": true,
        "waves": {"wait": true},
        "install": {"retries": 3, "onFailure": "Retain", "adopt": "Never"},
        "upgrade": {"retries": 3, "onFailure": "Rollback", "immutableFields": "Fail", "paused": false},
        "test": {"enabled": false, "ignoreFailures": false},
        "uninstall": {"policy": "Delete", "wait": true, "keepHistory": false, "timeout": "5m"},
        "drift": {"mode": "Enabled", "strict": {"managers": []}, "ignore": []},
        "history": {"limit": 10, "storage": "Secret", "namespace": "apps", "compression": "Zstd", "large": "Chunked"},
        "approval": "Automatic"
    });
    assert_eq!(settings(written), settings(json!({})));
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a table: every field of the spec, and the setting that it becomes"
)]
fn everything_supported_is_taken_over() {
    let rule = json!({"target": {"kind": "Deployment", "labelSelector": "app"}, "paths": ["/spec/replicas"]});
    let mut release = release(json!({
        "metadata": {"annotations": {
            "sherpack.io/reconcile-at": "a", "sherpack.io/reset-at": "b", "sherpack.io/test-at": "c",
            "sherpack.io/approve": "d",
            "sherpack.io/accept-record": "e",
            "sherpack.io/drift-pause-until": "2030-01-01T01:00:00+01:00"
        }},
        "spec": {
            "pack": {"configMap": null, "path": "team/podinfo"},
            "releaseName": "shop", "targetNamespace": "prod", "createNamespace": true,
            "valuesFrom": [
                {"kind": "ConfigMap", "name": "common"},
                {"kind": "Secret", "name": "db", "key": "password", "targetPath": "db.password", "optional": true},
            ],
            "serviceAccountName": "deployer",
            "suspend": true, "interval": "1h", "timeout": "90s", "wait": false,
            "waves": {"wait": true, "timeout": "30s"},
            "install": {"retries": 0, "retryInterval": "2h", "onFailure": "Uninstall", "adopt": "Unowned"},
            "upgrade": {"retries": 7, "retryInterval": "30m", "onFailure": "Retain", "immutableFields": "Recreate", "paused": true},
            "rollbackTo": 3, "test": {"enabled": true, "ignoreFailures": true},
            "uninstall": {"policy": "Orphan", "wait": false, "keepHistory": true, "timeout": "1m30s"},
            "history": {
                "limit": 1, "storage": "ConfigMap", "namespace": "prod", "compression": "Gzip",
                "large": "SeparateManifests"
            },
            "drift": {"mode": "Warn", "strict": {"managers": ["m"]}, "ignore": [rule]}, "approval": "Manual",
            "dependsOn": [{"name": "db"}]
        }
    }));
    release.spec.values = json!({"a": null, "b": {"c": [1]}}).as_object().cloned();
    let expected = Settings {
        lock: None,
        signatures: Signatures::Unasked,
        release_name: "shop".into(),
        target_namespace: "prod".into(),
        create_namespace: true,
        pack: PackFrom::Path(FromPath("team/podinfo".into())),
        values: json!({"a": null, "b": {"c": [1]}}),
        values_from: vec![
            ValuesFrom {
                kind: ReferenceKind::ConfigMap,
                name: "common".into(),
                key: "values.yaml".into(),
                target_path: None,
                optional: false,
            },
            ValuesFrom {
                kind: ReferenceKind::Secret,
                name: "db".into(),
                key: "password".into(),
                target_path: Some("db.password".into()),
                optional: true,
            },
        ],
        depends_on: vec![DependsOn { namespace: "apps".into(), name: "db".into() }],
        acts_as: ActsAs::ServiceAccount("deployer".into()),
        suspend: true,
        interval: Duration::from_secs(3600),
        timeout: Duration::from_secs(90),
        wait: false,
        waves: WaveSettings { wait: true, timeout: Some(Duration::from_secs(30)) },
        install_retries: 0,
        install_retry_interval: Some(Duration::from_secs(7200)),
        uninstall_on_failure: true,
        adopt: Adopt::Unowned,
        upgrade_retries: 7,
        upgrade_retry_interval: Some(Duration::from_secs(1800)),
        rollback_on_failure: false,
        immutable_fields: ImmutableFields::Recreate,
        paused: true,
        rollback_to: Some(3),
        test: TestSettings { enabled: true, ignore_failures: true },
        crds: CrdSettings::default(),
        uninstall: UninstallSettings {
            policy: UninstallPolicy::Orphan,
            wait: false,
            keep_history: true,
            timeout: Duration::from_secs(90),
        },
        history_limit: 1,
        history_storage: HistoryStorage::ConfigMap,
        history_namespace: "prod".into(),
        compression: Compression::Gzip,
        large: LargeRevision::SeparateManifests,
        drift: DriftMode::Warn,
        strict: vec!["m".into()],
        ignore: Some(vec![Arc::new(
            IgnoreRule::parse(&serde_json::from_value(rule).expect("a rule")).expect("a rule"),
        )]),
        approval: Approval::Manual,
        requests: Requests {
            approve: Some("d".to_owned()),
            accept_record: Some("e".to_owned()),
            reconcile_at: Some("a".into()),
            reset_at: Some("b".into()),
            test_at: Some("c".into()),
            drift_pause_until: Some("2030-01-01T00:00:00Z".parse().expect("a time")),
        },
        bounded: Vec::new(),
    };
    assert_eq!(validate(&release, &DIR), Ok(expected));
}

#[test]
fn values_that_make_no_sense_are_refused_by_their_path() {
    let entry = |name: &str| json!({"kind": "Secret", "name": name});
    let cases = [
        ("spec.pack", json!({"pack": null})),
        ("spec.pack", json!({"lock": {"helmRelease": {"name": "h"}}})),
        ("spec.pack", json!({"pack": {"configMap": null}})),
        ("spec.pack", json!({"pack": {"path": "p"}})),
        ("spec.drift.strict.managers[1]", json!({"drift": {"strict": {"managers": ["m", " "]}}})),
        (
            "spec.drift.ignore[1].paths[0]",
            json!({"drift": {"ignore": [{"paths": ["/spec"]}, {"paths": ["spec"]}]}}),
        ),
        ("spec.drift.ignore[0]", json!({"drift": {"ignore": [{}]}})),
        ("spec.serviceAccountName", json!({"serviceAccountName": "Deployer"})),
        ("spec.pack", json!({"pack": {"oci": {"repository": "oci://x"}}})),
        ("spec.pack.configMap.name", json!({"pack": {"configMap": {"name": ""}}})),
        ("spec.pack.secret.name", json!({"pack": {"configMap": null, "secret": {"name": ""}}})),
        (
            "spec.dependsOn[1].name",
            json!({"dependsOn": [{"name": "db"}, {"name": "web", "namespace": "apps"}]}),
        ),
        ("spec.valuesFrom", json!({"valuesFrom": vec![json!({"kind": "Secret", "name": "v"}); 33]})),
        ("spec.valuesFrom[1].name", json!({"valuesFrom": [entry("v"), entry("")]})),
        ("spec.valuesFrom[0].key", json!({"valuesFrom": [{"kind": "Secret", "name": "v", "key": ""}]})),
        (
            "spec.valuesFrom[0].targetPath",
            json!({"valuesFrom": [{"kind": "Secret", "name": "v", "targetPath": ""}]}),
        ),
        ("spec.releaseName", json!({"releaseName": "a".repeat(54)})),
        ("spec.releaseName", json!({"releaseName": ""})),
        ("spec.releaseName", json!({"releaseName": "a.b"})),
        ("spec.targetNamespace", json!({"targetNamespace": "a".repeat(64)})),
        ("spec.targetNamespace", json!({"targetNamespace": "A"})),
        ("spec.interval", json!({"interval": "0s"})),
        ("spec.interval", json!({"interval": "soon"})),
        ("spec.timeout", json!({"timeout": "0h0m"})),
        ("spec.timeout", json!({"timeout": "-5m"})),
        ("spec.timeout", json!({"timeout": "9999999h"})),
        ("spec.uninstall.timeout", json!({"uninstall": {"timeout": "0s"}})),
        ("spec.waves.timeout", json!({"waves": {"timeout": "5"}})),
        ("spec.crds.waitTimeout", json!({"crds": {"waitTimeout": ""}})),
        ("spec.history.limit", json!({"history": {"limit": 0}})),
    ];
    for (field, patch) in cases {
        let invalid = refusal(&spec(patch.clone()), &DIR);
        assert_eq!((invalid.reason, invalid.field.as_str()), (INVALID_SPEC, field), "{patch}");
    }
    for name in [&"a".repeat(54), "a.b"] {
        let invalid = refusal(&release(json!({"metadata": {"name": name}})), &DIR);
        assert_eq!((invalid.reason, invalid.field.as_str()), (INVALID_SPEC, "metadata.name"));
        assert!(invalid.message.contains("spec.releaseName"), "{invalid}");
    }
    let annotated = release(json!({"metadata": {"annotations": {"sherpack.io/drift-pause-until": "soon"}}}));
    assert_eq!(refusal(&annotated, &DIR).field, "metadata.annotations[sherpack.io/drift-pause-until]");
}

#[test]
fn a_long_object_name_is_fine_when_the_release_has_a_short_one() {
    let release = release(json!({"metadata": {"name": "a.b".repeat(30)}, "spec": {"releaseName": "web"}}));
    assert_eq!(validate(&release, &NO_DIR).map(|s| s.release_name), Ok("web".into()));
}

#[test]
fn deletion_does_not_need_a_valid_spec() {
    let broken =
        spec(json!({"rollbackTo": 0, "uninstall": {"policy": "Orphan", "wait": false, "timeout": "x"}}));
    assert!(validate(&broken, &NO_DIR).is_err());
    let expected = UninstallSettings {
        policy: UninstallPolicy::Orphan,
        wait: false,
        keep_history: false,
        timeout: Duration::from_secs(300),
    };
    assert_eq!(uninstall_settings(&broken), expected);
    let fine = spec(json!({"uninstall": {"timeout": "7s"}}));
    assert_eq!(uninstall_settings(&fine).timeout, Duration::from_secs(7));
}

#[test]
fn a_drift_pause_lasts_until_its_moment_and_at_most_a_day() {
    let release = release(
        json!({"metadata": {"annotations": {"sherpack.io/drift-pause-until": "2030-01-02T00:00:00Z"}}}),
    );
    let settings = validate(&release, &NO_DIR).expect("valid");
    let at = |time: &str| time.parse::<Timestamp>().expect("a time");
    let until = at("2030-01-02T00:00:00Z");
    for (now, expected) in [
        ("2029-12-31T23:59:59Z", DriftPause::TooFar { from: at("2030-01-01T00:00:00Z") }),
        ("2030-01-01T00:00:00Z", DriftPause::Until(until)),
        ("2030-01-01T23:59:59Z", DriftPause::Until(until)),
        ("2030-01-02T00:00:00Z", DriftPause::Off),
    ] {
        assert_eq!(settings.drift_pause(at(now)), expected, "{now}");
    }
    assert_eq!(self::settings(json!({})).drift_pause(until), DriftPause::Off);
}
