use serde_json::{Value, json};

use super::*;
use crate::pack::tests::files;

fn schema(file: &str, text: &str) -> Result<Schema, Error> {
    read(&files(&[(file, text)])).map(Option::unwrap)
}

fn json_schema(root: &Value) -> Schema {
    schema("values.schema.json", &root.to_string()).unwrap()
}

fn judge(schema: &Schema, values: &Value) -> Result<(), Refusal> {
    schema.check(values, &mut Fuel { left: 1_000_000, stop: &|| false })
}

/// Each violation as `path: wants`.
fn violations(schema: &Schema, values: &Value) -> Vec<String> {
    match judge(schema, values) {
        Ok(()) => Vec::new(),
        Err(Refusal::Violations(found, _)) => {
            found.into_iter().map(|one| format!("{}: {}", one.path, one.wants)).collect()
        }
        Err(Refusal::Limit(message)) => panic!("{message}"),
    }
}

#[test]
fn the_first_file_in_the_stated_order_is_the_schema() {
    let both = read(&files(&[("schema.json", "{"), ("values.schema.json", "{}")])).unwrap().unwrap();
    assert_eq!(both.file(), "values.schema.json");
    assert_eq!(read(&files(&[("Pack.yaml", "")])).unwrap(), None);
}

#[test]
fn the_two_formats_are_told_apart_as_published() {
    for (text, is_json) in [
        ("$schema: http://json-schema.org/draft-07/schema#\nproperties: {}", true),
        ("$id: x\nproperties: {}", true),
        ("type: object\nproperties: {}", true),
        ("schemaVersion: sherpack/v1\ntype: object\nproperties: {}", false),
        ("schemaVersion: sherpack/v1\nproperties: {}", false),
        ("properties: {}", false),
    ] {
        let root = crate::pack::values::parse(text.as_bytes(), "t").unwrap();
        assert_eq!(is_json_schema(&root), is_json, "{text}");
    }
}

const SIMPLE: &str = "
schemaVersion: sherpack/v1
title: t
properties:
  replicas: {type: integer, min: 1, max: 10, default: 2, required: true}
  image:
    type: object
    properties:
      tag: {type: string, pattern: '^v\\d+$', minLength: 2, default: v1}
      pullPolicy: {type: string, enumValues: [Always, Never]}
  hosts: {type: array, items: {type: string}, minItems: 1, maxItems: 2}
  anything: {type: any, min: 5, default: {a: 1}}
  plain: {type: string}
";

#[test]
fn the_simplified_format_means_what_it_says() {
    let schema = schema("values.schema.yaml", SIMPLE).unwrap();
    assert_eq!(schema.defaults(), json!({"replicas": 2, "image": {"tag": "v1"}, "anything": {"a": 1}}));
    assert_eq!(violations(&schema, &json!({"replicas": 1, "anything": 1, "more": true})), [""; 0]);
    for (values, violation) in [
        (json!({}), "replicas: is required"),
        (json!({"replicas": 0}), "replicas: must be at least 1"),
        (json!({"replicas": 11}), "replicas: must be at most 10"),
        (json!({"replicas": "2"}), "replicas: must be an integer"),
        (json!({"replicas": 2, "image": {"tag": "latest"}}), "image.tag: must match the pattern `^v\\d+$`"),
        (json!({"replicas": 2, "image": {"tag": "v"}}), "image.tag: must have at least 2 characters"),
        (json!({"replicas": 2, "image": []}), "image: must be an object"),
        (
            json!({"replicas": 2, "image": {"pullPolicy": "Sometimes"}}),
            "image.pullPolicy: must be one of \"Always\", \"Never\"",
        ),
        (json!({"replicas": 2, "hosts": []}), "hosts: must have 1 to 2 items"),
        (json!({"replicas": 2, "hosts": ["a", 1]}), "hosts[1]: must be a string"),
    ] {
        assert_eq!(violations(&schema, &values)[0], violation, "{values}");
    }
}

#[test]
fn a_mistake_in_the_simplified_format_names_the_property() {
    for (text, part) in [
        ("properties: {a: {type: text}}", "`properties.a.type`"),
        ("properties: {a: {}}", "`properties.a.type`"),
        ("properties: {a: 1}", "`properties.a` is not an object"),
        ("properties: [a]", "`properties` is not an object"),
        ("properties: {a: {type: object, required: [b]}}", "`properties.a.required` is not true or false"),
        ("properties: {a: {type: string, minLength: -1}}", "`properties.a.minLength`"),
        ("properties: {a: {type: string, pattern: '('}}", "`(` is not a pattern"),
        ("properties: {a: {type: array, items: {type: x}}}", "`properties.a.items.type`"),
    ] {
        let error = schema("values.schema.yaml", text).unwrap_err();
        assert_eq!(error.reason(), "SchemaInvalid", "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert!(error.to_string().contains("values.schema.yaml"), "{text}: {error}");
    }
    let odd = schema("schema.yaml", "properties: {a: {type: integer, minimum: 1}}\nrequired: [a]").unwrap();
    assert_eq!(odd.unknown, ["required", "properties.a.minimum"]);
}

#[test]
fn a_document_that_is_no_schema_is_named() {
    for (file, text, part) in [
        ("values.schema.json", "{", "it is not JSON"),
        ("values.schema.json", "[]", "it is not an object"),
        ("values.schema.yaml", "a: [", "values.schema.yaml:1"),
        ("values.schema.yaml", "a: 1\na: 2", "values.schema.yaml:2"),
        ("values.schema.json", r#"{"type": "objekt"}"#, "`type` names no type"),
        (
            "values.schema.json",
            r#"{"properties": {"a": {"minLength": "x"}}}"#,
            "`properties.a`: `minLength` is not",
        ),
        (
            "values.schema.json",
            r#"{"properties": {"a": {"required": "x"}}}"#,
            "`required` is not a list of names",
        ),
        ("values.schema.json", r##"{"$ref": "#/definitions/gone"}"##, "leads nowhere"),
        ("values.schema.json", r#"{"$defs": {"unused": {"type": 1}}}"#, "`$defs.unused`: `type`"),
        ("values.schema.json", r#"{"allOf": []}"#, "`allOf` is empty"),
        ("values.schema.json", r#"{"items": 5}"#, "a schema is an object, true or false"),
    ] {
        let error = schema(file, text).unwrap_err();
        assert_eq!(error.reason(), "SchemaInvalid", "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

#[test]
fn a_reference_that_leads_out_is_refused_and_one_inside_works() {
    for reference in [
        "http://127.0.0.1:1/s.json",
        "https://example.com/s.json#/definitions/a",
        "file:///etc/passwd",
        "/etc/passwd",
        "other.json",
        "urn:x:y",
    ] {
        for (root, file) in [
            (json!({"properties": {"a": {"$ref": reference}}}), "values.schema.json"),
            (json!({"$id": "https://example.com/v", "$ref": reference}), "schema.json"),
        ] {
            let error = schema(file, &root.to_string()).unwrap_err();
            assert_eq!(error.reason(), "SchemaReferenceRefused", "{root}");
            assert!(error.to_string().contains(reference) && error.to_string().contains(file), "{error}");
        }
    }
    for root in [
        json!({"$ref": "#/definitions/n%61~1me", "definitions": {"na/me": {"type": "string"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"$ref": "#n"}],
               "definitions": {"x": {"$id": "#n", "type": "string"}}}),
        json!({"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "string"}}}),
        json!({"$id": "https://example.com/a/v.json", "$ref": "other.json",
               "$defs": {"x": {"$id": "https://example.com/a/other.json", "type": "string"}}}),
        json!({"$id": "https://example.com/a/v.json", "$ref": "v.json#/$defs/x", "$defs": {"x": {"type": "string"}}}),
    ] {
        let schema = json_schema(&root);
        assert_eq!(judge(&schema, &json!("text")), Ok(()), "{root}");
        assert_eq!(violations(&schema, &json!(1)), [": must be a string"], "{root}");
    }
}

#[test]
fn a_property_that_is_only_named_like_a_reference_is_none() {
    let schema = json_schema(&json!({
        "properties": {"$ref": {"type": "string"}},
        "default": {"$ref": "http://example.com"},
        "enum": [{"$ref": "http://example.com"}],
    }));
    assert_eq!(judge(&schema, &json!({"$ref": "http://example.com"})), Ok(()));
}

#[test]
fn a_schema_may_refer_to_itself() {
    let tree = json_schema(&json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    }));
    assert_eq!(
        violations(&tree, &json!({"name": "a", "children": [{"name": "b", "children": []}]})),
        [""; 0]
    );
    assert_eq!(
        violations(&tree, &json!({"name": "a", "children": [{"name": "b", "children": [{}]}]})),
        ["children[0].children[0].name: is required"]
    );
    let circle = json_schema(
        &json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    );
    assert_eq!(judge(&circle, &json!({})), Ok(()));
}

#[test]
fn only_the_first_violations_are_shown_and_never_a_value() {
    let schema = json_schema(&json!({"additionalProperties": {"type": "integer"}}));
    let values: Value =
        (0..9).map(|index| (format!("k{index}"), json!("s3cret"))).collect::<serde_json::Map<_, _>>().into();
    let Err(Refusal::Violations(found, more)) = judge(&schema, &values) else { panic!("it does not fit") };
    assert_eq!((found.len(), more), (5, 4));
    assert!(!format!("{found:?}").contains("s3cret"));
}

#[test]
fn defaults_come_from_the_schema_and_explicit_ones_win() {
    let schema = json_schema(&json!({
        "type": "object",
        "properties": {
            "a": {"default": 1},
            "b": {"type": "object", "properties": {"c": {"default": [1]}, "d": {"type": "string"}}},
            "e": {"type": "object", "default": {"x": 1}, "properties": {"y": {"default": 2}}},
            "f": {"properties": {"z": {"default": 1}}},
            "g": {"default": null},
        },
    }));
    assert_eq!(schema.defaults(), json!({"a": 1, "b": {"c": [1]}, "e": {"x": 1}}));
    assert_eq!(json_schema(&json!({"default": 5})).defaults(), json!({}));
}

/// A schema with values that fit and values that do not, for every keyword.
#[test]
#[expect(clippy::too_many_lines, reason = "a table: schemas of every keyword, and values")]
fn verdicts_are_those_of_the_library() {
    let seven = "http://json-schema.org/draft-07/schema#";
    let four = "http://json-schema.org/draft-04/schema#";
    let instances = [
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(5),
        json!(7.5),
        json!(10),
        json!(-3),
        json!(""),
        json!("a"),
        json!("abc"),
        json!("ab1"),
        json!("2024-01-02"),
        json!("x@example.com"),
        json!("10.0.0.1"),
        json!("::1"),
        json!("http://example.com/x"),
        json!("été"),
        json!([]),
        json!([1]),
        json!([1, 1]),
        json!([1, "a"]),
        json!(["a", 1, true]),
        json!([1, 2, 3, 4]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "x"}),
        json!({"b": 1}),
        json!({"a": 1, "b": 2}),
        json!({"a": 1, "b": 2, "c": 3}),
        json!({"x-y": 1}),
        json!({"x-y": "s", "a": 2}),
        json!({"a": {"a": {"a": 1}}}),
        json!({"a": {"a": {"a": "x"}}}),
        json!([[1], ["a"]]),
        json!({"a": [1, 2], "b": null}),
    ];
    let schemas = [
        json!(true),
        json!(false),
        json!({}),
        json!({"type": "integer"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "number"}),
        json!({"enum": [1, "a", {"a": 1}, [1]]}),
        json!({"const": {"a": 1}}),
        json!({"const": 1.0}),
        json!({"multipleOf": 2.5}),
        json!({"multipleOf": 2}),
        json!({"minimum": 1, "maximum": 7.5}),
        json!({"exclusiveMinimum": 1, "exclusiveMaximum": 10}),
        json!({"$schema": four, "minimum": 1, "exclusiveMinimum": true, "maximum": 10, "exclusiveMaximum": true}),
        json!({"minLength": 1, "maxLength": 3}),
        json!({"pattern": "^a"}),
        json!({"pattern": "^(?!a).*$"}),
        json!({"pattern": "^[\\w]+\\d$"}),
        json!({"$schema": seven, "format": "email"}),
        json!({"$schema": seven, "format": "ipv4"}),
        json!({"$schema": seven, "format": "ipv6"}),
        json!({"$schema": seven, "format": "date"}),
        json!({"$schema": seven, "format": "uri"}),
        json!({"format": "ipv4"}),
        json!({"$schema": seven, "format": "unknown"}),
        json!({"minItems": 1, "maxItems": 2}),
        json!({"uniqueItems": true}),
        json!({"items": {"type": "integer"}}),
        json!({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}),
        json!({"$schema": seven, "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": false}),
        json!({"contains": {"type": "string"}}),
        json!({"contains": {"type": "integer"}, "minContains": 2, "maxContains": 3}),
        json!({"contains": {"type": "integer"}, "minContains": 0}),
        json!({"minProperties": 1, "maxProperties": 2}),
        json!({"required": ["a", "b"]}),
        json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": false}),
        json!({"properties": {"a": true}, "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": {"type": "null"}}),
        json!({"propertyNames": {"maxLength": 1}}),
        json!({"$schema": seven, "dependencies": {"a": ["b"], "b": {"required": ["c"]}}}),
        json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": {"required": ["c"]}}}),
        json!({"allOf": [{"type": "object"}, {"required": ["a"]}]}),
        json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}),
        json!({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}),
        json!({"not": {"type": "object"}}),
        json!({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "array"}}),
        json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
        json!({"$schema": seven, "$ref": "#/definitions/x", "minimum": 100, "definitions": {"x": {"type": "integer"}}}),
        json!({"$ref": "#/$defs/x", "minimum": 5, "$defs": {"x": {"type": "integer"}}}),
        json!({"properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}}, "type": "object"}),
        json!({"properties": {"a": true}, "unevaluatedProperties": false}),
        json!({"allOf": [{"properties": {"a": true}}], "properties": {"b": true}, "unevaluatedProperties": false}),
        json!({"anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": true}}], "unevaluatedProperties": false}),
        json!({"if": {"required": ["a"]}, "then": {"properties": {"a": true}}, "else": {"properties": {"b": true}}, "unevaluatedProperties": false}),
        json!({"prefixItems": [true], "unevaluatedItems": false}),
        json!({"contains": {"type": "string"}, "unevaluatedItems": {"type": "integer"}}),
        json!({"$ref": "#/$defs/x", "unevaluatedProperties": {"type": "string"}, "$defs": {"x": {"properties": {"a": true}}}}),
    ];
    for root in &schemas {
        let library = jsonschema::options().build(root).unwrap();
        let ours = compile::compile(root).unwrap();
        for instance in &instances {
            let verdict = check::check(&ours, instance, &mut Fuel { left: 1_000_000, stop: &|| false });
            assert_eq!(verdict.is_ok(), library.is_valid(instance), "{root} on {instance}: {verdict:?}");
        }
    }
}
