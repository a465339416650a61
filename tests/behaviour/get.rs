//! `get`: what a stored revision says, for people who may read the record and not the key that seals it.

use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::harness::PERSON;
use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

fn get(h: &Harness, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .arg("get")
        .args(arguments)
        .args(["--namespace", &h.namespace])
        .env("KUBECONFIG", &h.settings.kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn out(h: &Harness, arguments: &[&str]) -> String {
    let output = get(h, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("shown", json!({"color": "{{ values.color }}"})))
        .values("color: grey\nimage: {tag: '1', pull: Always}\n")
        .template("NOTES.txt", "It is {{ values.color }}.\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_manifest_and_notes_of_each_revision_are_printed_with_their_sources() {
    let h = Harness::new("get-values").await;
    let private = json!({"data": {"tag": STANDARD.encode("'2'")}});
    h.objects.server_side_apply("Secret/private", PERSON, private).await;
    let common = json!({"data": {"values.yaml": "color: red\nextra: {a: 1, b.c: 2}\n"}});
    h.objects.server_side_apply("ConfigMap/common", PERSON, common).await;
    let sources = json!([
        {"kind": "ConfigMap", "name": "common"},
        {"kind": "Secret", "name": "private", "key": "tag", "targetPath": "image.tag"},
    ]);
    // Its name is another one than that of the resource.
    let more = json!({"releaseName": "shop", "valuesFrom": sources, "values": {"extra": {"a": 3}}});
    h.deploy("web", &pack(), more).await;
    let second = json!({"data": {"values.yaml": "color: blue\nextra: {a: 1, b.c: 2}\n"}});
    h.objects.server_side_apply("ConfigMap/common", PERSON, second).await;
    h.records_show("shop", &["1 superseded", "2 deployed"]).await;

    let values = |arguments: &[&str]| -> Value {
        serde_json::from_str(&out(&h, &[&["values", "-o", "json"], arguments].concat())).unwrap()
    };
    let expected = json!({
        "color": "blue", "image": {"tag": "2", "pull": "Always"}, "extra": {"a": 3, "b.c": 2},
    });
    for name in ["web", "shop"] {
        assert_eq!(values(&[name]), expected, "{name}");
    }
    assert_eq!(values(&["web", "--revision", "1"])["color"], "red");
    let yaml =
        sherpack_operator::manifest::yaml::parse_value(&out(&h, &["values", "web"]), "stdout").unwrap();
    assert_eq!(yaml, expected);

    let told = out(&h, &["values", "web", "--sources"]);
    let told: Vec<Vec<&str>> =
        told.lines().skip(1).map(|line| line.splitn(2, "  ").map(str::trim).collect()).collect();
    assert_eq!(
        told,
        [
            ["color", "ConfigMap/get-values/common#values.yaml"],
            ["extra.a", "SherpackRelease/get-values/web#spec.values"],
            [r"extra.b\.c", "ConfigMap/get-values/common#values.yaml"],
            ["image.pull", "defaults of the pack"],
            ["image.tag", "Secret/get-values/private#tag"],
        ]
    );
    let record = h.decoded("shop", 2).await.record;
    assert_eq!(
        record.values_provenance.sources["image.tag"],
        json!({"type": "values-file", "path": "Secret/get-values/private#tag", "line": 0})
    );
    assert_eq!(out(&h, &["manifest", "web"]), record.manifest);
    assert_eq!(out(&h, &["notes", "web"]), "It is blue.\n");
    assert_eq!(out(&h, &["notes", "web", "--revision", "1"]), "It is red.\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_printed_is_told_and_ends_with_its_code() {
    let h = Harness::new("get-nothing").await;
    let silent = Pack::new("web", "1.0.0").object(config_map("shown", json!({"a": "b"})));
    h.deploy("web", &silent, json!({})).await;
    for (arguments, code, part) in [
        (&["values", "none"][..], 1, "no revision of a release none in namespace get-nothing"),
        (&["values", "web", "--revision", "7"], 1, "no revision 7"),
        (&["notes", "web"], 1, "no notes"),
        (&["values", "web", "--revision", "0"], 2, "0"),
        (&["values", "web", "--context", "none"], 2, "none"),
        (&["hooks", "web"], 1, "no hooks"),
        (&["secrets", "web"], 2, "secrets"),
    ] {
        let output = get(&h, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    h.damage("web", 1, |bytes| bytes.truncate(20)).await;
    let output = get(&h, &["values", "web"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("sh.sherpack.release.v1.web.v1"), "{error}");
}
