//! What holds of every pair of definitions.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::random::{any_json, any_keyword, any_schema, definition, places};
use super::{of, random};
use crate::crd::{Definition, Kind, Severity, admissible, analyze, check, digest, same};

fn edited(schema: &Value, place: &str, keyword: &str, value: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.pointer_mut(place).and_then(Value::as_object_mut) {
        if value.is_null() {
            map.remove(keyword);
        } else {
            map.insert(keyword.to_owned(), value.clone());
        }
    }
    schema
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_definition_does_not_differ_from_itself(schema in any_schema()) {
        let document = definition(&schema);
        prop_assert!(of(&document, &document).changes.is_empty());
    }

    #[test]
    fn no_edit_of_a_keyword_is_silent_or_unhandled(
        schema in any_schema(), place in any::<Index>(), (keyword, value) in any_keyword(),
    ) {
        let places = places(&schema);
        let new = edited(&schema, &places[place.index(places.len())], keyword, &value);
        for (old, new) in [(&schema, &new), (&new, &schema)] {
            let analysis = of(&definition(old), &definition(new));
            let differs = same::schema(old) != same::schema(new);
            prop_assert_eq!(differs, !analysis.changes.is_empty(), "{:?}", analysis.changes);
            let unhandled = analysis.changes.iter().find(|change| change.kind == Kind::Unhandled);
            prop_assert!(unhandled.is_none(), "{:?}", unhandled);
        }
    }

    #[test]
    fn spelling_is_no_change(schema in any_schema()) {
        fn respelled(value: &Value) -> Value {
            match value {
                Value::Number(number) if number.is_i64() => json!(number.as_f64()),
                Value::Array(items) => items.iter().rev().map(respelled).collect(),
                Value::Object(map) => {
                    let one = |(key, value): (&String, &Value)| {
                        // These two may not be turned round.
                        let idiom = key == "anyOf" && map.contains_key("x-kubernetes-int-or-string");
                        (key.clone(), if idiom { value.clone() } else { respelled(value) })
                    };
                    map.iter().map(one).collect()
                }
                other => other.clone(),
            }
        }
        let (old, new) = (definition(&schema), definition(&respelled(&schema)));
        let analysis = of(&old, &new);
        prop_assert!(analysis.changes.is_empty(), "{:?}", analysis.changes);
        let read = |document: &Value| Definition::from_value(document).unwrap();
        prop_assert_eq!(digest(&read(&old), &read(&new)), digest(&read(&old), &read(&old)));
    }

    #[test]
    fn what_is_refused_one_way_is_not_worse_than_what_can_be_said(
        schema in any_schema(), place in any::<Index>(), (keyword, value) in any_keyword(),
    ) {
        // Blocked means refused by the server, and a definition that it would create is never Blocked by its schema.
        let places = places(&schema);
        let new = definition(&edited(&schema, &places[place.index(places.len())], keyword, &value));
        let analysis = of(&definition(&schema), &new);
        let admitted = admissible(&Definition::from_value(&new).unwrap()).is_ok();
        if admitted {
            prop_assert!(analysis.verdict() < Severity::Blocked, "{:?}", analysis.changes);
        }
    }

    #[test]
    fn nothing_that_comes_in_ends_the_process(a in any_json(), b in any_json(), object in any_json()) {
        let document = |spec: &Value| {
            let mut document = random::definition(&json!({"type": "object"}));
            document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = spec.clone();
            document
        };
        let (old, new) = (document(&a), document(&b));
        prop_assert!(of(&old, &old).changes.is_empty());
        let _ = of(&old, &new);
        if let Some(schema) = a.as_object() {
            let _ = check(schema, &object);
        }
        let mut odd = document(&a);
        odd["spec"]["versions"][0] = if b.is_object() { b.clone() } else { json!({}) };
        odd["spec"]["versions"][0]["name"] = "v1".into();
        odd["spec"]["names"] = a.clone();
        odd["spec"]["conversion"] = b.clone();
        for document in [&odd, &a, &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": b})] {
            if let (Ok(one), Ok(other)) = (Definition::from_value(document), Definition::from_value(&new)) {
                let _ = (analyze(&one, &other), analyze(&other, &one), admissible(&one));
            }
        }
    }
}
