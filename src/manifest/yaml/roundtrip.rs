use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

use super::{join, parse_documents, to_yaml};

/// Strings that trip YAML readers, and arbitrary ones.
fn text() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "",
        "0o14",
        "1e3",
        "yes",
        "y",
        "null",
        "~",
        "12:30",
        "007",
        "-----BEGIN CERTIFICATE-----\nMII\n-----END",
        "---",
        "a---",
        "...",
        "a\n...\nb",
        "\u{feff}",
        "\u{85}",
        "\u{2028}x",
        "\u{1F600}",
        "\0",
        "\u{7f}",
        "a\r\nb",
        "a\n",
        "\n",
        "a\n\n",
        " a\nb",
        "a \nb",
        "\ta\nb",
        "a\n\tb",
        "a\n\nb\n",
        "# c",
        "a: b",
        "'",
        "\"",
        "\\",
        "{}",
        "[]",
        "<<",
        "!!str x",
        "*x",
        "&x",
        "? a",
        "|",
        ">",
        "%YAML",
        "- a",
        "0x10",
        ".5",
        "1_0",
        "+1",
        "-0",
        "\\x2d",
        "é\nü\n",
        "a\u{a0}\nb",
    ])
    .prop_map(str::to_owned);
    let lines = prop::collection::vec("[a-z -]{0,6}", 0..5).prop_map(|lines| lines.join("\n"));
    prop_oneof![3 => nasty, 2 => any::<String>(), 2 => lines, 2 => "[a-zA-Z0-9:/._ -]{0,12}", 1 => "x{300,400}"]
}

/// Whole floats are left out: reading turns them into integers.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("a fraction, or too large to be exact", |f| f.fract() != 0.0 || f.abs() > 1e17)
            .prop_map(|f| Number::from_f64(f).map_or(Value::Null, Value::Number)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

pub(super) fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(text(), value(), 1..5).prop_map(|map| {
        let mut map: Map<String, Value> = map.into_iter().collect();
        // A generated kind must not turn the object into a list.
        map.remove("kind");
        Value::Object(map)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(objects in prop::collection::vec(object(), 0..4)) {
        let text = join(&objects);
        prop_assert_eq!(parse_documents(&text, "t").map_err(|e| format!("{e}\n{text}")), Ok(objects));
    }

    #[test]
    fn a_reader_that_splits_on_dashes_and_trims_gets_the_same(objects in prop::collection::vec(object(), 1..4)) {
        let text = join(&objects);
        let parts: Vec<_> = text.split("---").map(str::trim).collect();
        prop_assert_eq!(parts.len(), objects.len());
        for (part, object) in parts.iter().zip(&objects) {
            if object.as_object().is_some_and(Map::is_empty) { continue; }
            prop_assert_eq!(parse_documents(part, "t").map_err(|e| format!("{e}\n{part}")), Ok(vec![object.clone()]));
        }
    }
}

#[test]
fn a_key_beyond_the_limit_of_implicit_keys_is_read_back() {
    for length in [255, 256, 257, 1023, 1025, 5000] {
        for value in [json!(1), json!({"a": {"b": 1}}), json!(["a", {"b": 1}]), json!("x\ny\n"), json!({})] {
            let object = json!({"a": 1, "k".repeat(length): value, "z": 1});
            let text = to_yaml(&object);
            assert_eq!(parse_documents(&text, "t").unwrap(), vec![object], "{text}");
        }
    }
}
