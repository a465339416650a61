//! The sample packs render to exactly what stands beside them; `UPDATE_GOLDEN=1` rewrites it.
#![expect(clippy::disallowed_methods, reason = "the samples are files")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::run;
use crate::manifest::yaml::join;
use crate::pack::render::Rendered;
use crate::pack::{Files, Limits, Pack, from_files, read_archive, write_archive};

const SAMPLES: [&str; 4] = ["webapp", "database", "podinfo", "shop"];

fn packs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packs")
}

fn sample(name: &str) -> Pack {
    let mut files = Files::new();
    let root = packs().join(name);
    let mut todo = vec![root.clone()];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    from_files(files, &Limits::default()).unwrap()
}

#[track_caller]
fn check(file: &str, rendered: &Rendered) {
    let mut text = join(&rendered.objects);
    if let Some(notes) = &rendered.notes {
        text.push_str("---\n# Notes:\n");
        text.extend(notes.trim_end().lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n"));
    }
    let path = packs().join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == text, "{file} differs; look at the change after UPDATE_GOLDEN=1");
}

fn kinds(rendered: &Rendered) -> Vec<&str> {
    let mut kinds: Vec<&str> =
        rendered.objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    kinds
}

fn object<'r>(rendered: &'r Rendered, kind: &str) -> &'r Value {
    rendered.objects.iter().find(|object| object["kind"] == kind).unwrap()
}

#[test]
fn the_samples_render_to_their_goldens() {
    for name in SAMPLES {
        let pack = sample(name);
        assert_eq!(pack.warnings, Vec::<String>::new(), "{name}");
        let rendered = run(&pack, &json!({})).unwrap();
        check(&format!("{name}.golden.yaml"), &rendered);
    }
}

#[test]
fn every_switch_of_the_webapp_renders_to_its_golden() {
    let values = json!({
        "fullnameOverride": "storefront",
        "image": {"tag": "2.4.0-rc.1"},
        "imagePullSecrets": [{"name": "registry"}],
        "autoscaling": {"enabled": true},
        "extraConfig": {"robots.txt": "User-agent: *\nDisallow: /\n"},
        "secret": {"smtpPassword": "p@ss: \"word\" #1"},
        "env": {"FEATURE_CHECKOUT_V2": null, "GREETING": "it's \"fine\""},
        "ingress": {"tls": [], "hosts": [{"host": "a.example.com", "paths": ["/", "/api"]}]},
        "podAnnotations": {"example.com/team": "shop"},
        "podLabels": {"tier": "front"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "serviceAccount": {"annotations": {"example.com/role": "shop"}},
        "topologySpread": false,
    });
    let rendered = run(&sample("webapp"), &values).unwrap();
    check("webapp-all.golden.yaml", &rendered);
    assert!(kinds(&rendered).contains(&"HorizontalPodAutoscaler"));
    let off = json!({"ingress": {"enabled": false}, "serviceAccount": {"create": false}});
    assert_eq!(
        kinds(&run(&sample("webapp"), &off).unwrap()),
        ["ConfigMap", "Deployment", "Secret", "Service"]
    );
}

#[test]
fn a_certificate_reaches_the_manifest_to_the_byte() {
    let pack = sample("webapp");
    let template = String::from_utf8(pack.files["templates/configmap.yaml"].clone()).unwrap();
    let (_, after) = template.split_once("ca.crt: |\n").unwrap();
    let lines = after.lines().take_while(|line| !line.contains("{%"));
    let certificate: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"));
    let rendered = run(&pack, &json!({})).unwrap();
    assert_eq!(object(&rendered, "ConfigMap")["data"]["ca.crt"], Value::from(certificate));
}

#[test]
fn podinfo_is_four_objects_and_shows_its_message() {
    let rendered = run(&sample("podinfo"), &json!({"message": "hello"})).unwrap();
    assert_eq!(kinds(&rendered), ["Deployment", "Ingress", "Service", "ServiceAccount"]);
    let deployment = object(&rendered, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 0);
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "hello");
}

#[test]
fn the_database_keeps_its_backup() {
    let rendered = run(&sample("database"), &json!({})).unwrap();
    let claim = object(&rendered, "PersistentVolumeClaim");
    assert_eq!(claim["metadata"]["annotations"]["sherpack.io/resource-policy"], "keep");
    let set = object(&rendered, "StatefulSet");
    assert_eq!(set["spec"]["template"]["spec"]["volumes"][0]["configMap"]["defaultMode"], 0o440);
}

#[test]
fn a_sample_is_the_same_from_its_archive() {
    for name in SAMPLES {
        let pack = sample(name);
        let archive = write_archive(&pack.files).unwrap();
        assert_eq!(read_archive(&archive, &Limits::default()).unwrap(), pack);
    }
}
