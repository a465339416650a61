//! Packs inside packs: what they see, in which order they come, and that the limits are those of the whole.

use serde_json::{Value, json};

use super::{pack, run};
use crate::pack::render::{Error, Rendered};

fn inner(name: &str, more: &str) -> String {
    format!("apiVersion: sherpack/v1\nmetadata: {{name: {name}, version: 1.0.0}}\n{more}\n")
}

/// An object of which everything but its name is an expression.
fn object(name: &str, expression: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {{{{ {expression} }}}}}}\n"
    )
}

/// `name=data.a` of each object.
fn shown(rendered: &Rendered) -> Vec<String> {
    let one =
        |object: &Value| format!("{}={}", object["metadata"]["name"].as_str().unwrap(), object["data"]["a"]);
    rendered.objects.iter().map(one).collect()
}

const DB: &str = "dependencies: [{name: db, version: '1', repository: x, condition: db.enabled}]";

#[test]
fn a_pack_inside_sees_its_section_over_its_defaults_and_what_is_global() {
    let definition = inner("db", "");
    let (all, web) = (object("db", "values | tojson"), object("web", "values | tojson"));
    let pack = pack(
        DB,
        &[
            ("values.yaml", "global: {zone: a}\ndb: {enabled: true, port: 2}\nown: 1"),
            ("templates/a.yaml", &web),
            ("charts/db/Pack.yaml", &definition),
            ("charts/db/values.yaml", "port: 1\nuser: x\nextra: {deep: 1, other: 2}\nglobal: {size: 1}"),
            ("charts/db/templates/a.yaml", &all),
        ],
    );
    let rendered =
        run(&pack, &json!({"db": {"extra": {"deep": null}, "mine": true}, "global": {"zone": "b"}})).unwrap();
    assert_eq!(
        rendered.objects[0]["data"]["a"],
        json!({"enabled": true, "extra": {"other": 2}, "global": {"size": 1, "zone": "b"}, "mine": true, "port": 2, "user": "x"})
    );
    // The pack around sees only its own, and the record both.
    assert_eq!(
        rendered.objects[1]["data"]["a"],
        json!({"db": {"enabled": true, "extra": {}, "mine": true, "port": 2}, "global": {"zone": "b"}, "own": 1})
    );
    assert_eq!(
        rendered.values["db"],
        json!({"enabled": true, "extra": {"other": 2}, "global": {"size": 1, "zone": "b"}, "mine": true, "port": 2, "user": "x"})
    );
    assert_eq!(rendered.values["own"], 1);
}

#[test]
fn a_copy_of_what_is_global_is_not_stored_in_each_section() {
    let definition = inner("db", "");
    let pack = pack("", &[("charts/db/Pack.yaml", &definition), ("values.yaml", "global: {a: 1}")]);
    assert_eq!(run(&pack, &json!({})).unwrap().values, json!({"global": {"a": 1}, "db": {}}));
}

#[test]
fn they_come_before_the_pack_around_them_by_name_and_are_themselves() {
    let names: Vec<String> = ["b", "a", "c"].iter().map(|name| inner(name, "")).collect();
    let says = object(
        "x",
        "[pack.name, pack.version, release.name, release.revision, capabilities.kubeVersion.version, 'apps/v1' in capabilities.apiVersions] | join(' ')",
    );
    let outer = object("outer", "pack.name");
    let notes = "notes of {{ pack.name }}";
    let pack = pack(
        "",
        &[
            ("templates/a.yaml", &outer),
            ("templates/NOTES.txt", notes),
            ("charts/b/Pack.yaml", &names[0]),
            ("charts/b/templates/a.yaml", &says),
            ("charts/b/templates/NOTES.txt", notes),
            ("charts/a/Pack.yaml", &names[1]),
            ("charts/a/templates/a.yaml", &says),
            ("charts/a/charts/c/Pack.yaml", &names[2]),
            ("charts/a/charts/c/templates/a.yaml", &says),
        ],
    );
    let rendered = run(&pack, &json!({})).unwrap();
    let expected = ["c", "a", "b"].map(|name| format!("x=\"{name} 1.0.0 shop 3 v1.33.2 true\""));
    assert_eq!(shown(&rendered)[..3], expected);
    assert_eq!(shown(&rendered)[3], "outer=\"demo\"");
    assert_eq!(rendered.notes.as_deref(), Some("notes of demo"));
    assert_eq!(rendered.origins[0], "charts/a/charts/c/templates/a.yaml");
}

#[test]
fn values_go_down_through_every_level() {
    let (a, b) = (inner("a", ""), inner("b", ""));
    let says = object("b", "values.x ~ ' ' ~ values.y ~ ' ' ~ values.z ~ ' ' ~ values.global.g");
    let pack = pack(
        "",
        &[
            ("values.yaml", "a: {b: {y: outer}}\nglobal: {g: g}"),
            ("charts/a/Pack.yaml", &a),
            ("charts/a/values.yaml", "b: {x: a, y: a}"),
            ("charts/a/charts/b/Pack.yaml", &b),
            ("charts/a/charts/b/values.yaml", "x: b\ny: b\nz: b"),
            ("charts/a/charts/b/templates/a.yaml", &says),
        ],
    );
    assert_eq!(shown(&run(&pack, &json!({})).unwrap()), ["b=\"a outer b g\""]);
    let values = json!({"a": {"b": {"x": "user", "z": null}}});
    let error = run(&pack, &values).unwrap_err().to_string();
    assert!(error.contains("charts/a/charts/b/templates/a.yaml"), "a null removes: {error}");
}

#[test]
fn an_error_inside_names_the_file_from_the_outermost() {
    let definition = inner("db", "");
    for (text, place) in [
        ("a: 1\n{{ values.gone }}", "charts/db/templates/a.yaml:2"),
        ("{% if", "charts/db/templates/a.yaml:1"),
        ("a: [", "charts/db/templates/a.yaml"),
        (
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
            "charts/db/templates/a.yaml",
        ),
    ] {
        let pack = pack("", &[("charts/db/Pack.yaml", &definition), ("charts/db/templates/a.yaml", text)]);
        let error = run(&pack, &json!({})).unwrap_err().to_string();
        assert!(error.contains(place), "{text}: {error}");
    }
}

#[test]
fn a_pack_inside_is_held_to_its_own_schema_and_cluster() {
    let definition = inner("db", "");
    let schema = "type: object\nrequired: [password]\nproperties: {port: {type: integer, default: 5}, password: {type: string}}";
    let port = object("db", "values.port");
    let held = pack(
        "",
        &[
            ("charts/db/Pack.yaml", &definition),
            ("charts/db/values.schema.yaml", schema),
            ("charts/db/templates/a.yaml", &port),
        ],
    );
    let error = run(&held, &json!({"db": {"port": "s3cret"}})).unwrap_err();
    assert_eq!(error.reason(), "ValuesInvalid");
    let text = error.to_string();
    assert!(
        text.contains("charts/db/values.schema.yaml") && text.contains("`db.port` must be an integer"),
        "{text}"
    );
    assert!(text.contains("`db.password` is required") && !text.contains("s3cret"), "{text}");
    assert_eq!(shown(&run(&held, &json!({"db": {"password": "x"}})).unwrap()), ["db=5"]);

    let old = "apiVersion: sherpack/v1\nmetadata: {name: db, version: 1.0.0, kubeVersion: '<1.20'}\n";
    let pack = pack(DB, &[("charts/db/Pack.yaml", old)]);
    assert_eq!(run(&pack, &json!({"db": {"enabled": true}})).unwrap_err().reason(), "KubernetesVersion");
    assert!(run(&pack, &json!({})).is_ok(), "switched off, it does not matter");
}

#[test]
fn what_is_missing_or_broken_is_an_error_only_while_it_is_switched_on() {
    for (file, reason) in
        [("templates/NOTES.txt", "DependencyMissing"), ("charts/db/Pack.yaml", "DependencyInvalid")]
    {
        let pack = pack(DB, &[(file, "x")]);
        assert_eq!(run(&pack, &json!({"db": {"enabled": true}})).unwrap_err().reason(), reason);
        assert!(run(&pack, &json!({"db": {"enabled": false}})).is_ok());
    }
    let (a, nested) = (inner("a", DB), json!({"a": {"db": {"enabled": true}}}));
    let error = run(&pack("", &[("charts/a/Pack.yaml", &a)]), &nested).unwrap_err();
    assert!(
        error.reason() == "DependencyMissing" && error.to_string().contains("charts/a/charts/db"),
        "{error}"
    );
}

#[test]
fn a_section_that_is_no_object_is_named() {
    let definition = inner("db", "");
    let pack = pack("", &[("charts/db/Pack.yaml", &definition)]);
    for section in [json!([1]), json!("text"), json!(true)] {
        let error = run(&pack, &json!({"db": section})).unwrap_err();
        assert!(
            error.reason() == "ValuesInvalid" && error.to_string().contains("`db` is not an object"),
            "{error}"
        );
    }
    assert!(run(&pack, &json!({"db": null})).is_ok());
}

#[test]
fn a_library_inside_renders_nothing() {
    let definition = inner("lib", "kind: library");
    let a = object("lib", "1");
    let pack = pack("", &[("charts/lib/Pack.yaml", &definition), ("charts/lib/templates/a.yaml", &a)]);
    assert_eq!(run(&pack, &json!({})).unwrap().objects, Vec::<Value>::new());
}

#[test]
fn definitions_inside_are_told_of_only_when_they_take_part() {
    let definition = inner("db", "");
    let shipped = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\n";
    let pack = pack(DB, &[("charts/db/Pack.yaml", &definition), ("charts/db/crds/a.yaml", shipped)]);
    let files = |values: Value| -> Vec<String> {
        run(&pack, &values).unwrap().definitions.into_iter().map(|shipped| shipped.file).collect()
    };
    assert_eq!(files(json!({"db": {"enabled": true}})), ["charts/db/crds/a.yaml"]);
    assert_eq!(files(json!({})), [""; 0]);
}

#[test]
fn all_packs_pay_from_one_purse() {
    let loops = "{% for i in range(1000) %}{% for j in range(300) %}{% endfor %}{% endfor %}";
    let definitions: Vec<String> = (0..12).map(|index| inner(&format!("p{index}"), "")).collect();
    let paths: Vec<[String; 2]> = (0..12)
        .map(|index| ["Pack.yaml", "templates/a.yaml"].map(|file| format!("charts/p{index}/{file}")))
        .collect();
    let of = |count: usize, text: &str| {
        let files: Vec<(&str, &str)> = (0..count)
            .flat_map(|index| {
                [(paths[index][0].as_str(), definitions[index].as_str()), (paths[index][1].as_str(), text)]
            })
            .collect();
        run(&pack("", &files), &json!({}))
    };
    assert!(of(1, loops).is_ok());
    assert!(matches!(of(12, loops), Err(Error::Limit { .. })));
    let wide = format!("a: [{}]\n", "1,".repeat(20_000));
    assert!(of(2, &wide).is_ok());
    assert!(matches!(of(12, &wide), Err(Error::Limit { .. })), "nodes of the documents");
}

#[test]
fn aliases_of_aliases_end_at_the_limit() {
    let twice = |name: &str| {
        format!(
            "dependencies: [{}]",
            (0..4)
                .map(|index| format!("{{name: {name}, version: '1', repository: x, alias: a{index}}}"))
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    let definitions: Vec<String> =
        (0..7).map(|level| inner(&format!("l{level}"), &twice(&format!("l{}", level + 1)))).collect();
    let leaf = inner("l7", "");
    let paths: Vec<String> = (0..8)
        .map(|level| {
            format!("{}Pack.yaml", (0..=level).map(|at| format!("charts/l{at}/")).collect::<String>())
        })
        .collect();
    let mut files: Vec<(&str, &str)> =
        definitions.iter().zip(&paths).map(|(text, path)| (path.as_str(), text.as_str())).collect();
    files.push((&paths[7], &leaf));
    let error = run(&pack("", &files), &json!({})).unwrap_err();
    assert!(error.to_string().contains("200 packs"), "{error}");
}

#[test]
fn a_schema_that_takes_forever_ends_at_the_limit() {
    let mut definitions = serde_json::Map::new();
    for index in 0..50 {
        let next = json!({"$ref": format!("#/definitions/d{}", index + 1)});
        definitions.insert(format!("d{index}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("d50".to_owned(), json!(true));
    let schema = json!({"definitions": definitions, "$ref": "#/definitions/d0"}).to_string();
    let error = run(&pack("", &[("values.schema.json", &schema)]), &json!({})).unwrap_err();
    assert_eq!(error.reason(), "RenderLimit");
    assert!(error.to_string().contains("values.schema.json"), "{error}");
}

#[test]
fn values_are_held_to_the_schema_and_its_defaults_are_seen() {
    let schema = "properties:\n  replicas: {type: integer, min: 1, default: 3}\n  name: {type: string}\n";
    let a = object("a", "values.replicas");
    let pack = pack("", &[("values.schema.yaml", schema), ("templates/a.yaml", &a)]);
    assert_eq!(shown(&run(&pack, &json!({})).unwrap()), ["a=3"]);
    let error = run(&pack, &json!({"replicas": 0, "name": ["s3cret"]})).unwrap_err();
    assert_eq!(error.reason(), "ValuesInvalid");
    assert_eq!(
        error.to_string(),
        "the values do not fit values.schema.yaml: `name` must be a string; `replicas` must be at least 1"
    );
}
