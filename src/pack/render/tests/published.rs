//! What the published engine (0.4.0) gives for templates that it accepts is given here too.
//!
//! `published.json` has pairs of a template and its output, as that engine printed them.

use serde_json::{Value, json};

use super::{pack, run};

/// Where the output differs: the template and what it gives here.
const DIFFERENT: &[(&str, &str)] = &[
    // A reader of YAML folds the line breaks.
    ("{{ values.text | quote }}", r#""a: 'b'\n\nc \"d\" \\""#),
    // The rules of YAML 1.1 as the tools of Kubernetes follow them, for reading and for writing.
    ("{{ fromyaml('a: [1, 0644, yes, 1.0]') }}", r#"{"a": [1, 420, true, 1.0]}"#),
];

#[test]
fn templates_give_what_the_published_engine_gives() {
    let values = json!({
        "name": "shop", "n": 3, "f": 1.5, "yes": true, "empty": "", "list": ["b", "a", "b"],
        "map": {"b": 2, "a": {"deep": [1, "x"]}}, "big": 9_007_199_254_740_993_u64, "text": "a: 'b'\n\nc \"d\" \\",
        "null": null,
    });
    let rows: Vec<(String, String)> = serde_json::from_str(include_str!("published.json")).unwrap();
    let mut wrong = Vec::new();
    for (template, published) in &rows {
        let different = DIFFERENT.iter().find(|(row, _)| row == template);
        let expected = different.map_or(published.as_str(), |(_, ours)| *ours);
        let mut values_file = Value::Object(values.as_object().unwrap().clone()).to_string();
        values_file.push('\n');
        let pack = pack(
            "engine: {strict: false}\n",
            &[("templates/NOTES.txt", template), ("values.yaml", &values_file)],
        );
        let found = match run(&pack, &json!({})) {
            Ok(rendered) => rendered.notes.unwrap_or_default(),
            Err(error) => format!("ERROR {error}"),
        };
        if found != expected {
            wrong.push(format!("{template}\n  published: {expected:?}\n  ours:      {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
