//! The files below `crds/` of a pack: definitions of resources as they stand there, never rendered.
//!
//! Real definitions have braces in their descriptions, so braces alone make no template: what matters is whether the file is YAML as
//! it stands, and whether they stand where prose does not.

use serde_json::Value;

use crate::manifest::{self, yaml};

const FOLDER: &str = "crds/";
/// What begins something of the template language.
const SIGNS: [&str; 3] = ["{{", "{%", "{#"];
/// Keys whose texts may have braces of their own.
const PROSE: [&str; 10] = [
    "description",
    "title",
    "example",
    "default",
    "enum",
    "pattern",
    "message",
    "messageExpression",
    "rule",
    "externalDocs",
];
/// Keys of maps whose own keys are names that an author chose: `description` among them is no prose.
const NAMES: [&str; 6] =
    ["properties", "patternProperties", "definitions", "dependencies", "annotations", "labels"];

/// One document of a file below `crds/`.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Where it begins, from 1; 0 when unknown.
    pub line: u64,
    /// The document; whether it defines anything is for the caller to ask.
    pub body: Value,
}

/// Why a file below `crds/` cannot be taken as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It was meant to be rendered.
    Templated {
        /// From 1.
        line: u64,
    },
    /// It is no YAML.
    Yaml(manifest::Error),
}

/// Whether a file of a pack is one of those that are read.
#[must_use]
pub fn is_read(path: &str) -> bool {
    path.starts_with(FOLDER) && (path.ends_with(".yaml") || path.ends_with(".yml"))
}

/// The documents of a file below `crds/`, in their order. The one place that says what is taken from there.
///
/// # Errors
/// It is a template, or no YAML; `file` is for the message.
pub fn read(text: &str, file: &str) -> Result<Vec<Document>, Unfit> {
    let documents = match yaml::parse_documents(text, file) {
        Ok(documents) => documents,
        // Most templates are no YAML as they stand.
        Err(error) => {
            let code = |line: &str| !line.trim_start().starts_with('#') && has_sign(line);
            let line = text.lines().position(code);
            return Err(line.map_or(Unfit::Yaml(error), |line| Unfit::Templated { line: line as u64 + 1 }));
        }
    };
    if let Some(found) = documents.iter().find_map(|document| signed(document, false)) {
        return Err(Unfit::Templated { line: line_of(text, found) });
    }
    let starts = starts(text);
    let line = |index: usize| match starts.as_slice() {
        // Items of a list.
        [only] => *only,
        lines if lines.len() == documents.len() => lines.get(index).copied().unwrap_or(0),
        _ => 0,
    };
    let lines: Vec<u64> = (0..documents.len()).map(line).collect();
    Ok(documents.into_iter().zip(lines).map(|(body, line)| Document { line, body }).collect())
}

/// Whether a source prints or decides anything; comments of the template language do not count.
#[must_use]
pub fn is_template(source: &str) -> bool {
    source.contains("{{") || source.contains("{%")
}

fn has_sign(text: &str) -> bool {
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// The first text with a sign that stands where no prose does. `named`: the keys of this map are names.
fn signed(value: &Value, named: bool) -> Option<&str> {
    match value {
        Value::String(text) => has_sign(text).then_some(text),
        Value::Array(items) => items.iter().find_map(|item| signed(item, false)),
        Value::Object(map) => map.iter().find_map(|(key, value)| {
            if has_sign(key) {
                return Some(key.as_str());
            }
            if !named && PROSE.contains(&key.as_str()) {
                return None;
            }
            signed(value, !named && NAMES.contains(&key.as_str()))
        }),
        _ => None,
    }
}

/// The line on which a text with a sign stands, or else the first with any sign.
fn line_of(text: &str, found: &str) -> u64 {
    let begin = SIGNS.iter().filter_map(|sign| found.find(sign)).min().unwrap_or(0);
    let piece: String = found.chars().skip(found[..begin].chars().count()).take(20).collect();
    let piece = piece.lines().next().unwrap_or_default().to_owned();
    let line = text.lines().position(|line| line.contains(&piece));
    line.or_else(|| text.lines().position(has_sign)).map_or(0, |line| line as u64 + 1)
}

/// The lines on which the documents of a stream begin.
fn starts(text: &str) -> Vec<u64> {
    let mut starts = Vec::new();
    let mut fresh = true;
    for (line, content) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let marker =
            content.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        let content = match marker {
            Some(rest) => {
                fresh = true;
                rest
            }
            None => content,
        };
        let content = content.trim();
        if fresh && !content.is_empty() && !content.starts_with('#') {
            starts.push(line as u64 + 1);
            fresh = false;
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n";

    #[test]
    fn a_template_is_told_with_its_line() {
        for (text, line) in [
            (format!("{{% if values.x %}}\n{CRD}{{% endif %}}\n"), 1),
            (format!("# {{{{ a }}}}\n{CRD}metadata: {{name: a, labels: {{{{ values.labels }}}}}}\n"), 4),
            (format!("{CRD}metadata:\n  name: \"{{{{ values.name }}}}\"\n"), 4),
            (
                format!(
                    "{CRD}spec:\n  description: a {{{{ b }}}}\nmetadata:\n  annotations: {{description: '{{{{ c }}}}'}}\n"
                ),
                6,
            ),
            ("{{ values.a }}".to_owned(), 1),
            ("{# a comment #}\na: 1\n".to_owned(), 1),
        ] {
            assert_eq!(read(&text, "crds/a.yaml"), Err(Unfit::Templated { line }), "{text}");
        }
    }

    #[test]
    fn braces_of_prose_are_no_template() {
        let schema =
            |inner: &str| format!("{CRD}spec: {{versions: [{{schema: {{openAPIV3Schema: {inner}}}}}]}}\n");
        let fine = [
            "{description: 'use {{workflow.name}}'}",
            "{properties: {a: {default: '{{a}}', pattern: '^{{', enum: ['{%']}}}",
            "{x-kubernetes-validations: [{rule: 'a', message: '{{'}]}",
        ];
        for inner in fine {
            assert_eq!(read(&schema(inner), "crds/a.yaml").map(|found| found.len()), Ok(1), "{inner}");
        }
        // A field that is called so is none.
        for inner in ["{properties: {description: {type: '{{ a }}'}}}", "{properties: {'{{ a }}': {}}}"] {
            assert!(read(&schema(inner), "crds/a.yaml").is_err(), "{inner}");
        }
        let comment = format!("# {{{{ a }}}}\n{CRD}");
        assert_eq!(read(&comment, "crds/a.yaml").unwrap()[0].line, 2);
    }

    #[test]
    fn documents_have_their_lines() {
        let lines = |text: &str| -> Vec<u64> {
            read(text, "crds/a.yaml").unwrap().iter().map(|found| found.line).collect()
        };
        assert_eq!(lines("# first\n---\n\na: 1\n--- # second\nb: 1\n---\n---\nc: 1\n"), [4, 6, 9]);
        assert_eq!(lines("--- {a: 1}\n---\nb: |\n  ---\n"), [1, 3]);
        let list = "\napiVersion: v1\nkind: List\nitems: [{kind: A}, {kind: B}]\n";
        assert_eq!(lines(list), [2, 2]);
    }

    #[test]
    fn only_yaml_below_the_folder_is_read() {
        let read: Vec<&str> = ["crds/a.yaml", "crds/b/c.yml", "crds/README.md", "templates/crds/a.yaml"]
            .into_iter()
            .filter(|path| is_read(path))
            .collect();
        assert_eq!(read, ["crds/a.yaml", "crds/b/c.yml"]);
    }
}
