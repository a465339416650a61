use serde_json::json;

use super::*;

fn object(body: Value) -> Object {
    Object::from_value(body).unwrap()
}

fn widgets() -> Object {
    object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}],
        },
    }))
}

fn widget(spec: Value) -> Object {
    object(
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "apps"}, "spec": spec}),
    )
}

fn unserved() -> Asked {
    Asked::Unserved(cluster::Error::UnknownKind {
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
    })
}

fn told(object: &Object, asked: Asked, definitions: &[Object]) -> ObjectLine {
    line(object, Some("templates/a.yaml"), (false, false), asked, &Around { definitions, adopt: false })
}

#[test]
fn a_custom_resource_is_judged_by_the_definition_in_its_pack() {
    let all = [widgets()];
    assert_eq!(told(&widget(json!({"size": 3})), unserved(), &all).would, Would::Create);
    let wrong = told(&widget(json!({"size": "x", "colour": "red"})), unserved(), &all);
    assert_eq!(wrong.would, Would::Refused);
    let message = wrong.problem.unwrap().message;
    assert!(message.contains(".spec.size: must be of type integer"), "{message}");
    assert!(message.contains("unknown field \"spec.colour\""), "{message}");
    // Nobody defines it.
    assert_eq!(told(&widget(json!({})), unserved(), &[]).problem.unwrap().reason, "UnknownKind");
    // Also where nothing else can be asked yet.
    let later = || Asked::Not(Problem::new("NamespaceNotFound", "apps"));
    assert_eq!(told(&widget(json!({"size": 3})), later(), &all).would, Would::Unchecked);
    assert_eq!(told(&widget(json!({"size": "x"})), later(), &all).would, Would::Refused);
}

#[test]
fn what_is_somebody_elses_is_refused() {
    let map = object(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "apps"}}),
    );
    let asked =
        |author: Author| Asked::Tried { live: Some(map.body.clone()), author, answer: Ok(map.body.clone()) };
    for (author, adopt, known, wanted) in [
        (Author::Us, false, false, Would::Unchanged),
        (Author::Release("apps/b".into()), true, false, Would::Refused),
        (Author::Unknown(None), false, false, Would::Refused),
        (Author::Unknown(None), true, false, Would::Unchanged),
        (Author::Departed, false, false, Would::Refused),
        (Author::Departed, false, true, Would::Unchanged),
    ] {
        let what = format!("{author:?} {adopt} {known}");
        let around = Around { definitions: &[], adopt };
        assert_eq!(line(&map, None, (false, known), asked(author), &around).would, wanted, "{what}");
    }
}

#[test]
fn fields_are_told_by_path_and_values_of_secrets_are_not() {
    let id = |kind: &str| ObjectId { kind: kind.into(), ..ObjectId::default() };
    let secret = |password: &str, more: Value| json!({"kind": "Secret", "metadata": {"name": "s", "resourceVersion": password, "labels": more}, "data": {"a.b": password}});
    let found = changes(&id("Secret"), secret("b25l", json!({"x": "1"})), secret("dHdv", json!({"x": "2"})));
    let one = |path: &str, old: &str, new: &str| FieldChange {
        path: path.into(),
        old: Some(old.into()),
        new: Some(new.into()),
    };
    assert_eq!(found, [one("data[\"a.b\"]", REDACTED, REDACTED), one("metadata.labels.x", "1", "2")]);
    let all = changes(&id("Secret"), json!({}), json!({"data": {"a": "b25l"}}));
    assert_eq!(all[0].new, Some(json!({"a": REDACTED})));
    let lists = changes(&id("ConfigMap"), json!({"spec": {"a": [1, 2]}}), json!({"spec": {"a": [1, 3, 4]}}));
    let paths: Vec<&str> = lists.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["spec.a[1]", "spec.a[2]"]);
    let same = json!({"metadata": {"annotations": {"sherpack.io/applied": "u.1"}}, "status": {"a": 1}});
    assert!(
        changes(&id("ConfigMap"), same, json!({"metadata": {"annotations": {"sherpack.io/applied": "u.2"}}}))
            .is_empty()
    );
}

#[test]
fn a_refusal_quotes_no_secret() {
    let secret = object(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "aHVudGVyMg=="}}),
    );
    let said =
        without_secrets(&secret, Problem::new("ObjectInvalid", "data.a: Invalid value: \"aHVudGVyMg==\""));
    assert_eq!(said.message, "data.a: Invalid value: \"(redacted)\"");
}
