//! What users read about kinds of change, made of the code itself.

use std::fmt::Write as _;

use serde_json::Value;

use crate::crd::{Change, Definition, Kind, Severity, analyze, examples};

/// Where Sherpack's own documents or its published code say something else, and why it is not said here.
const OTHERWISE: &[(&str, &str, &str, &str)] = &[
    (
        "number of kinds",
        "24",
        "as listed above",
        "the published code has 25 names, of which one cannot occur, and no name for most changes",
    ),
    (
        "changed validation",
        "Warning, applied",
        "Dangerous when tightened, Safe when relaxed",
        "a tightened bound refuses objects that exist; with evidence that none is concerned it is a Warning",
    ),
    (
        "AddDefault",
        "Safe",
        "Warning",
        "existing objects change as they are read, and that can flip behaviour",
    ),
    (
        "RemoveDefault",
        "not reported",
        "Warning, or Dangerous for a required field",
        "objects that never had a value change, or are refused",
    ),
    (
        "AddSubresource",
        "Safe",
        "Warning for status",
        "ordinary writes of older clients no longer change the status",
    ),
    (
        "AddRequiredField, MakeRequired",
        "Warning, applied",
        "Dangerous, or Safe with a default",
        "no unchanged value excuses an object that lacks the field",
    ),
    (
        "AddVersion",
        "Safe",
        "Safe, with LossyVersion beside it where it loses something",
        "without a webhook every object goes through the stored version, and what that lacks is dropped",
    ),
    (
        "RemoveVersion",
        "Dangerous",
        "Blocked when stored, Dangerous when served, else Warning",
        "the API server refuses to lose a stored version, and no client uses one that was never served",
    ),
    (
        "a version that is no longer served",
        "not reported",
        "Dangerous",
        "its clients fail as if it were removed",
    ),
    (
        "ChangeGroup, ChangeScope, ChangeKindName",
        "Dangerous, may be forced",
        "Blocked",
        "the API server refuses them under every strategy",
    ),
    (
        "plural, singular, kind of the list, short names, categories that go",
        "not reported",
        "Blocked or Warning",
        "clients use them",
    ),
    (
        "ChangeStorageVersion",
        "Dangerous",
        "Warning, or Dangerous when something is lost",
        "it is a step of every migration",
    ),
    (
        "ChangeFieldType",
        "Dangerous",
        "Warning when everything valid stays valid",
        "integer to number, or to int-or-string, refuses nothing",
    ),
    (
        "ChangeEnumValues",
        "Warning, but never found",
        "AddEnumValue, a Warning, and RemoveEnumValue, Dangerous",
        "the directions differ",
    ),
    (
        "conversion",
        "Warning, but not found",
        "Warning, or Dangerous when a webhook goes while versions are in use",
        "nothing translates what is stored any more",
    ),
    ("removed printer column", "Dangerous, but not found", "Warning", "only what is printed changes"),
    (
        "lists and maps, unknown fields, embedded objects, null, CEL rules, allOf, anyOf, oneOf, not",
        "not reported",
        "each has its kind",
        "they refuse or drop data like everything else",
    ),
];

/// Markdown: severities, all kinds with their rules, an example of each, and what other documents say otherwise.
#[must_use]
pub fn document() -> String {
    let mut out = String::from(
        "# Changes of CustomResourceDefinitions\n\n## Severities\n\n| Severity | Meaning | Strategy Safe |\n|---|---|---|\n",
    );
    let severities = [
        (Severity::Safe, "nothing that exists can notice, or it can only gain", "applied"),
        (
            Severity::Warning,
            "something may notice; nothing is lost or refused by it alone",
            "applied and reported",
        ),
        (
            Severity::Dangerous,
            "data can be lost, or what was fine is refused",
            "stops, until it is confirmed or forced",
        ),
        (Severity::Blocked, "the API server refuses it", "stops, whatever the strategy"),
    ];
    // Writing to a String cannot fail.
    for (severity, meaning, safe) in severities {
        let _ = writeln!(out, "| {severity} | {meaning} | {safe} |");
    }
    let _ = writeln!(
        out,
        "\n## Kinds\n\nThere are {}.\n\n| Kind | Severity | Meaning | Rule |\n|---|---|---|---|",
        Kind::ALL.len()
    );
    for kind in Kind::ALL {
        let severities: Vec<&str> = kind.severities().iter().map(|severity| severity.name()).collect();
        let _ =
            writeln!(out, "| {kind} | {} | {} | {} |", severities.join(", "), kind.meaning(), kind.rule());
    }
    out.push_str("\n## Examples\n\n| Kind | Severity | Path | Before | After |\n|---|---|---|---|---|\n");
    for example in examples() {
        let (Ok(old), Ok(new)) = (Definition::from_value(&example.old), Definition::from_value(&example.new))
        else {
            continue;
        };
        let analysis = analyze(&old, &new);
        let wanted = |change: &&Change| (change.kind, change.severity) == (example.kind, example.severity);
        if let Some(change) = analysis.changes.iter().find(wanted) {
            let cell = |value: &Option<Value>| {
                value.as_ref().map_or_else(String::new, |value| format!("`{}`", escaped(&value.to_string())))
            };
            let (path, old, new) = (escaped(&change.path), cell(&change.old), cell(&change.new));
            let _ = writeln!(out, "| {} | {} | `{path}` | {old} | {new} |", example.kind, example.severity);
        }
    }
    out.push_str("\n## Where Sherpack's documents or published code say otherwise\n\n| What | There | Here | Why |\n|---|---|---|---|\n");
    for (what, there, here, why) in OTHERWISE {
        let _ = writeln!(out, "| {what} | {there} | {here} | {why} |");
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('`', "'")
}
