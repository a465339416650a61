use serde_json::json;

use super::super::hooks::split;
use super::super::{Line, lines, next_inventory};
use super::*;

fn object(kind: &str, name: &str, annotations: &[(&str, &str)]) -> Object {
    let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
    let api_version = match kind {
        "Deployment" => "apps/v1",
        "Job" => "batch/v1",
        _ => "v1",
    };
    Object::from_value(json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "apps", "annotations": annotations}}))
    .unwrap()
}

fn shown(objects: Vec<Object>, occasion: Occasion) -> Result<String, Error> {
    let parts = split(objects)?;
    let plan = roll_out(&parts, occasion)?;
    Ok(lines(&plan, &parts).iter().map(Line::to_string).collect::<Vec<_>>().join("\n"))
}

const WAVE: &str = "sherpack.io/sync-wave";
const WAIT_FOR: &str = "sherpack.io/wait-for";

#[test]
fn configuration_is_applied_before_the_workloads_that_read_it() {
    let objects =
        vec![object("Deployment", "web", &[]), object("ConfigMap", "b", &[]), object("ConfigMap", "a", &[])];
    let plan = roll_out(&split(objects).unwrap(), Occasion::Install).unwrap();
    assert_eq!(plan.steps[0], Step::Apply { wave: 0, groups: vec![vec![2, 1], vec![0]] });
    assert_eq!(plan.waves, [0]);
}

#[test]
fn hooks_stand_round_the_waves() {
    let objects = vec![
        object("Deployment", "web", &[(WAVE, "1")]),
        object("ConfigMap", "a", &[(WAVE, "-2")]),
        object("Deployment", "db", &[]),
        object(
            "Job",
            "migrate",
            &[("sherpack.io/hook", "pre-install,pre-upgrade"), ("sherpack.io/hook-timeout", "1m")],
        ),
        object(
            "Job",
            "smoke",
            &[("helm.sh/hook", "post-install"), ("sherpack.io/hook-failure-policy", "continue")],
        ),
        object("Job", "test", &[("helm.sh/hook", "test")]),
    ];
    let wanted = "\
Hook pre-install: Job/migrate (weight 0, timeout 1m)
Wave -2: 1 resource
- ConfigMap/a
  wait for ConfigMap/a
Wave 0: 1 resource
- Deployment/db
  wait for Deployment/db
Wave 1: 1 resource
- Deployment/web
  wait for Deployment/web
Hook post-install: Job/smoke (weight 0, timeout 5m, on failure continue)";
    assert_eq!(shown(objects.clone(), Occasion::Install).unwrap(), wanted);
    let rollback = shown(objects, Occasion::Rollback).unwrap();
    assert!(!rollback.contains("Hook"), "{rollback}");
}

#[test]
fn a_probe_stands_beside_the_wait_that_it_belongs_to() {
    let probed = [
        ("sherpack.io/health-check", "true"),
        ("sherpack.io/health-check-path", "/healthz"),
        ("sherpack.io/health-check-port", "8080"),
    ];
    let objects = vec![object("Deployment", "web", &probed), object("ConfigMap", "a", &[])];
    let wanted = "\
Wave 0: 2 resources
- ConfigMap/a
- Deployment/web
  wait for Deployment/web, ConfigMap/a
  probe Deployment/web: GET http://:8080/healthz (every 10s, timeout 5s)";
    assert_eq!(shown(objects, Occasion::Rollback).unwrap(), wanted);
    let job = vec![object("Job", "a", &probed)];
    assert!(shown(job, Occasion::Install).unwrap_err().to_string().starts_with("Job apps/a: "));
    let hook = vec![object("Pod", "a", &[&probed[..], &[("helm.sh/hook", "pre-install")]].concat())];
    assert_eq!(shown(hook.clone(), Occasion::Upgrade).unwrap_err().reason(), "AnnotationInvalid");
    // What cannot be installed can be uninstalled.
    deletion(&split(hook).unwrap(), &[], &[], &BTreeSet::new(), true).unwrap();
}

#[test]
fn objects_that_wait_for_others_come_after_them() {
    let objects = vec![
        object("Deployment", "web", &[(WAIT_FOR, "Deployment/db, Job/seed")]),
        object("Deployment", "db", &[]),
        object("Job", "seed", &[(WAIT_FOR, "Deployment/db")]),
        object("ConfigMap", "c", &[("sherpack.io/skip-wait", "true")]),
    ];
    let wanted = "\
Wave 0: 2 resources
- ConfigMap/c
- Deployment/db
  wait for Deployment/db
Wave 0: 1 resource
- Job/seed
  wait for Deployment/db, Job/seed
Wave 0: 1 resource
- Deployment/web
  wait for Deployment/web, Deployment/db, Job/seed";
    assert_eq!(shown(objects, Occasion::Upgrade).unwrap(), wanted);
}

#[test]
fn waits_that_cannot_end_are_refused_with_names() {
    let circle = vec![
        object("Deployment", "a", &[(WAIT_FOR, "Deployment/b")]),
        object("Deployment", "b", &[(WAIT_FOR, "Deployment/c")]),
        object("Deployment", "c", &[(WAIT_FOR, "Deployment/b")]),
    ];
    let error = shown(circle, Occasion::Install).unwrap_err();
    assert_eq!(error.reason(), "WaitForInvalid");
    assert!(error.to_string().contains("Deployment/b -> Deployment/c -> Deployment/b"), "{error}");
    let itself = vec![object("Deployment", "a", &[(WAIT_FOR, "Deployment/a")])];
    assert!(
        shown(itself, Occasion::Install).unwrap_err().to_string().contains("Deployment/a -> Deployment/a")
    );
    for (target, problem) in [("Deployment/x", "not in the manifest"), ("ConfigMap/late", "in a later wave")]
    {
        let objects = vec![
            object("Deployment", "a", &[(WAIT_FOR, target)]),
            object("ConfigMap", "late", &[(WAVE, "1")]),
        ];
        let error = shown(objects, Occasion::Install).unwrap_err().to_string();
        assert!(error.contains(target) && error.contains(problem), "{error}");
    }
}

#[test]
fn words_that_mean_nothing_are_refused() {
    for (key, value) in [(WAVE, "first"), (WAIT_FOR, "web"), ("sherpack.io/skip-wait", "yes"), (WAIT_FOR, "")]
    {
        let error = shown(vec![object("Deployment", "a", &[(key, value)])], Occasion::Install).unwrap_err();
        assert_eq!(error.reason(), "AnnotationInvalid", "{key}");
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[test]
fn an_uninstall_is_the_reverse() {
    let objects = vec![
        object("Deployment", "web", &[(WAVE, "1")]),
        object("ConfigMap", "a", &[]),
        object("Deployment", "db", &[]),
        object("Job", "backup", &[("helm.sh/hook", "pre-delete")]),
        object("Job", "after", &[("helm.sh/hook", "post-delete")]),
    ];
    let parts = split(objects).unwrap();
    let inventory = next_inventory(&parts.objects, 1, &[], &[]).wanted;
    let old = next_inventory(&[object("ConfigMap", "old", &[])], 1, &[], &[]).wanted;
    let plan = deletion(&parts, &inventory, &old, &BTreeSet::new(), true).unwrap();
    let text = lines(&plan, &parts).iter().map(Line::to_string).collect::<Vec<_>>().join("\n");
    let wanted = "\
Hook pre-delete: Job/backup (weight 0, timeout 5m)
Wave 1: delete 2 resources
- Deployment/web
- ConfigMap/old
Wave 0: delete 2 resources
- Deployment/db
- ConfigMap/a
Hook post-delete: Job/after (weight 0, timeout 5m)";
    assert_eq!(text, wanted);
    let half = deletion(&parts, &inventory, &old, &BTreeSet::new(), false).unwrap();
    assert!(half.steps.iter().all(|step| matches!(step, Step::Delete { .. })));
}

/// `db` comes first with its definition, then `web` with its own.
fn layered() -> Vec<Object> {
    let definition = |name: &str| {
        let group = "apiextensions.k8s.io/v1";
        Object::from_value(
            json!({"apiVersion": group, "kind": "CustomResourceDefinition", "metadata": {"name": name}}),
        )
        .unwrap()
    };
    vec![
        definition("inner.example.com"),
        definition("outer.example.com").in_layer(1),
        object("Deployment", "db", &[(WAVE, "5")]),
        object("ConfigMap", "db", &[]),
        object("Deployment", "web", &[]).in_layer(1),
        object("ConfigMap", "web", &[(WAVE, "-1")]).in_layer(1),
        object("Job", "migrate", &[("helm.sh/hook", "pre-install,post-delete")]),
    ]
}

#[test]
fn the_definitions_and_waves_of_a_pack_inside_come_before_those_of_the_pack_around_it() {
    let text = shown(layered(), Occasion::Install).unwrap();
    assert_eq!(
        text,
        "\
Hook pre-install: Job/migrate (weight 0, timeout 5m)
CRDs: 1 definition
- CustomResourceDefinition/inner.example.com
  wait until served: CustomResourceDefinition/inner.example.com
Layer 0, wave 0: 1 resource
- ConfigMap/db
  wait for ConfigMap/db
Layer 0, wave 5: 1 resource
- Deployment/db
  wait for Deployment/db
CRDs: 1 definition
- CustomResourceDefinition/outer.example.com
  wait until served: CustomResourceDefinition/outer.example.com
Layer 1, wave -1: 1 resource
- ConfigMap/web
  wait for ConfigMap/web
Layer 1, wave 0: 1 resource
- Deployment/web
  wait for Deployment/web"
    );
    let plan = roll_out(&split(layered()).unwrap(), Occasion::Install).unwrap();
    let waits: Vec<Wait> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Wait { wait, .. } => Some(*wait),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [Wait::Wave, Wait::Wave, Wait::Wave, Wait::Last]);
    assert_eq!(plan.waves, [0, 5, -1, 0]);
}

#[test]
fn an_object_waits_for_nothing_of_a_pack_that_comes_later() {
    let web = object("Deployment", "web", &[(WAIT_FOR, "Deployment/db")]);
    let db = object("Deployment", "db", &[(WAVE, "9")]);
    shown(vec![web.clone().in_layer(1), db.clone()], Occasion::Install).unwrap();
    let error = shown(vec![web, db.in_layer(1)], Occasion::Install).unwrap_err();
    assert!(error.to_string().contains("a pack that comes later"), "{error}");
}

#[test]
fn what_came_last_goes_first_and_the_layers_are_those_of_the_inventory() {
    let parts = split(layered()).unwrap();
    let inventory = next_inventory(&parts.objects, 1, &[], &[]).wanted;
    let old = next_inventory(&[object("ConfigMap", "old", &[])], 1, &[], &[]).wanted;
    let plan = deletion(&parts, &inventory, &old, &BTreeSet::new(), true).unwrap();
    let deleted: Vec<Vec<&str>> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Delete { entries, .. } => Some(entries.iter().map(|entry| &*entry.id.name).collect()),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, [["old"], ["web"], ["web"], ["db"], ["db"]]);
    let kinds: Vec<String> =
        super::super::deletion_order(inventory).into_iter().map(|entry| entry.id.to_string()).collect();
    let (first, last) =
        (kinds.iter().position(|id| id.contains("db")), kinds.iter().rposition(|id| id.contains("web")));
    assert!(last < first, "{kinds:?}");
}

#[test]
fn a_definition_comes_as_early_as_a_pack_inside_needs_it() {
    let definition = Object::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true}]},
    }));
    let widget = Object::from_value(json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "small", "namespace": "apps"}}));
    let (definition, widget) = (definition.unwrap().in_layer(2), widget.unwrap());
    let position = |widget: Object| {
        let objects = vec![definition.clone(), object("ConfigMap", "db", &[]), widget];
        let plan = roll_out(&split(objects).unwrap(), Occasion::Install).unwrap();
        plan.steps.iter().position(|step| matches!(step, Step::Define { .. })).unwrap()
    };
    assert_eq!(position(widget.clone()), 0);
    assert_eq!(position(widget.in_layer(2)), 2, "after the wave of the pack inside");
}
