//! How a tenancy is installed: by the chart and by `config/`, chosen once and kept by upgrades.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sherpack_operator::manifest::yaml;

use super::deploy::{project, tool};
use super::multi_rights::{chart, texts};
use crate::support::control_plane;

/// `config/` has the same rules for several tenants, and the chart without narrowing has them for all kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kustomization_has_the_rules_of_the_chart_for_multi_tenancy() {
    let control_plane = control_plane::shared().await;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("multi-tenancy");
    std::fs::create_dir_all(&directory).unwrap();
    let up = "../".repeat(directory.strip_prefix(project()).unwrap().components().count());
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [format!("{up}config/default")], "components": [format!("{up}config/multi-tenancy")],
    });
    std::fs::write(directory.join("kustomization.yaml"), kustomization.to_string()).unwrap();
    let kustomized = tool(control_plane, "kubectl", &["kustomize", directory.to_str().unwrap()], "");
    let tenant = tool(control_plane, "kubectl", &["kustomize", "config/tenant"], "");
    let rendered = chart(control_plane, &["--set", "tenancy=multi,tenants={a}"]);
    assert!(rendered.contains("- --tenancy=multi\n") && kustomized.contains("- --tenancy=multi\n"));
    let read = |text: &str| yaml::parse_documents(text, "rules").unwrap();
    let (theirs, ours) = ([read(&kustomized), read(&tenant)].concat(), read(&rendered));
    let mut compared = 0;
    for role in theirs.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role") {
        let name = format!("ops-{}", role["metadata"]["name"].as_str().unwrap());
        let twin = ours
            .iter()
            .find(|object| object["kind"] == role["kind"] && object["metadata"]["name"] == name.as_str());
        assert_eq!(twin.unwrap_or(&Value::Null)["rules"], role["rules"], "{name}");
        compared += 1;
    }
    assert_eq!(compared, 8);
    for object in ours.iter().filter(|object| object["kind"] == "ClusterRole") {
        let name = object["metadata"]["name"].as_str().unwrap();
        let people = ["-sherpackrelease-editor", "-sherpackrelease-viewer", "-metrics-reader"];
        if people.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        for rule in object["rules"].as_array().unwrap() {
            let powers = ["impersonate", "create", "update", "delete", "escalate", "bind"];
            let found: Vec<String> =
                texts(&rule["verbs"]).filter(|verb| powers.contains(&verb.as_str())).collect();
            let events = rule["resources"] == json!(["events"]);
            assert!(found.is_empty() || events && found == ["create"], "{name} may {found:?}: {rule}");
        }
    }
}

/// A first install names the tenancy, so that the operator is not made cluster admin in silence. An upgrade keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenancy_is_chosen_at_the_first_install_and_kept_by_upgrades() {
    let control_plane = control_plane::shared().await;
    let namespace = "multi-rights-choice";
    let objects = control_plane.objects(namespace).await;
    let helm = |arguments: &[&str]| {
        let output = Command::new(control_plane.bin.join("helm"))
            .args(arguments)
            .args([
                "chosen",
                "charts/sherpack-operator",
                "--namespace",
                namespace,
                "--set",
                "crds.install=false",
            ])
            .current_dir(project())
            .env("KUBECONFIG", &control_plane.kubeconfig)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(error) }
    };
    let tenancy = async || {
        let deployment = objects.get("Deployment/chosen-sherpack-operator").await;
        let args = texts(&deployment["spec"]["template"]["spec"]["containers"][0]["args"]);
        let admin = objects.get("ClusterRole/chosen-sherpack-operator-releases").await;
        let admin = admin["rules"][0]["verbs"].as_array().unwrap().len() > 2;
        (args.filter(|argument| argument.starts_with("--tenancy=")).collect::<Vec<_>>(), admin)
    };
    let (single, multi) =
        ((vec!["--tenancy=single".to_owned()], true), (vec!["--tenancy=multi".to_owned()], false));
    for unchosen in ["", "tenancy=several"] {
        let error = helm(&["install", "--create-namespace", "--set", unchosen]).unwrap_err();
        assert!(error.contains("tenancy=single") && error.contains("tenancy=multi"), "{error}");
    }
    helm(&["install", "--create-namespace", "--set", "tenancy=multi"]).unwrap();
    assert_eq!(tenancy().await, multi);
    // No values of before are taken along.
    helm(&["upgrade", "--reset-values"]).unwrap();
    assert_eq!(tenancy().await, multi);
    helm(&["upgrade", "--reset-values", "--set", "tenancy=single"]).unwrap();
    assert_eq!(tenancy().await, single);
    helm(&["upgrade", "--reset-values"]).unwrap();
    assert_eq!(tenancy().await, single);
    let tenants = format!("tenancy=multi,tenants={{{namespace}}}");
    let error = helm(&["upgrade", "--set", &tenants]).unwrap_err();
    assert!(error.contains("the operator's own namespace"), "{error}");
}
