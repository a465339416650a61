//! The files below `crds/` of a pack: definitions of resources as they stand there, never rendered.

use serde_json::Value;

use super::{Error, Shipped};
use crate::manifest::{ObjectId, group_of, yaml};
use crate::pack::Pack;

const FOLDER: &str = "crds/";
const SIGNS: [&str; 3] = ["{{", "{%", "{#"];

/// All definitions below `crds/` of a pack, but not of those inside of it, in the order of the files.
///
/// # Errors
/// Templates, what is not YAML, and documents that define nothing.
pub(super) fn of(pack: &Pack, folder: &str) -> Result<Vec<Shipped>, Error> {
    let mut found = Vec::new();
    for (path, content) in pack.files.iter().filter(|(path, _)| is_read(path)) {
        let file = format!("{folder}{path}");
        let text = String::from_utf8_lossy(content);
        let documents = match yaml::parse_documents(&text, &file) {
            Ok(documents) => documents,
            // Most templates are no YAML as they stand.
            Err(_) if SIGNS.iter().any(|sign| text.contains(sign)) => return Err(templated(&file, &text)),
            Err(error) => return Err(Error::DefinitionFile(error)),
        };
        for body in documents {
            if !is_definition(&body) {
                return Err(Error::NotADefinition { file, found: called(&body) });
            }
            if is_templated(&body) {
                return Err(templated(&file, &text));
            }
            found.push(Shipped { file: file.clone(), body });
        }
    }
    Ok(found)
}

/// Whether a file below `crds/` is read at all.
#[must_use]
pub fn is_read(path: &str) -> bool {
    path.starts_with(FOLDER) && (path.ends_with(".yaml") || path.ends_with(".yml"))
}

/// Whether a document is a CustomResourceDefinition, of whatever version.
#[must_use]
pub fn is_definition(body: &Value) -> bool {
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
    let id = ObjectId { kind: text("kind").to_owned(), ..ObjectId::default() };
    ObjectId { group: group_of(text("apiVersion")).to_owned(), ..id }.is_definition()
}

/// Whether a definition was meant to be rendered. In its schemas such signs are texts: descriptions and patterns of real
/// definitions are full of them.
#[must_use]
pub fn is_templated(body: &Value) -> bool {
    match body {
        Value::String(text) => SIGNS.iter().any(|sign| text.contains(sign)),
        Value::Array(items) => items.iter().any(is_templated),
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            SIGNS.iter().any(|sign| name.contains(sign)) || (name != "schema" && is_templated(value))
        }),
        _ => false,
    }
}

fn templated(file: &str, text: &str) -> Error {
    let line = text.lines().position(|line| SIGNS.iter().any(|sign| line.contains(sign)));
    Error::TemplatedDefinition { file: file.to_owned(), line: line.map_or(0, |line| line + 1) }
}

fn called(body: &Value) -> String {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
    format!("{}/{}", text("/kind"), text("/metadata/name")).chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pack::{Files, Limits, from_files};

    const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\n";

    fn pack(files: &[(&str, &str)]) -> Pack {
        let pack = ("Pack.yaml", "apiVersion: sherpack/v1\nmetadata: {name: a, version: 1.0.0}\n");
        let files = std::iter::once(&pack).chain(files);
        let files: Files = files.map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
        from_files(files, &Limits::default()).unwrap()
    }

    #[test]
    fn files_are_read_in_their_order() {
        let gadgets = WIDGETS.replace("widgets", "gadgets");
        let pack =
            pack(&[("crds/b/b.yml", WIDGETS), ("crds/a.yaml", &gadgets), ("crds/README.md", "# {{ x }}")]);
        let found = of(&pack, "charts/db/").unwrap();
        let found: Vec<_> = found.iter().map(|one| (&*one.file, &one.body["metadata"]["name"])).collect();
        let wanted = [
            ("charts/db/crds/a.yaml", &json!("gadgets.example.com")),
            ("charts/db/crds/b/b.yml", &json!("widgets.example.com")),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_template_is_refused_with_its_line() {
        let in_if = format!("{{% if values.x %}}\n{WIDGETS}{{% endif %}}\n");
        let in_name = WIDGETS.replace("widgets", "\"{{ values.name }}\"");
        let quoted = WIDGETS.replace("widgets.example.com", "\"{{ values.name }}.example.com\"");
        for (text, line) in [(&in_if, 1), (&in_name, 3), (&quoted, 3)] {
            let error = of(&pack(&[("crds/a.yaml", text)]), "").unwrap_err();
            assert_eq!(error, Error::TemplatedDefinition { file: "crds/a.yaml".to_owned(), line });
        }
    }

    #[test]
    fn signs_of_templates_in_a_schema_are_texts() {
        let text = format!(
            "{WIDGETS}spec: {{versions: [{{name: v1, schema: {{description: 'such as {{{{ .Value }}}}'}}}}]}}\n"
        );
        assert_eq!(of(&pack(&[("crds/a.yaml", &text)]), "").unwrap().len(), 1);
    }

    #[test]
    fn what_defines_nothing_and_what_is_no_yaml_is_refused() {
        let other = of(&pack(&[("crds/a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")]), "");
        assert!(other.unwrap_err().to_string().contains("Secret/s"));
        let broken = of(&pack(&[("crds/a.yaml", "a: [b")]), "").unwrap_err().to_string();
        assert!(broken.contains("crds/a.yaml"), "{broken}");
    }
}
