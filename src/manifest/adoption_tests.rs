use serde_json::json;

use super::*;

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": fields})
}

/// A Deployment with so many replicas and this environment, which `holders` hold.
fn web(replicas: Option<u32>, env: Value, holders: &[Value]) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "managedFields": holders},
        "spec": {"template": {"spec": {"containers": [{"name": "app", "env": env}]}}},
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = replicas.into();
    }
    object
}

fn ours(replicas: bool) -> Value {
    let mut fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {
        ".": {}, "f:name": {}, "f:env": {"k:{\"name\":\"COLOR\"}": {".": {}, "f:name": {}, "f:value": {}}}}}}}}});
    if replicas {
        fields["f:spec"]["f:replicas"] = json!({});
    }
    entry("sherpack", "Apply", &fields)
}

fn kept() -> Before {
    let theirs = json!([{"name": "COLOR", "value": "red"}, {"name": "SIZE", "value": "big"}]);
    let before = web(Some(5), theirs, &[entry("kubectl", "Update", &json!({"f:spec": {"f:replicas": {}}}))]);
    let wanted = json!([{"name": "COLOR", "value": "blue"}, {"name": "SIZE", "value": "big"}]);
    let mut after = web(Some(1), wanted, &[ours(true)]);
    after["metadata"]["labels"] = json!({"sherpack.io/release-name": "web", "app": "web"});
    after["metadata"]["annotations"] = json!({"sherpack.io/applied": "uid.2"});
    let managers = vec![serde_json::from_value(before["metadata"]["managedFields"][0].clone()).unwrap()];
    Before::of(&before, &after, managers)
}

/// The object as our apply left it.
fn applied(holders: &[Value]) -> Value {
    let env = json!([{"name": "COLOR", "value": "blue"}, {"name": "SIZE", "value": "big"}]);
    let mut live = web(Some(1), env, holders);
    live["metadata"]["labels"] = json!({"sherpack.io/release-name": "web", "app": "web"});
    live["metadata"]["annotations"] = json!({"sherpack.io/applied": "uid.2", "note": "by hand"});
    live
}

#[test]
fn what_was_changed_is_kept_and_nothing_else() {
    let text = serde_json::to_value(kept()).unwrap();
    let mut places: Vec<String> =
        text["values"].as_array().unwrap().iter().map(|kept| kept["at"].to_string()).collect();
    places.sort();
    assert_eq!(
        places,
        [
            r#"["metadata","labels","app"]"#,
            r#"["spec","replicas"]"#,
            r#"["spec","template","spec","containers",{"key":"name","value":"app"},"env",{"key":"name","value":"COLOR"},"value"]"#,
        ]
    );
    assert_eq!(serde_json::from_value::<Before>(text).unwrap(), kept());
    assert!(Before::of(&applied(&[]), &applied(&[ours(true)]), Vec::new()).is_empty());
}

#[test]
fn what_nobody_changed_since_goes_back_and_our_marks_and_ownership_go() {
    let live = applied(&[ours(true)]);
    let object = unmarked(kept().restored(&live));
    let holders = kept().managers(&managed_fields(&live));
    assert_eq!(object["spec"]["replicas"], 5);
    let env = &object["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(*env, json!([{"name": "COLOR", "value": "red"}, {"name": "SIZE", "value": "big"}]));
    assert_eq!(object["metadata"]["annotations"], json!({"note": "by hand"}));
    assert_eq!(object["metadata"].get("labels").and_then(|labels| labels.get("app")), None);
    let holders: Vec<&str> = holders.iter().filter_map(|entry| entry.manager.as_deref()).collect();
    assert_eq!(holders, ["kubectl"], "who held it before holds it again");
}

#[test]
fn what_another_manager_took_since_stays() {
    let theirs = entry("kubectl-scale", "Update", &json!({"f:spec": {"f:replicas": {}}}));
    // A leaf of which the parts were taken away looks like one that holds all of them.
    let idle = entry("kubectl", "Update", &json!({"f:spec": {}}));
    let mut live = applied(&[ours(false), theirs, idle]);
    live["spec"]["replicas"] = json!(9);
    let object = kept().restored(&live);
    let holders = kept().managers(&managed_fields(&live));
    assert_eq!(object["spec"]["replicas"], 9);
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "red");
    assert_eq!(holders.len(), 2);
}

#[test]
fn what_a_later_revision_dropped_goes_back_too() {
    let mut live = applied(&[ours(false)]);
    live["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(kept().restored(&live)["spec"]["replicas"], 5);
    // A second look, at what the release makes of it now, keeps the values of before the first.
    let second = Before::of(&kept().restored(&live), &web(Some(2), json!([]), &[]), kept().managers(&[]));
    assert_eq!(second.restored(&web(Some(2), json!([]), &[ours(true)]))["spec"]["replicas"], 5);
}

#[test]
fn a_list_without_keys_is_kept_as_a_whole() {
    let with = |args: Value| json!({"kind": "Pod", "spec": {"args": args}});
    let before = Before::of(&with(json!(["a", "b"])), &with(json!(["c"])), Vec::new());
    assert_eq!(before.restored(&with(json!(["c"])))["spec"]["args"], json!(["a", "b"]));
}

#[test]
fn nothing_is_written_into_a_list_item_that_is_gone() {
    let mut live = applied(&[]);
    live["spec"]["template"]["spec"]["containers"] = json!([{"name": "other"}]);
    let restored = kept().restored(&live);
    assert_eq!(restored["spec"]["template"]["spec"]["containers"], json!([{"name": "other"}]));
}
