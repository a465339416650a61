//! Revisions outside of their cluster: read by hand, exported, imported.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use sherpack_operator::storage::Keeping;

use crate::support::control_plane::{self, ControlPlane};
use crate::support::packs::{config_map, deployment, secret};
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

/// What docs/operations.md tells people to type, with the command that unpacks.
fn one_liner(namespace: &str, unpack: &str) -> String {
    format!(
        "kubectl -n {namespace} get secret sh.sherpack.release.v1.web.v1 -o jsonpath='{{.data.release}}' \
         | base64 -d | base64 -d | {unpack}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_is_decoded_by_hand_as_the_documentation_tells() {
    for (compression, unpack) in [("Zstd", "zstd -d"), ("Gzip", "gunzip"), ("None", "cat")] {
        let name = format!("by-hand-{}", compression.to_lowercase());
        let tool = unpack.split(' ').next().unwrap();
        let there = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if tool == "zstd" && there.is_err() {
            // Not on every machine; the other two show that the rest of the line is right.
            continue;
        }
        let h = Harness::new(&name).await;
        let pack = Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue"})));
        h.deploy("web", &pack, json!({"history": {"compression": compression}})).await;
        let path = format!("{}:{}", h.control_plane.bin.display(), std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args(["-c", &one_liner(&name, unpack)])
            .env("PATH", path)
            .env("KUBECONFIG", &h.control_plane.kubeconfig)
            .output()
            .unwrap();
        let decoded: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!((&decoded["name"], &decoded["version"]), (&json!("web"), &json!(1)));
        assert_eq!(decoded["state"]["status"], "deployed");
        assert!(decoded["manifest"].as_str().unwrap().contains("color"));
    }
}

fn operator(control_plane: &ControlPlane, h: &Harness, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .args(arguments)
        .args(["--operator-namespace", &h.settings.operator_namespace])
        .env("KUBECONFIG", &control_plane.kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": color})))
        .object(secret("credentials", json!({"password": "s3cret"})))
        .object(deployment("web", 0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exported_release_goes_on_in_a_second_control_plane_without_a_new_revision() {
    let first = Harness::new("transfer").await;
    first.deploy("web", &pack("blue"), json!({})).await;
    first.pack("web-pack", &pack("green")).await;
    first.shows("SherpackRelease/web", "/status/revision", 2).await;
    first.ready("web").await;
    let keeping = Keeping::default();
    first.keeps_states(&keeping, "transfer", "web", &["1 superseded", "2 deployed"]).await;

    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("transfer");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("web.json");
    let file = file.to_str().unwrap();
    let export = ["export", "web", "-n", "transfer", "-o", file];
    let exported = operator(first.control_plane, &first, &export);
    let story = String::from_utf8(exported.stderr).unwrap();
    assert!(
        exported.status.success() && story.contains("2 revisions") && story.contains("secret"),
        "{story}"
    );
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(file).unwrap().contains("\"key\":"), "the key only goes when asked for");
    let again = operator(first.control_plane, &first, &export);
    assert_eq!(again.status.code(), Some(2), "an export overwrites nothing");
    assert_eq!(
        operator(first.control_plane, &first, &["export", "none", "-o", "/dev/null"]).status.code(),
        Some(2)
    );

    let own = control_plane::own().await;
    let plane = own.plane;
    let second = Harness::on(plane, "transfer").await;
    let imported = operator(plane, &second, &["import", file]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    // Once more is no harm.
    assert!(operator(plane, &second, &["import", file]).status.success());
    second.start();
    second.apply("web", &pack("green"), json!({})).await;
    let ready = second.ready("web").await;
    assert_eq!(ready["status"]["revision"], 2);
    second.keeps_states(&keeping, "transfer", "web", &["1 superseded", "2 deployed"]).await;
    // Its objects are put in place as the newest revision says, and locked.
    second.shows("ConfigMap/settings", "/data/color", "green").await;
    second.sees("Secret/credentials", |_| true).await;
    second.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    second.shows("ConfigMap/settings", "/data/color", "green").await;
    let creates = |request: &&Request| {
        let name = request.body["metadata"]["name"].as_str().unwrap_or_default();
        request.verb == "create" && name.starts_with("sh.sherpack.release")
    };
    assert_eq!(second.wire.writes_since(0).iter().filter(creates).count(), 0, "a revision was made");
    // A release that has gone on is not overwritten.
    second.pack("web-pack", &pack("white")).await;
    second.shows("SherpackRelease/web", "/status/revision", 3).await;
    second.ready("web").await;
    let late = operator(plane, &second, &["import", file]);
    assert_eq!(late.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&late.stderr).contains("nothing was stored"));
    second.uninstall("web").await;
    for kind in ["ConfigMap", "Secret", "Deployment"] {
        let left = second.objects.list(kind, "sherpack.io/release-name").await;
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(first.status("web").await["revision"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_goes_along_when_it_is_asked_for() {
    let h = Harness::new("transfer-key").await;
    h.deploy("web", &pack("blue"), json!({"history": {"storage": "ConfigMap"}})).await;
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("transfer-key.json");
    let _ = std::fs::remove_file(&file);
    let file = file.to_str().unwrap();
    let exported =
        operator(h.control_plane, &h, &["export", "web", "-n", "transfer-key", "--with-key", "-o", file]);
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let key = h.objects.get("Secret/sherpack-operator-record-key").await["data"]["key"].clone();
    h.stop().await;
    // Everything is lost but what the file holds.
    h.objects.delete("Secret/sherpack-operator-record-key").await;
    h.objects.delete("ConfigMap/sh.sherpack.release.v1.web.v1").await;
    let imported = operator(h.control_plane, &h, &["import", file]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    assert_eq!(h.objects.get("Secret/sherpack-operator-record-key").await["data"]["key"], key);
    h.start();
    h.pass("web").await;
    assert_eq!(h.ready("web").await["status"]["revision"], 1);
    h.uninstall("web").await;
}
