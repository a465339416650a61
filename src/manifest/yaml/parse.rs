use serde_json::{Number, Value};
use serde_saphyr::UserMessageFormatter;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::direct;
use super::limits::{MAX_DEPTH, MAX_DOCUMENTS};
use crate::manifest::{Error, object::is_list};

/// Scalars, lists and maps of one stream. Bounds the memory of the result to some hundred bytes for each.
pub(super) const MAX_NODES: usize = 300_000;
/// The same for a stream that a person reads with own hands, such as all objects of a namespace.
const MAX_LENIENT_NODES: usize = 500_000;
/// The same for a text of one document: it is read before anybody has paid for it.
const MAX_VALUE_NODES: usize = 50_000;
/// Nodes that aliases may add. A bomb of nested aliases ends here; honest manifests use a handful.
const MAX_ALIAS_EVENTS: usize = 100_000;

/// Reads a stream of manifests: one value per document that is not empty; the items of a `List` (or of a typed
/// list such as `ConfigMapList`) take its place.
///
/// Scalars follow YAML 1.1 as the tools of Kubernetes do (`0644` is 420, `yes` is true) and whole floats
/// become integers, as their way through JSON makes them. One difference is meant: a repeated key is an error
/// and not "the last one wins".
///
/// # Errors
/// With `file` and the line in the stream; also for documents that are no objects.
pub fn parse_documents(text: &str, file: &str) -> Result<Vec<Value>, Error> {
    objects(documents(text, file, DuplicateKeyPolicy::Error, MAX_NODES)?, file)
}

/// As [`parse_documents`], but the last of repeated keys wins, as for `kubectl`: for objects that are only looked at.
///
/// # Errors
/// With `file` and the line in the stream; also for documents that are no objects.
pub fn parse_lenient(text: &str, file: &str) -> Result<Vec<Value>, Error> {
    objects(documents(text, file, DuplicateKeyPolicy::LastWins, MAX_LENIENT_NODES)?, file)
}

/// Reads a text of at most one document under the same rules: values files, `Pack.yaml`. An empty text is null.
/// Floats stay floats: a template prints `1.0` as it was written.
///
/// # Errors
/// With `file` and line; also for a second document.
pub fn parse_value(text: &str, file: &str) -> Result<Value, Error> {
    let mut documents = documents(text, file, DuplicateKeyPolicy::Error, MAX_VALUE_NODES)?;
    if documents.len() > 1 {
        return Err(Error::Yaml {
            file: file.to_owned(),
            line: 0,
            column: 0,
            message: format!("one document is expected, there are {}", documents.len()),
        });
    }
    Ok(documents.pop().unwrap_or_default())
}

fn documents(
    text: &str,
    file: &str,
    duplicates: DuplicateKeyPolicy,
    max_nodes: usize,
) -> Result<Vec<Value>, Error> {
    // Kubernetes' tools skip a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match direct::read(text, max_nodes) {
        Some(documents) => Ok(documents),
        None => carefully(text, file, duplicates, max_nodes),
    }
}

/// Reads all of YAML that is read here, and finds the words for what is not.
pub(super) fn carefully(
    text: &str,
    file: &str,
    duplicates: DuplicateKeyPolicy,
    max_nodes: usize,
) -> Result<Vec<Value>, Error> {
    let mut limits = serde_saphyr::options::AliasLimits::default();
    limits.max_total_replayed_events = MAX_ALIAS_EVENTS.min(max_nodes);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: MAX_DOCUMENTS,
            max_nodes: max_nodes,
            max_events: 4 * max_nodes,
        },
        alias_limits: limits,
        duplicate_keys: duplicates,
        legacy_octal_numbers: true,
        strict_booleans: false,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::Reject,
        emit_comments: false,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let location = error.location();
        Error::Yaml {
            file: file.to_owned(),
            line: location.map_or(0, |at| at.line()),
            column: location.map_or(0, |at| at.column()),
            message: without_location(&error.render_with_formatter(&UserMessageFormatter)),
        }
    })
}

/// `1.0` is the integer 1 for a reader that goes through JSON as Go writes it.
fn whole_floats_to_integers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                // Beyond 2^53 the float was not exact in the first place.
                && float.abs() <= 9_007_199_254_740_992.0
            {
                *number = Number::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_floats_to_integers),
        Value::Object(map) => map.values_mut().for_each(whole_floats_to_integers),
        _ => {}
    }
}

/// The parser ends its messages with the place, which we put in front.
fn without_location(message: &str) -> String {
    message.find(" at line ").map_or(message, |end| &message[..end]).to_owned()
}

fn objects(documents: Vec<Value>, file: &str) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    for (i, mut document) in documents.into_iter().enumerate() {
        whole_floats_to_integers(&mut document);
        flatten(document, file, i + 1, &mut objects)?;
    }
    Ok(objects)
}

fn flatten(document: Value, file: &str, index: usize, objects: &mut Vec<Value>) -> Result<(), Error> {
    let found = match &document {
        Value::Object(map) => {
            if is_list(&document) {
                let Some(Value::Array(items)) = map.get("items") else {
                    // A `List` without items says nothing.
                    return Ok(());
                };
                for item in items.clone() {
                    flatten(item, file, index, objects)?;
                }
            } else {
                objects.push(document);
            }
            return Ok(());
        }
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    Err(Error::NotAnObject { file: file.to_owned(), index, found })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Value {
        let mut documents = parse_documents(text, "t.yaml").unwrap();
        assert_eq!(documents.len(), 1, "{text}");
        documents.remove(0)
    }

    #[test]
    fn scalars_mean_what_kubectl_takes_them_for() {
        let rows = [
            ("a: 0644", json!(420)),
            ("a: 0o14", json!(12)),
            ("a: 0x1F", json!(31)),
            ("a: 0b101", json!(5)),
            ("a: yes", json!(true)),
            ("a: on", json!(true)),
            ("a: y", json!(true)),
            ("a: off", json!(false)),
            ("a: 'yes'", json!("yes")),
            ("a: 1_000", json!(1000)),
            ("a: 1e3", json!(1000)),
            ("a: 1.0", json!(1)),
            ("a: 1.10", json!(1.1)),
            ("a: ~", json!(null)),
            ("a:", json!(null)),
            ("a: null", json!(null)),
            ("a: !!str 5", json!("5")),
            ("a: !!binary aGVsbG8=", json!("hello")),
            ("a: 18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("a: -9223372036854775808", json!(i64::MIN)),
            ("a: 1.2.3", json!("1.2.3")),
            ("a: 2024-01-01", json!("2024-01-01")),
            ("a: \"0644\"", json!("0644")),
            ("a: |\n  x\n  y\n", json!("x\ny\n")),
        ];
        for (text, value) in rows {
            assert_eq!(one(text)["a"], value, "{text}");
        }
    }

    #[test]
    fn keys_are_strings_whatever_they_look_like() {
        assert_eq!(one("1: a\n0644: b\n"), json!({"1": "a", "0644": "b"}));
    }

    #[test]
    fn merge_keys_and_aliases_are_resolved() {
        let text = "base: &b {x: 1, y: 2}\nover: {<<: *b, y: 3}\nsame: *b\n";
        assert_eq!(
            one(text),
            json!({"base": {"x": 1, "y": 2}, "over": {"x": 1, "y": 3}, "same": {"x": 1, "y": 2}})
        );
    }

    #[test]
    fn a_repeated_key_is_an_error_with_its_line() {
        let error = parse_documents("a: 1\n---\nb: 1\nc: 2\nb: 3\n", "t.yaml").unwrap_err();
        assert_eq!(error.to_string(), "t.yaml:5:1: duplicate mapping key `b` is not allowed here");
        let lenient = parse_lenient("b: 1\nb: 3\n", "t.yaml").unwrap();
        assert_eq!(lenient, vec![json!({"b": 3})], "an object that is only looked at");
        assert_eq!(error.reason(), "InvalidYaml");
    }

    #[test]
    fn a_syntax_error_names_the_line_of_the_stream() {
        let error = parse_documents("a: 1\n---\nb: [1\n---\nc: 1\n", "t.yaml").unwrap_err();
        let Error::Yaml { line, .. } = &error else { panic!("{error}") };
        assert!((3..=4).contains(line), "{error}");
    }

    #[test]
    fn a_certificate_is_not_a_document_border() {
        let text =
            "a: |\n  -----BEGIN CERTIFICATE-----\n  x\n  -----END CERTIFICATE-----\nb: a --- b\n---\nc: 1\n";
        let documents = parse_documents(text, "t.yaml").unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0]["a"], "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n");
        assert_eq!(documents[0]["b"], "a --- b");
    }

    #[test]
    fn empty_documents_are_skipped() {
        let text = "# only a comment\n---\n---\n# another\n---\na: 1\n---\nnull\n---\n";
        assert_eq!(parse_documents(text, "t.yaml").unwrap(), vec![json!({"a": 1})]);
        assert_eq!(parse_documents("", "t.yaml").unwrap(), Vec::<Value>::new());
        assert_eq!(parse_documents("\u{feff}a: 1", "t.yaml").unwrap(), vec![json!({"a": 1})]);
    }

    #[test]
    fn a_list_stands_for_its_items() {
        let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- apiVersion: v1
  kind: ConfigMapList
  items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
{apiVersion: v1, kind: List}
---
{apiVersion: x.io/v1, kind: AllowList, metadata: {name: c}, items: []}
";
        let names: Vec<_> = parse_documents(text, "t.yaml")
            .unwrap()
            .iter()
            .map(|d| d["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn a_document_that_is_no_object_is_refused_by_number() {
        for (text, found) in
            [("hello", "a string"), ("- a", "a list"), ("5", "a number"), ("yes", "a boolean")]
        {
            let error = parse_documents(&format!("a: 1\n---\n{text}\n"), "t.yaml").unwrap_err();
            assert!(error.to_string().contains(&format!("document 2 is {found}")), "{error}");
        }
    }

    #[test]
    fn an_alias_bomb_ends_early() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..12 {
            let p = i - 1;
            let aliases = vec![format!("*a{p}"); 10].join(", ");
            text.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
        }
        assert!(parse_documents(&text, "bomb.yaml").is_err());
    }

    #[test]
    fn too_deep_a_nesting_is_an_error_and_not_a_crash() {
        for text in [
            format!("a: {}", "[".repeat(20_000)),
            "- ".repeat(20_000),
            format!("a: {}1{}", "{b: ".repeat(200), "}".repeat(200)),
        ] {
            assert!(parse_documents(&text, "deep.yaml").is_err());
        }
        let deep = format!("a: {}1{}", "{b: ".repeat(60), "}".repeat(60));
        assert!(parse_documents(&deep, "deep.yaml").is_ok());
    }

    #[test]
    fn infinity_has_no_json_and_is_an_error() {
        assert!(parse_documents("a: .inf", "t.yaml").is_err());
        assert!(parse_documents("a: .nan", "t.yaml").is_err());
    }

    #[test]
    fn a_single_value_may_be_empty_but_not_two() {
        assert_eq!(parse_value("# nothing\n", "values.yaml").unwrap(), Value::Null);
        assert_eq!(parse_value("a: [1]", "values.yaml").unwrap(), json!({"a": [1]}));
        assert!(parse_value("a: 1\n---\nb: 1\n", "values.yaml").is_err());
    }
}
