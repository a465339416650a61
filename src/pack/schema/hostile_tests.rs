//! Schemas that are meant to take forever, or too much memory or stack.

use serde_json::{Map, Value, json};

use super::*;
use crate::pack::tests::files;

const FUEL: u64 = 1_000_000;

fn schema(root: &Value) -> Result<Schema, Error> {
    read(&files(&[("values.schema.json", &root.to_string())])).map(Option::unwrap)
}

fn judge(root: &Value, values: &Value) -> Result<(), Refusal> {
    schema(root).unwrap().check(values, &mut Fuel { left: FUEL, stop: &|| false })
}

#[track_caller]
fn ends_at_the_limit(root: &Value, values: &Value) {
    assert!(matches!(judge(root, values), Err(Refusal::Limit(_))), "{}", root.to_string().len());
}

/// `definitions` in which each one refers to the next `times` times.
fn doubling(keyword: &str, length: usize, times: usize, leaf: Value) -> Value {
    let mut definitions = Map::new();
    for index in 0..length {
        let next = json!({"$ref": format!("#/definitions/d{}", index + 1)});
        definitions.insert(format!("d{index}"), json!({keyword: vec![next; times]}));
    }
    definitions.insert(format!("d{length}"), leaf);
    json!({"definitions": definitions, "$ref": "#/definitions/d0"})
}

#[test]
fn branches_that_double_end_at_the_limit() {
    for (keyword, leaf) in [
        ("allOf", json!(true)),
        ("anyOf", json!(false)),
        ("oneOf", json!(false)),
        ("anyOf", json!({"type": "null"})),
    ] {
        ends_at_the_limit(&doubling(keyword, 60, 2, leaf), &json!({"a": 1}));
    }
    let mut not = json!({"type": "null"});
    for _ in 0..40 {
        not = json!({"not": {"anyOf": [{"$ref": "#/x"}, not]}});
    }
    let _ = judge(&json!({"x": {"type": "string"}, "not": not}), &json!({}));
}

#[test]
fn recursion_that_branches_ends_at_the_limit() {
    let mut values = json!(1);
    for _ in 0..60 {
        values = json!({"a": values});
    }
    let branches = json!([{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]);
    ends_at_the_limit(&json!({"properties": {"a": {"allOf": branches}}}), &values);
    let never = json!({"type": "object", "properties": {"a": {"anyOf": branches}}});
    ends_at_the_limit(&never, &values);
}

#[test]
fn a_long_chain_does_not_end_the_stack() {
    ends_at_the_limit(&doubling("allOf", 10_000, 1, json!(true)), &json!({}));
    let chain = |length: usize| {
        let list = (0..length)
            .map(|index| (format!("d{index}"), json!({"$ref": format!("#/definitions/d{}", index + 1)})));
        let mut definitions: Map<String, Value> = list.collect();
        definitions.insert(format!("d{length}"), json!({"type": "object"}));
        json!({"definitions": definitions, "$ref": "#/definitions/d0"})
    };
    ends_at_the_limit(&chain(10_000), &json!({}));
    assert_eq!(judge(&chain(50), &json!({})), Ok(()));
}

#[test]
fn size_depth_and_patterns_are_bounded() {
    let refused = |text: String| read(&files(&[("values.schema.json", &text)])).unwrap_err().to_string();
    assert!(refused(format!("{{\"title\": \"{}\"}}", "x".repeat(1 << 20))).contains("larger than 1 MiB"));
    assert!(refused(format!("{{\"enum\": [{}1]}}", "1,".repeat(60_000))).contains("more than 50000"));
    assert!(refused(format!("{}{}", "{\"not\":".repeat(1000), "}".repeat(1000))).contains("not JSON"));
    let many: Map<String, Value> =
        (0..300).map(|index| (format!("k{index}"), json!({"pattern": format!("^{index}$")}))).collect();
    assert!(refused(json!({"properties": many}).to_string()).contains("more than 200 patterns"));
    for pattern in ["x".repeat(5000), "((a{1000}){1000}){1000}".to_owned(), "(".repeat(4000)] {
        let error = schema(&json!({"pattern": pattern})).unwrap_err();
        assert_eq!(error.reason(), "SchemaInvalid");
        assert!(error.to_string().len() < 600, "{error}");
    }
}

#[test]
fn patterns_that_backtrack_end() {
    let text = json!("a".repeat(5000));
    for pattern in
        ["^(a+)+$(?=b)", "^(?:(?=a)a|aa)+b$", "^(a*)*\\1b$", "(a?){50}a{50}b", "^(([a-z])+.)+[A-Z]([a-z])+$"]
    {
        // Whatever the verdict, it comes.
        let _ = judge(&json!({"pattern": pattern}), &text);
    }
    ends_at_the_limit(&json!({"pattern": "^a"}), &json!("a".repeat(70 << 10)));
    let many: Value = vec![json!("a".repeat(500)); 1000].into();
    ends_at_the_limit(&json!({"items": {"pattern": "^(?=a)(a+)+$"}}), &many);
}

#[test]
fn wide_values_against_wide_schemas_end_at_the_limit() {
    let options: Vec<Value> = (0..20_000).map(Value::from).collect();
    let items: Vec<Value> = (30_000..60_000).map(Value::from).collect();
    ends_at_the_limit(&json!({"items": {"enum": options}}), &items.into());
    let keys: Map<String, Value> = (0..20_000).map(|index| (format!("k{index}"), json!(1))).collect();
    let patterns: Map<String, Value> = (0..150).map(|index| (format!("^z{index}"), json!(true))).collect();
    ends_at_the_limit(&json!({"patternProperties": patterns}), &keys.clone().into());
    let deep: Vec<Value> = (0..30_000).map(|index| json!({"x": index})).collect();
    let all = vec![json!({"required": ["a"]}); 100];
    ends_at_the_limit(&json!({"items": {"anyOf": all}, "type": "array"}), &deep.into());
    let unevaluated = json!({"allOf": vec![json!({"properties": {"a": true}}); 100], "unevaluatedProperties": {"$ref": "#"}});
    ends_at_the_limit(&unevaluated, &keys.into());
}

#[test]
fn identifiers_do_not_multiply() {
    let long = format!("https://example.com/{}/", "x".repeat(400_000));
    let list: Vec<Value> = (0..15_000).map(|index| json!({"$id": format!("i{index}")})).collect();
    assert!(schema(&json!({"$id": long, "allOf": list})).is_ok());
}

#[test]
fn judging_ends_when_it_is_asked_to() {
    let schema = schema(&json!({"type": "object"})).unwrap();
    let verdict = schema.check(&json!({}), &mut Fuel { left: FUEL, stop: &|| true });
    assert!(matches!(verdict, Err(Refusal::Limit(_))));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[{}\\[\\]\":,$#/a-z0-9 ]{0,200}") {
        let _ = read(&files(&[("values.schema.json", &text)]));
        let _ = read(&files(&[("values.schema.yaml", &text)]));
    }
}
