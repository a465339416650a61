//! Values in a ConfigMap or Secret.

use std::sync::Arc;

use serde_json::Value;

use super::Error;
use crate::api::ValuesFrom;
use crate::cluster::{Contents, Reference, Referent};
use crate::pack::layers::Content;
use crate::pack::values;

/// The text of one key, read.
#[derive(Clone, PartialEq)]
pub enum Parsed {
    /// As an object of values.
    Values(Arc<Value>),
    /// As it is, for a path.
    Text(Arc<str>),
    /// There is no such key.
    Missing,
}

/// Reads the key that an entry of `spec.valuesFrom` names. `field` is the path of the entry.
///
/// # Errors
/// [`Error::Values`] when the text cannot be used; nothing of a Secret is quoted. A missing key is none: see [`content`].
pub fn parse(
    reference: &Reference,
    contents: &Contents,
    from: &ValuesFrom,
    field: &str,
) -> Result<Parsed, Error> {
    let wrong = |error| Error::Values { field: field.to_owned(), error };
    let what = format!("{reference}, {}", from.key);
    if contents.is_record {
        return Err(wrong(crate::pack::Error::Values { file: what, message: super::HIDDEN.to_owned() }));
    }
    let Some(bytes) = contents.get(&from.key) else { return Ok(Parsed::Missing) };
    if from.target_path.is_some() {
        let text = std::str::from_utf8(bytes).map_err(|_| {
            wrong(crate::pack::Error::Values { file: what, message: "it is not UTF-8 text".to_owned() })
        })?;
        return Ok(Parsed::Text(text.into()));
    }
    let values = match reference.kind {
        Referent::ConfigMap | Referent::ServiceAccount | Referent::Flux(_) => values::parse(bytes, &what),
        Referent::Secret => values::parse_hidden(bytes, &what),
    };
    values.map(|values| Parsed::Values(Arc::new(values))).map_err(wrong)
}

/// What an entry adds to the values; `None` when it is optional and there is nothing.
///
/// # Errors
/// [`Error::ValuesNotFound`] for a missing key, [`Error::Values`] for a path that cannot be read.
pub fn content(
    reference: &Reference,
    parsed: Parsed,
    from: &ValuesFrom,
    field: &str,
) -> Result<Option<Content>, Error> {
    match (parsed, &from.target_path) {
        (Parsed::Missing, _) if from.optional => Ok(None),
        (Parsed::Missing, _) => {
            let what = format!("the key `{}` of {reference}", from.key);
            Err(Error::ValuesNotFound { what, field: field.to_owned() })
        }
        (Parsed::Values(values), _) => Ok(Some(Content::Values(values))),
        (Parsed::Text(text), path) => {
            let path = path.as_deref().unwrap_or_default();
            let steps = values::steps(path).map_err(|why| Error::Values {
                field: format!("{field}.targetPath"),
                error: crate::pack::Error::Set { expression: path.to_owned(), why },
            })?;
            Ok(Some(Content::At(steps, text_value(&text))))
        }
    }
}

/// A text in quotes is what is between them; any other has the type that `--set` gives it. Nothing is unescaped.
fn text_value(text: &str) -> Value {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    match quoted('"').or_else(|| quoted('\'')) {
        Some(inner) => inner.into(),
        None => values::typed(text),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;
    use crate::api::ReferenceKind;

    fn from(kind: ReferenceKind, key: &str, target_path: Option<&str>, optional: bool) -> ValuesFrom {
        let target_path = target_path.map(str::to_owned);
        ValuesFrom { kind, name: "web-values".to_owned(), key: key.to_owned(), target_path, optional }
    }

    fn read(contents: &Contents, from: &ValuesFrom) -> Result<Option<Content>, Error> {
        let reference = Reference::new(from.kind, "apps", &from.name);
        let parsed = parse(&reference, contents, from, "spec.valuesFrom[1]")?;
        content(&reference, parsed, from, "spec.valuesFrom[1]")
    }

    fn contents(entries: &[(&str, &[u8])]) -> Contents {
        let mut contents = Contents::default();
        for (key, bytes) in entries {
            contents.bytes.insert((*key).to_owned(), ByteString(bytes.to_vec()));
        }
        contents
    }

    #[test]
    fn data_and_binary_data_are_read_alike() {
        let mut contents = contents(&[("binary.yaml", b"a: 0644")]);
        contents.texts.insert("values.yaml".to_owned(), "a: 0644".to_owned());
        for key in ["values.yaml", "binary.yaml"] {
            let read = read(&contents, &from(ReferenceKind::ConfigMap, key, None, false)).unwrap();
            assert_eq!(read, Some(Content::Values(Arc::new(json!({"a": 420})))), "{key}");
        }
    }

    #[test]
    fn the_text_for_a_path_is_typed_as_by_set_unless_it_is_quoted() {
        for (text, value) in [
            ("true", json!(true)),
            ("8080", json!(8080)),
            ("0123", json!("0123")),
            ("null", json!(null)),
            ("'true'", json!("true")),
            ("\"8080\"", json!("8080")),
            ("\"", json!("\"")),
            ("'a\"", json!("'a\"")),
            (r"a\,b,c={}", json!(r"a\,b,c={}")),
            ("line\n", json!("line\n")),
            ("", json!("")),
        ] {
            let contents = contents(&[("k", text.as_bytes())]);
            let read = read(&contents, &from(ReferenceKind::Secret, "k", Some(r"a.b\.c[0]"), false)).unwrap();
            let steps = values::steps(r"a.b\.c[0]").unwrap();
            assert_eq!(read, Some(Content::At(steps, value)), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_reason_and_names_object_key_field_and_line() {
        let map = |key, path, optional| from(ReferenceKind::ConfigMap, key, path, optional);
        let good = contents(&[
            ("values.yaml", b"a: 1"),
            ("bad", b"a: 1\nb: ["),
            ("list", b"- a"),
            ("binary", b"\xff"),
        ]);
        let long = contents(&[("values.yaml", &[b'#'; (1 << 20) + 1])]);
        let record = Contents { is_record: true, ..good.clone() };
        for (contents, from, reason, parts) in [
            (&good, map("none", None, false), "ValuesNotFound", &["`none`", "optional"][..]),
            (&good, map("bad", None, true), "ValuesInvalid", &["bad:2: "]),
            (&good, map("list", None, true), "ValuesNotAnObject", &["list", "a list"]),
            (&good, map("binary", None, true), "ValuesInvalid", &["binary", "UTF-8"]),
            (&good, map("binary", Some("a"), true), "ValuesInvalid", &["binary", "UTF-8"]),
            (
                &good,
                map("values.yaml", Some("a..b"), true),
                "ValuesInvalid",
                &["targetPath", "a..b", "empty"],
            ),
            (&long, map("values.yaml", None, true), "ValuesTooLarge", &["1 MiB"]),
            (&record, map("values.yaml", None, true), "ValuesInvalid", &["sherpack.io/storage-driver"]),
        ] {
            let error = read(contents, &from).unwrap_err();
            assert_eq!(error.reason(), reason, "{error}");
            let text = error.to_string();
            assert!(text.contains("spec.valuesFrom[1]"), "{text}");
            assert!(text.contains("ConfigMap apps/web-values") || text.contains("targetPath"), "{text}");
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        assert_eq!(read(&good, &map("none", None, true)).unwrap(), None);
        assert_eq!(read(&good, &map("none", Some("a"), true)).unwrap(), None);
    }

    #[test]
    fn nothing_of_a_secret_is_quoted() {
        for text in ["hunter2", "a: 1\nhunter2: 1\nhunter2: 2", "a: [hunter2", "- hunter2", "a: *hunter2"] {
            let contents = contents(&[("values.yaml", text.as_bytes())]);
            let error =
                read(&contents, &from(ReferenceKind::Secret, "values.yaml", None, false)).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
