//! What people read: the text form, the JSON form, the document.

use serde_json::json;

use super::of;
use super::random::definition;
use crate::crd::text::{Colour, text};
use crate::crd::{Definition, Kind, document, examples, token};

#[test]
fn the_text_has_entries_then_warnings_then_the_verdict() {
    let old = definition(
        &json!({"type": "object", "properties": {"config": {"type": "string", "maxLength": 512}}}),
    );
    let new = definition(&json!({"type": "object", "properties": {
        "config": {"type": "string", "maxLength": 256},
        "newField": {"type": "string", "description": "New optional field"},
    }}));
    assert_eq!(
        text(&of(&old, &new), Colour::No),
        "\
CRD Changes for widgets.example.com:

  ~ spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.config.maxLength:
      - 512
      + 256

  + spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.newField:
      description: New optional field
      type: string

  ⚠ Dangerous TightenValidation: v1 .spec.config: maxLength changed from 512 to 256

Verdict: Dangerous (1 Dangerous, 1 Safe)
"
    );
}

#[test]
fn nothing_is_said_in_a_few_words() {
    let same = definition(&json!({"type": "object"}));
    let said = text(&of(&same, &same), Colour::No);
    assert_eq!(said, "CRD Changes for widgets.example.com:\n\n  none\n\nVerdict: Safe\n");
}

#[test]
fn several_places_of_a_text_are_shown_with_the_lines_round_them() {
    let text_of = |changed: &[usize]| -> String {
        let line = |line| if changed.contains(&line) { format!("{line} new\n") } else { format!("{line}\n") };
        (0..30).map(line).collect()
    };
    let schema = |text: String| definition(&json!({"type": "object", "description": text}));
    let said = text(&of(&schema(text_of(&[])), &schema(text_of(&[5, 25]))), Colour::No);
    let wanted = "        3\n        4\n      - 5\n      + 5 new\n        6\n        7\n        … 15 equal lines\n        23\n        \
                  24\n      - 25\n      + 25 new\n        26\n        27\n";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn a_search_among_many_lines_ends() {
    let text_of = |word: &str| (0..50_000).map(|line| format!("{word} {line}\n")).collect::<String>();
    let schema = |text: String| definition(&json!({"type": "object", "description": text}));
    let said = text(&of(&schema(text_of("a")), &schema(text_of("b"))), Colour::No);
    assert!(
        said.contains("      - a 0\n") && said.contains("      - … 49960 more lines\n      + b 0\n"),
        "{said}"
    );
}

#[test]
fn a_definition_that_was_not_there_is_new() {
    let new = Definition::from_value(&definition(&json!({"type": "object"}))).unwrap();
    let said = text(&crate::crd::introduce(&new), Colour::No);
    assert_eq!(said, "CRD Changes for widgets.example.com:\n\n  + it is new\n\nVerdict: Safe\n");
}

#[test]
fn colours_are_escapes_and_nothing_else() {
    for example in examples() {
        let analysis = of(&example.old, &example.new);
        let colours = text(&analysis, Colour::Yes);
        let mut plain = String::new();
        let mut rest = colours.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            plain.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        assert_eq!(plain, text(&analysis, Colour::No));
        assert!(plain.contains(&format!("Verdict: {}", example.severity)), "{plain}");
    }
}

#[test]
fn hostile_text_commands_no_terminal() {
    let old = definition(&json!({"type": "object", "properties": {"a\u{1b}[2J": {"type": "string"}}}));
    let new = definition(&json!({"type": "object", "description": "\u{1b}]0;owned\u{7}"}));
    let said = text(&of(&old, &new), Colour::No);
    assert!(!said.contains('\u{1b}') && !said.contains('\u{7}'), "{said}");
}

#[test]
fn many_lines_are_compared_and_many_descriptions_counted() {
    let long = |word: &str| {
        (0..20)
            .map(|line| if line == 10 { format!("{word}\n") } else { format!("line {line}\n") })
            .collect::<String>()
    };
    let field = |text: String| json!({"type": "string", "description": text});
    let schema = |word: &str| {
        let fields: serde_json::Map<String, serde_json::Value> =
            (0..9).map(|index| (format!("f{index}"), field(long(word)))).collect();
        definition(&json!({"type": "object", "properties": fields}))
    };
    let said = text(&of(&schema("old"), &schema("new")), Colour::No);
    assert!(said.contains("        line 9\n      - old\n      + new\n        line 11\n"), "{said}");
    assert!(!said.contains("line 0"), "{said}");
    assert!(said.contains("  ~ 6 more titles, descriptions, examples or links\n"), "{said}");
    assert!(said.ends_with("Verdict: Safe (9 Safe)\n"), "{said}");
}

#[test]
fn the_json_has_the_promised_shape() {
    let old = definition(&json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let new = definition(&json!({"type": "object"}));
    assert_eq!(
        json!(of(&old, &new).to_json()),
        json!({"verdict": "Dangerous", "changes": [{
            "kind": "RemoveField",
            "path": "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.a",
            "severity": "Dangerous",
            "message": "v1 .spec.a: it is gone: dropped from existing objects at their next write",
        }]})
    );
}

#[test]
fn the_document_has_every_kind_with_an_example_of_every_severity() {
    let text = document();
    let text = text.split("## Where").next().unwrap();
    for kind in Kind::ALL {
        assert!(!kind.meaning().is_empty());
        let rows = text.matches(&format!("\n| {kind} | ")).count();
        assert_eq!(rows, 1 + kind.severities().len(), "{kind}");
    }
}

#[test]
fn a_digest_is_of_what_counts() {
    let old = definition(&json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}}));
    let new = definition(&json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}));
    let token = |old: &serde_json::Value, new: &serde_json::Value| {
        token(&Definition::from_value(old).unwrap(), &Definition::from_value(new).unwrap())
    };
    let one = token(&old, &new);
    let (name, digest) = one.split_once('@').unwrap();
    assert!(name == "widgets.example.com" && digest.starts_with("sha256:") && digest.len() == 71, "{one}");
    let mut live = old.clone();
    live["metadata"]["resourceVersion"] = "17".into();
    live["metadata"]["annotations"] = json!({"a": "b"});
    live["status"] =
        json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]});
    live["spec"]["conversion"] = json!({"strategy": "None"});
    live["spec"]["names"]["listKind"] = "WidgetList".into();
    assert_eq!(token(&live, &new), one, "what the server adds does not count");
    let mut other = new.clone();
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "x".into();
    assert_ne!(token(&old, &other), one, "another change");
    assert_ne!(token(&other, &new), one, "from elsewhere");
}
