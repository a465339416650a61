//! The files below `crds/` of a pack: definitions of resources as they stand there, never rendered.

use serde_json::Value;

use crate::manifest::is_definition;
use crate::pack::Pack;
use crate::pack::crds_dir::{self, Unfit};
use crate::pack::render::{Error, Shipped};

/// All definitions below `crds/` of a pack, but not of those inside of it, in the order of the files.
///
/// # Errors
/// Templates, what is not YAML, and documents that define nothing.
pub(super) fn of(pack: &Pack, folder: &str) -> Result<Vec<Shipped>, Error> {
    let mut found = Vec::new();
    for (path, content) in pack.files.iter().filter(|(path, _)| crds_dir::is_read(path)) {
        let file = format!("{folder}{path}");
        let documents =
            crds_dir::read(&String::from_utf8_lossy(content), &file).map_err(|unfit| match unfit {
                Unfit::Templated { line } => Error::TemplatedDefinition { file: file.clone(), line },
                Unfit::Yaml(error) => Error::DefinitionFile(error),
            })?;
        for crds_dir::Document { line, body } in documents {
            if !is_definition(&body) {
                return Err(Error::NotADefinition { file, line, found: called(&body) });
            }
            found.push(Shipped { file: file.clone(), body });
        }
    }
    Ok(found)
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
