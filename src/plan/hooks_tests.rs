use serde_json::json;

use super::*;

fn job(name: &str, annotations: &[(&str, &str)]) -> Object {
    let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
    Object::from_value(json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "apps", "annotations": annotations},
        "spec": {"ttlSecondsAfterFinished": 10}}))
    .unwrap()
}

fn one(annotations: &[(&str, &str)]) -> Result<Hook, Error> {
    split(vec![job("a", annotations)]).map(|mut parts| parts.hooks.remove(0))
}

#[test]
fn every_phase_is_read_in_both_spellings() {
    for phase in Phase::ALL {
        for key in ["sherpack.io/hook", "helm.sh/hook"] {
            assert_eq!(one(&[(key, phase.as_str())]).unwrap().phases, BTreeSet::from([phase]));
        }
    }
    let several = one(&[("helm.sh/hook", "pre-install, pre-upgrade,test-success")]).unwrap();
    assert_eq!(several.phases, BTreeSet::from([Phase::PreInstall, Phase::PreUpgrade, Phase::Test]));
    let ours = one(&[("helm.sh/hook", "pre-install"), ("sherpack.io/hook", "test")]).unwrap();
    assert_eq!(ours.phases, BTreeSet::from([Phase::Test]), "ours wins");
}

#[test]
fn what_is_not_said_has_its_default() {
    let hook = one(&[("sherpack.io/hook", "pre-install")]).unwrap();
    assert_eq!((hook.weight, hook.retries, hook.timeout.as_secs()), (0, 0, 300));
    assert_eq!(hook.delete, BTreeSet::from([DeletePolicy::BeforeHookCreation]));
    assert_eq!(hook.on_failure, FailurePolicy::Fail);
    assert_eq!(hook.object.body["spec"].get("ttlSecondsAfterFinished"), None, "its result must stay");
}

#[test]
fn everything_that_a_hook_says_is_read() {
    let hook = one(&[
        ("helm.sh/hook", "post-delete"),
        ("helm.sh/hook-weight", "-5"),
        ("helm.sh/hook-delete-policy", "hook-succeeded,hook-failed"),
        ("sherpack.io/hook-failure-policy", "rollback"),
        ("sherpack.io/hook-timeout", "90s"),
        ("sherpack.io/hook-retries", "2"),
    ])
    .unwrap();
    assert_eq!((hook.weight, hook.retries, hook.timeout.as_secs()), (-5, 2, 90));
    assert_eq!(hook.delete, BTreeSet::from([DeletePolicy::HookSucceeded, DeletePolicy::HookFailed]));
    assert_eq!(hook.on_failure, FailurePolicy::Rollback);
    let endless = one(&[("helm.sh/hook", "test"), ("sherpack.io/hook-timeout", "1000h")]).unwrap();
    assert_eq!(endless.timeout.as_secs(), 86_400, "no hook runs longer than a day");
}

#[test]
fn a_word_that_means_nothing_is_named_with_its_object_and_annotation() {
    let cases = [
        ("sherpack.io/hook", "pre-instal"),
        ("sherpack.io/hook", ""),
        ("sherpack.io/hook", "pre-install,,test"),
        ("helm.sh/hook", "crd-install"),
        ("sherpack.io/hook-weight", "heavy"),
        ("sherpack.io/hook-delete-policy", "hook-succeded"),
        ("sherpack.io/hook-failure-policy", "ignore"),
        ("sherpack.io/hook-timeout", "5"),
        ("sherpack.io/hook-timeout", "0s"),
        ("sherpack.io/hook-retries", "-1"),
        ("sherpack.io/hook-retries", "101"),
    ];
    for (key, value) in cases {
        let mut annotations = vec![("sherpack.io/hook", "pre-install")];
        annotations.retain(|(other, _)| *other != key && !key.ends_with("/hook"));
        annotations.push((key, value));
        let error = one(&annotations).unwrap_err();
        assert_eq!(error.reason(), "AnnotationInvalid");
        let said = error.to_string();
        assert!(said.contains("Job apps/a") && said.contains(key) && said.contains(value), "{said}");
    }
}

#[test]
fn hooks_run_by_weight_and_then_by_name() {
    let hook = |name: &str, weight: &str| {
        job(name, &[("sherpack.io/hook", "pre-install"), ("sherpack.io/hook-weight", weight)])
    };
    let parts = split(vec![hook("c", "1"), hook("b", "1"), hook("a", "7"), hook("z", "-1")]).unwrap();
    let names: Vec<&str> = parts.hooks.iter().map(|hook| hook.object.id.name.as_str()).collect();
    assert_eq!(names, ["z", "b", "c", "a"]);
    assert!(parts.objects.is_empty());
}

#[test]
fn a_hook_without_a_name_of_its_own_gets_one_that_stays() {
    let hook = |prefix: &str| json!({"kind": "Job", "metadata": {"generateName": prefix, "annotations": {"helm.sh/hook": "test"}}});
    let ordinary = json!({"kind": "Pod", "metadata": {"generateName": "x-"}});
    let mut first = [hook("a-"), hook("a-"), hook(&"long".repeat(20)), ordinary];
    name_hooks(&mut first, "web");
    let mut again = [hook("a-"), hook("a-")];
    name_hooks(&mut again, "web");
    let name = |document: &Value| document["metadata"]["name"].as_str().map(str::to_owned);
    assert_eq!(name(&first[0]), name(&again[0]));
    assert_ne!(name(&first[0]), name(&first[1]));
    assert!(name(&first[0]).unwrap().starts_with("a-"));
    assert_eq!(name(&first[2]).unwrap().len(), 63);
    assert_eq!(first[3]["metadata"].get("name"), None, "an ordinary object is refused later");
    let mut other = [hook("a-")];
    name_hooks(&mut other, "api");
    assert_ne!(name(&other[0]), name(&first[0]), "of another release");
}
