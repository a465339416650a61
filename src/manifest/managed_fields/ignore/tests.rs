use serde_json::{Value, json};

use super::*;

fn rules(rules: Value) -> Vec<Arc<IgnoreRule>> {
    let rules: Vec<crate::api::DriftIgnore> = serde_json::from_value(rules).unwrap();
    rules.iter().map(|rule| Arc::new(IgnoreRule::parse(rule).unwrap())).collect()
}

fn deployment() -> Object {
    Object::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "app", "image": "app:1", "args": ["--a", "--b"]}, {"name": "log", "image": "log:1"},
        ]}}},
    }))
    .unwrap()
}

/// What the API server says of it after our apply; `gone` of ours is `theirs` now.
fn managed(ours: &Value, theirs: &Value) -> Vec<ManagedFieldsEntry> {
    let entry = |manager: &str, operation: &str, fields: &Value| json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields});
    serde_json::from_value(json!([entry("sherpack", "Apply", ours), entry("rival", "Update", theirs)]))
        .unwrap()
}

fn containers(app: &Value, log: &Value) -> Value {
    json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": app, "k:{\"name\":\"log\"}": log}}}})
}

fn all_ours() -> Value {
    let mut spec = containers(
        &json!({".": {}, "f:name": {}, "f:image": {}, "f:args": {}}),
        &json!({".": {}, "f:name": {}, "f:image": {}}),
    );
    spec["f:replicas"] = json!({});
    let marks = json!({"f:app": {}, "f:sherpack.io/release-name": {}});
    json!({"f:metadata": {"f:labels": marks}, "f:spec": spec})
}

/// The live object with other replicas, and its containers in another order.
fn live() -> Value {
    let mut live = deployment().body;
    live["metadata"]["resourceVersion"] = json!("7");
    live["metadata"]["labels"]["sherpack.io/release-name"] = json!("web");
    live["spec"]["replicas"] = json!(5);
    live["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().reverse();
    live["spec"]["template"]["spec"]["containers"][1]["image"] = json!("app:2");
    live
}

fn settled(rule: Value, live: Option<&Value>, ours: &Value, theirs: &Value) -> Option<Settled> {
    let rules = rules(json!([rule]));
    let object = deployment();
    settle(&object, &wishes(&rules, &object).unwrap(), live, &managed(ours, theirs))
}

#[test]
fn rules_that_select_another_object_say_nothing() {
    let rules = rules(json!([{"target": {"kind": "Service"}, "paths": ["/spec"]}]));
    assert!(wishes(&rules, &deployment()).is_none());
    let mut open = deployment();
    open.set_annotation("sherpack.io/drift", "ignore");
    assert!(wishes(&rules, &open).unwrap().whole);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "a.example.com", "annotations": {"sherpack.io/drift": "ignore"}}});
    assert!(wishes(&rules, &Object::from_value(definition).unwrap()).is_none());
}

#[test]
fn what_we_own_gets_another_owner_and_what_we_lost_needs_none() {
    let rule = || json!({"paths": ["/spec/replicas"]});
    assert_eq!(settled(rule(), None, &all_ours(), &json!({})), None, "the live value is needed");
    let with_live = settled(rule(), Some(&live()), &all_ours(), &json!({})).unwrap();
    assert_eq!(with_live.left_out, ["/spec/replicas"]);
    let handed = with_live.hand_over.unwrap();
    assert_eq!(handed["spec"], json!({"replicas": 5}));
    assert_eq!(handed["metadata"], json!({"name": "web", "namespace": "shop"}));
    let mut lost = all_ours();
    lost["f:spec"].as_object_mut().unwrap().remove("f:replicas");
    let settled = settled(rule(), None, &lost, &json!({"f:spec": {"f:replicas": {}}})).unwrap();
    assert_eq!((settled.left_out, settled.hand_over), (vec!["/spec/replicas".to_owned()], None));
}

#[test]
fn an_element_is_handed_over_with_its_key_wherever_it_stands() {
    let rule = json!({"paths": ["/spec/template/spec/containers[name=app]/image"]});
    let settled = settled(rule, Some(&live()), &all_ours(), &json!({})).unwrap();
    assert_eq!(settled.left_out, ["/spec/template/spec/containers/0/image"]);
    let containers = settled.hand_over.unwrap()["spec"]["template"]["spec"]["containers"].clone();
    assert_eq!(containers, json!([{"name": "app", "image": "app:2"}]));
}

#[test]
fn keys_of_elements_and_our_marks_stay_ours() {
    let rule = json!({"paths": ["/spec/template/spec/containers/*/*", "/metadata/labels"]});
    let settled = settled(rule, Some(&live()), &all_ours(), &json!({})).unwrap();
    let base = "/spec/template/spec/containers";
    let expected = ["1/image", "0/image", "0/args"].map(|field| format!("{base}/{field}"));
    assert_eq!(settled.left_out[..3], expected);
    assert_eq!(settled.left_out[3], "/metadata/labels");
    assert_eq!(settled.hand_over.unwrap()["metadata"]["labels"], json!({"app": "web"}));
}

#[test]
fn inside_of_one_value_the_live_value_is_applied() {
    let rule = || json!({"paths": ["/spec/template/spec/containers[name=app]/args/1"]});
    assert_eq!(settled(rule(), None, &all_ours(), &json!({})), None);
    let mut live = live();
    live["spec"]["template"]["spec"]["containers"][1]["args"] = json!(["--x", "--y"]);
    let settled = settled(rule(), Some(&live), &all_ours(), &json!({})).unwrap();
    assert_eq!((&settled.left_out[..], &settled.hand_over), (&[][..], &None));
    let body = settled.body.unwrap();
    assert_eq!(body.pointer("/spec/template/spec/containers/0/args"), Some(&json!(["--a", "--y"])));
    assert_eq!(body["metadata"]["resourceVersion"], "7");
}

#[test]
fn what_others_put_inside_of_one_value_stays_there() {
    let mut live = live();
    live["spec"]["template"]["spec"]["containers"][1]["args"] = json!(["--a", "--b", "--c"]);
    let rule = json!({"paths": ["/spec/template/spec/containers[name=app]/args/*"]});
    let body = settled(rule, Some(&live), &all_ours(), &json!({})).unwrap().body.unwrap();
    let args = body.pointer("/spec/template/spec/containers/0/args");
    assert_eq!(args, Some(&json!(["--a", "--b", "--c"])));
}

#[test]
fn what_a_manager_owns_is_left_to_it_also_when_we_own_it_too() {
    let theirs = json!({"f:spec": containers(&json!({"f:image": {}}), &json!({".": {}, "f:name": {}}))});
    let rule = json!({"managers": ["rival"]});
    let settled = settled(rule, Some(&live()), &all_ours(), &theirs).unwrap();
    assert_eq!(settled.left_out, ["/spec/template/spec/containers/0/image"]);
}

#[test]
fn a_whole_object_is_left_out_but_for_what_identifies_it() {
    let rule = json!({"target": {"name": "web"}});
    let settled = settled(rule, Some(&live()), &all_ours(), &json!({})).unwrap();
    assert_eq!(settled.left_out, ["/spec", "/metadata/labels", ""]);
    let mut body = deployment().body;
    leave_out(&mut body, &settled.left_out);
    let identity = json!({"name": "web", "namespace": "shop"});
    assert_eq!(body, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": identity}));
}

#[test]
fn an_apply_of_what_is_as_live_differs_in_nothing_that_is_ignored() {
    let rules = rules(
        json!([{"paths": ["/spec/replicas", "/spec/template/spec/containers[name=app]/image", "/metadata/labels/app"]}]),
    );
    let object = deployment();
    let mut live = live();
    live["metadata"]["labels"].as_object_mut().unwrap().remove("app");
    let body = as_live(&object, &wishes(&rules, &object).unwrap(), &live, &managed(&all_ours(), &json!({})));
    assert_eq!(body["spec"]["replicas"], 5);
    assert_eq!(body.pointer("/spec/template/spec/containers/0/image"), Some(&json!("app:2")));
    assert_eq!(body.pointer("/spec/template/spec/containers/1/image"), Some(&json!("log:1")));
    assert_eq!(body["metadata"]["labels"], json!({}));
}

#[test]
fn fields_of_others_are_told_by_the_same_rules() {
    let rules = rules(json!([{"paths": ["/data/*", "/spec/c[name=a]/env", "/spec/l/0"]}]));
    let object = deployment();
    let wishes = wishes(&rules, &object).unwrap();
    for (path, expected) in [
        (&["f:data", "f:x"][..], true),
        (&["f:data"], false),
        (&["f:spec", "f:c", "k:{\"name\":\"a\"}", "f:env", "f:deeper"], true),
        (&["f:spec", "f:c", "k:{\"name\":\"b\"}", "f:env"], false),
        (&["f:spec", "f:l", "i:0"], true),
        (&["f:spec", "f:l", "f:0"], true),
        (&["f:spec", "f:l", "f:x"], false),
    ] {
        assert_eq!(leaves(&wishes, path, false), expected, "{path:?}");
    }
}

#[test]
fn in_the_name_of_an_installer_what_he_holds_is_applied_as_it_is_and_the_rest_is_left_out() {
    let rules =
        rules(json!([{"paths": ["/spec/replicas", "/spec/template/spec/containers/[name=app]/image"]}]));
    let object = deployment();
    let wishes = wishes(&rules, &object).unwrap();
    let held = as_held(&object, &wishes, &live(), &managed(&all_ours(), &json!({})));
    assert_eq!(held["spec"]["replicas"], 5);
    assert_eq!(held["spec"]["template"]["spec"]["containers"][0]["image"], "app:2");
    assert_eq!(held["spec"]["template"]["spec"]["containers"][1]["image"], "log:1");

    let mut his = all_ours();
    let theirs = json!({"f:spec": {"f:replicas": {}}});
    his["f:spec"].as_object_mut().unwrap().remove("f:replicas");
    let held = as_held(&object, &wishes, &live(), &managed(&his, &theirs));
    assert_eq!(held["spec"].get("replicas"), None);
    assert_eq!(held["spec"]["template"]["spec"]["containers"][0]["image"], "app:2");

    let locked = locked_part(&object, &rules, &managed(&all_ours(), &json!({})));
    assert_eq!(locked["spec"].get("replicas"), None);
    let app = &locked["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&app["name"], app.get("image")), (&json!("app"), None));
    assert!(app["args"].is_array());
}

#[test]
fn of_what_is_left_to_others_an_installer_applies_no_more_than_he_holds() {
    let rules = rules(json!([{"paths": ["/spec/template/spec/containers/[name=app]"]}]));
    let object = deployment();
    let wishes = wishes(&rules, &object).unwrap();
    let mut live = live();
    live["spec"]["template"]["spec"]["containers"][1]["stdin"] = json!(true);
    let theirs = containers(&json!({"f:stdin": {}}), &json!({}));
    let held = as_held(&object, &wishes, &live, &managed(&all_ours(), &json!({"f:spec": theirs})));
    let app = json!({"name": "app", "image": "app:2", "args": ["--a", "--b"]});
    assert_eq!(held["spec"]["template"]["spec"]["containers"][0], app);
}

#[test]
fn a_list_item_that_is_missing_is_made_with_all_of_it() {
    let rule = json!({"paths": ["/spec/template/spec/containers/*/image"]});
    let rules = rules(json!([rule]));
    let object = deployment();
    let mut without = live();
    without["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().remove(1);
    let mut ours = all_ours();
    ours["f:spec"] = containers(&json!({}), &json!({".": {}, "f:name": {}, "f:image": {}}));
    let inner = &mut ours["f:spec"]["f:template"]["f:spec"]["f:containers"];
    inner.as_object_mut().unwrap().remove("k:{\"name\":\"app\"}");

    let of = |live: Option<&Value>| settled(rule.clone(), live, &ours, &json!({}));
    assert_eq!(of(None), None, "that takes a look");
    assert_eq!(of(Some(&without)).unwrap().left_out, ["/spec/template/spec/containers/1/image"]);
    let wishes = wishes(&rules, &object).unwrap();
    for body in [
        as_held(&object, &wishes, &without, &managed(&ours, &json!({}))),
        as_live(&object, &wishes, &without, &managed(&ours, &json!({}))),
    ] {
        assert_eq!(body["spec"]["template"]["spec"]["containers"][0]["image"], "app:1");
    }
}

#[test]
fn what_others_put_inside_of_one_value_stays() {
    let rules = rules(json!([{"paths": ["/spec/tolerations/[key=spot]"]}]));
    let mut object = deployment();
    object.body["spec"]["tolerations"] = json!([{"key": "own"}]);
    let mut live = object.body.clone();
    live["spec"]["tolerations"] = json!([{"key": "own"}, {"key": "spot"}]);
    let wishes = wishes(&rules, &object).unwrap();
    let managed = managed(&json!({}), &json!({"f:spec": {"f:tolerations": {}}}));
    let body = as_held(&object, &wishes, &live, &managed);
    assert_eq!(body["spec"]["tolerations"], live["spec"]["tolerations"]);
}
