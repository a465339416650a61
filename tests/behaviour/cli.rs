//! The command line: what it prints, and how it ends.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::{Value, json};
use sherpack_operator::storage::codec::{self, KEY_BYTES, MacKey};

use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

fn operator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory of this test alone.
fn scratch(name: &str) -> std::path::PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn render_prints_what_the_operator_applies() {
    let h = Harness::new("cli-render").await;
    let values = json!({"replicas": 1, "config": {"mode": "0644", "certificate": "a\nb\n"}});
    h.deploy("web", &Pack::sample("webapp"), json!({"values": values})).await;
    let directory = scratch("cli-render");
    let file = directory.join("values.yaml");
    std::fs::write(&file, values.to_string()).unwrap();
    let rendered = operator(&[
        "render",
        "tests/packs/webapp",
        "--name",
        "web",
        "--namespace",
        "cli-render",
        "-f",
        file.to_str().unwrap(),
    ]);
    assert_eq!(rendered.status.code(), Some(0), "{}", err(&rendered));

    let secrets: Api<Secret> = Api::namespaced(h.client.clone(), "cli-render");
    let record = secrets.get("sh.sherpack.release.v1.web.v1").await.unwrap();
    // Any key opens a record; only whether it is ours takes the right one.
    let record = codec::decode(&record, &MacKey::new([0; KEY_BYTES])).unwrap().record;
    assert_eq!(out(&rendered), record.manifest);
}

/// What every cluster serves is known to a render without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_are_told_what_the_cluster_serves() {
    let h = Harness::new("cli-capabilities").await;
    let served = |name: &str| format!("{{{{ '{name}' in capabilities.apiVersions }}}}");
    let pack = Pack::new("web", "1.0.0").object(config_map(
        "served",
        json!({
            "core": served("v1"), "apps": served("apps/v1"), "policy": served("policy/v1"),
            "nobody": served("example.com/v1"), "version": "{{ capabilities.kubeVersion.major }}",
        }),
    ));
    h.deploy("web", &pack, json!({})).await;
    let directory = scratch("cli-capabilities");
    let archive = directory.join("web.tgz");
    std::fs::write(&archive, pack.archive()).unwrap();
    let rendered = operator(&["render", archive.to_str().unwrap(), "--namespace", "cli-capabilities"]);
    let rendered = sherpack_operator::manifest::yaml::parse_documents(&out(&rendered), "stdout").unwrap();
    let live = h.objects.get("ConfigMap/served").await;
    assert_eq!(live["data"], rendered[0]["data"]);
    let expected =
        json!({"core": "true", "apps": "true", "policy": "true", "nobody": "false", "version": "1"});
    assert_eq!(live["data"], expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn package_writes_the_same_bytes_each_time_and_prints_the_digest_of_the_status() {
    let h = Harness::new("cli-package").await;
    let directory = scratch("cli-package");
    let archives = ["one.tgz", "two.tgz"].map(|name| {
        let file = directory.join(name);
        let done = operator(&["package", "tests/packs/webapp", "-o", file.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(0), "{}", err(&done));
        (std::fs::read(&file).unwrap(), out(&done))
    });
    assert_eq!(archives[0], archives[1]);
    let (_, printed) = &archives[0];
    // Rendering the archive is rendering the directory.
    let archive = directory.join("one.tgz");
    let from_archive = operator(&["render", archive.to_str().unwrap()]);
    assert_eq!(out(&from_archive), out(&operator(&["render", "tests/packs/webapp"])));
    let release = h.deploy("web", &Pack::sample("webapp"), json!({})).await;
    assert_eq!(release["status"]["pack"]["digest"], printed.trim());
}

#[tokio::test]
async fn bad_packs_and_bad_usage_end_with_codes_of_their_own() {
    let directory = scratch("cli-bad");
    let pack = directory.join("pack");
    std::fs::create_dir_all(pack.join("templates")).unwrap();
    std::fs::write(
        pack.join("Pack.yaml"),
        "apiVersion: sherpack/v1\nkind: application\nmetadata: {name: bad, version: 1.0.0}\n",
    )
    .unwrap();
    std::fs::write(pack.join("templates/a.yaml"), "kind: ConfigMap\nname: {{ values.missing.deeply }}\n")
        .unwrap();
    let archive = directory.join("bad.tgz");

    let broken = operator(&["render", pack.to_str().unwrap()]);
    assert_eq!(broken.status.code(), Some(1), "a pack at fault");
    assert!(err(&broken).contains("templates/a.yaml:2"), "where it is: {}", err(&broken));
    assert_eq!(out(&broken), "", "nothing half rendered");

    std::fs::create_dir_all(pack.join("crds")).unwrap();
    std::fs::write(pack.join("crds/a.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
        .unwrap();
    let refused = operator(&["render", pack.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "a pack that the operator does not install");
    assert!(
        err(&refused).contains("crds/a.yaml") && err(&refused).contains("no CustomResourceDefinition"),
        "{}",
        err(&refused)
    );
    std::fs::remove_file(pack.join("crds/a.yaml")).unwrap();

    std::fs::write(
        pack.join("templates/a.yaml"),
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: {helm.sh/hook: pre-install}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {sherpack.io/sync-wave: '2'}}\n",
    )
    .unwrap();
    let plan = operator(&["plan", pack.to_str().unwrap()]);
    let wanted = "Hook pre-install: Job/a (weight 0, timeout 5m)\nWave 2: 1 resource\n- ConfigMap/b\n  wait for ConfigMap/b\n";
    assert_eq!((plan.status.code(), out(&plan)), (Some(0), wanted.to_owned()));
    let plan = operator(&["plan", pack.to_str().unwrap(), "--action", "uninstall", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    assert_eq!(plan["steps"][0], serde_json::json!({"do": "delete", "wave": 2, "objects": ["ConfigMap/b"]}));

    let missing = operator(&["render", "no/such/pack"]);
    assert_eq!(missing.status.code(), Some(2), "nothing to read");
    assert!(err(&missing).contains("no/such/pack"));

    std::os::unix::fs::symlink("/etc/passwd", pack.join("templates/link.yaml")).unwrap();
    let linked = operator(&["package", pack.to_str().unwrap(), "-o", archive.to_str().unwrap()]);
    assert_eq!(linked.status.code(), Some(1), "a link in a pack: {}", err(&linked));
    assert!(err(&linked).contains("link.yaml"), "{}", err(&linked));
    assert!(!archive.exists(), "nothing half written");

    assert_eq!(operator(&["render"]).status.code(), Some(2));
    assert_eq!(operator(&["no-such-command"]).status.code(), Some(2));
    assert_eq!(operator(&["run", "--concurrency", "0"]).status.code(), Some(2));
    assert_eq!(operator(&["--help"]).status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_judges_live_objects() {
    let h = Harness::new("cli-health").await;
    h.deploy("web", &Pack::sample("webapp"), json!({"values": {"replicas": 1}})).await;
    let directory = scratch("cli-health");
    let file = directory.join("live.yaml");
    let healthy = h.objects.get("Deployment/web-webapp").await;
    std::fs::write(&file, healthy.to_string()).unwrap();
    let done = operator(&["health", file.to_str().unwrap(), "-o", "json"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let rows: Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(rows[0]["object"], "Deployment cli-health/web-webapp");
    assert_eq!(rows[0]["status"], "Current");

    let mut broken = healthy.clone();
    broken["status"]["readyReplicas"] = json!(0);
    broken["status"]["availableReplicas"] = json!(0);
    std::fs::write(&file, format!("{healthy}\n---\n{broken}\n")).unwrap();
    let done = operator(&["health", file.to_str().unwrap(), "-o", "json"]);
    assert_eq!(done.status.code(), Some(1), "one that is not done");
    let rows: Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!((&rows[0]["status"], &rows[1]["status"]), (&json!("Current"), &json!("InProgress")));

    std::fs::write(&file, "a: [").unwrap();
    assert_eq!(operator(&["health", file.to_str().unwrap()]).status.code(), Some(2));
}

#[tokio::test]
async fn crd_prints_the_file_in_crds() {
    let file = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/crds/sherpack.io_sherpackreleases.yaml"
    ));
    assert_eq!(out(&operator(&["crd"])), file.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scope_of_every_kind_is_as_the_api_server_says() {
    use kube::discovery::{Discovery, Scope};
    let h = Harness::without_operator("cli-scope").await;
    let discovery = Discovery::new(h.client.clone()).run().await.unwrap();
    let mut seen = 0;
    for group in discovery.groups() {
        for (resource, capabilities) in group.resources_by_stability() {
            if let Some(known) =
                sherpack_operator::manifest::is_cluster_scoped(&resource.group, &resource.kind)
            {
                assert_eq!(
                    known,
                    capabilities.scope == Scope::Cluster,
                    "{}/{}",
                    resource.group,
                    resource.kind
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "only {seen} kinds of Kubernetes itself were found");
}

#[test]
fn render_underlines_what_failed_and_gives_the_same_each_time() {
    let directory = scratch("cli-render-errors");
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Pack.yaml", "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n");
    write("templates/a.yaml", "kind: A\nimage: {{ values.image.tag | quote }}\n");
    let pack = directory.to_str().unwrap();
    let failed = operator(&["render", pack]);
    assert_eq!(failed.status.code(), Some(1));
    let expected = "\
error: templates/a.yaml:2: `values.image` is not set (in `values.image.tag | quote`)
  |
2 | image: {{ values.image.tag | quote }}
  |                              ^^^^^
";
    assert_eq!(err(&failed), expected);

    write(
        "templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {at: '{{ now() }}', id: '{{ uuidv4() }}', secret: '{{ generate_secret(\"a\", 12) }}', seen: '{{ lookup(\"v1\", \"Pod\") }}'}\n",
    );
    let rendered = |more: &[&str]| {
        let output = operator(&[&["render", pack], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        out(&output)
    };
    let first = rendered(&[]);
    assert_eq!(rendered(&[]), first);
    assert!(
        first.contains("at: \"2000-01-01T00:00:00Z\"") && first.contains("seen: \"{\\\"items\\\": []}\""),
        "{first}"
    );
    let other = rendered(&["--now", "2026-05-06T07:08:09.5Z", "--seed", "x"]);
    assert!(other.contains("at: \"2026-05-06T07:08:09Z\""), "{other}");
    let line = |text: &str, key: &str| text.lines().find(|line| line.contains(key)).unwrap().to_owned();
    for key in ["id:", "secret:"] {
        assert_ne!(line(&first, key), line(&other, key));
    }
    let help = out(&operator(&["render", "--help"]));
    assert!(help.contains("no secret") && help.contains("--now"), "{help}");
}
