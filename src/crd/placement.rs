//! Where the definitions of a pack stand, and what is wrong with that.
//!
//! Files below `crds/` are never rendered. Real definitions have braces in their descriptions, though, so braces alone make no template:
//! what matters is whether the file is YAML as it stands, and whether they stand where a description does not.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::policy::Policy;
use crate::manifest::yaml;

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

/// Where a definition comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// A file below `crds/`.
    CrdsDir {
        /// Path in the pack.
        path: String,
        /// From 1; 0 when unknown.
        line: u64,
    },
    /// Rendered from a template.
    Templates {
        /// Path in the pack.
        path: String,
        /// From 1; 0 when unknown.
        line: u64,
    },
    /// Of a pack inside, from either.
    Dependency {
        /// Name of the inner pack.
        pack: String,
        /// Path in the outer pack.
        path: String,
        /// From 1; 0 when unknown.
        line: u64,
    },
}

impl Location {
    /// Where a file of a pack stands: `charts/db/crds/a.yaml` is of the dependency `db`.
    #[must_use]
    pub fn of(path: &str, line: u64) -> Self {
        let (path_text, line) = (path.to_owned(), line);
        // The innermost pack.
        if let Some((before, _)) = path.rsplit_once("/crds/").or_else(|| path.rsplit_once("/templates/"))
            && let Some(pack) = before.rsplit('/').next()
            && before.contains("charts/")
        {
            return Self::Dependency { pack: pack.to_owned(), path: path_text, line };
        }
        if path.starts_with("crds/") {
            Self::CrdsDir { path: path_text, line }
        } else {
            Self::Templates { path: path_text, line }
        }
    }

    /// Path in the outermost pack.
    #[must_use]
    pub fn path(&self) -> &str {
        let (Self::CrdsDir { path, .. } | Self::Templates { path, .. } | Self::Dependency { path, .. }) =
            self;
        path
    }

    /// From 1; 0 when unknown.
    #[must_use]
    pub fn line(&self) -> u64 {
        let (Self::CrdsDir { line, .. } | Self::Templates { line, .. } | Self::Dependency { line, .. }) =
            self;
        *line
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line() {
            0 => f.write_str(self.path()),
            line => write!(f, "{}:{line}", self.path()),
        }
    }
}

/// What is found. The names are shown to users and stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Code {
    /// A file below `crds/` needs rendering, which does not happen there.
    TemplatedInCrdsDir,
    /// A file below `crds/` has something else.
    NonCrdInCrdsDir,
    /// A template gives a definition without using any value.
    StaticInTemplates,
    /// A definition depends on values.
    TemplatedInTemplates,
    /// A definition says nothing of its policy.
    MissingPolicy,
    /// A definition that is never applied is shipped.
    ExternalInPack,
    /// The policy is none.
    AnnotationInvalid,
}

impl Code {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TemplatedInCrdsDir => "TemplatedInCrdsDir",
            Self::NonCrdInCrdsDir => "NonCrdInCrdsDir",
            Self::StaticInTemplates => "StaticInTemplates",
            Self::TemplatedInTemplates => "TemplatedInTemplates",
            Self::MissingPolicy => "MissingPolicy",
            Self::ExternalInPack => "ExternalInPack",
            Self::AnnotationInvalid => "AnnotationInvalid",
        }
    }

    /// How bad it is: with an error the release is refused.
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            Self::TemplatedInCrdsDir | Self::NonCrdInCrdsDir | Self::AnnotationInvalid => Level::Error,
            Self::StaticInTemplates | Self::TemplatedInTemplates | Self::ExternalInPack => Level::Warning,
            Self::MissingPolicy => Level::Info,
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// The operator refuses it.
    Error,
    /// It is probably not meant.
    Warning,
    /// Worth knowing.
    Info,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub code: Code,
    /// Where.
    pub location: Location,
    /// What to do.
    pub message: String,
}

/// Looks at a file below `crds/`, of the pack or of one inside.
///
/// A file that is not YAML and has no sign of a template is the parser's to report.
#[must_use]
pub fn file(path: &str, text: &str) -> Vec<Finding> {
    let documents = yaml::parse_documents(text, path);
    if let Some(line) = templated(text, documents.as_deref().ok()) {
        let message = "files below crds/ are not rendered: move it to templates/, or write it out".to_owned();
        return vec![Finding { code: Code::TemplatedInCrdsDir, location: Location::of(path, line), message }];
    }
    let mut findings = Vec::new();
    let starts = starts(text);
    for (index, document) in documents.unwrap_or_default().iter().enumerate() {
        let location = Location::of(path, starts.get(index).copied().unwrap_or(0));
        if is_definition(document) {
            policy(document, &location, &mut findings);
        } else {
            let message =
                format!("{} is no CustomResourceDefinition: move it to templates/", called(document));
            findings.push(Finding { code: Code::NonCrdInCrdsDir, location, message });
        }
    }
    findings
}

/// Looks at an object that was rendered from a template with this source; anything but a definition is fine.
#[must_use]
pub fn rendered(path: &str, source: &str, document: &Value) -> Vec<Finding> {
    if !is_definition(document) {
        return Vec::new();
    }
    let line = source
        .lines()
        .position(|line| line.contains("CustomResourceDefinition"))
        .map_or(0, |line| line as u64 + 1);
    let location = Location::of(path, line);
    let name = called(document);
    let (code, message) = if SIGNS.iter().any(|sign| source.contains(sign)) {
        (
            Code::TemplatedInTemplates,
            format!(
                "{name} depends on values: as a static file below crds/ it would come first in a predictable order, and survive an upgrade with other values"
            ),
        )
    } else {
        (
            Code::StaticInTemplates,
            format!("{name} uses no value: below crds/ it would come before everything else"),
        )
    };
    let mut findings = vec![Finding { code, location: location.clone(), message }];
    policy(document, &location, &mut findings);
    findings
}

fn policy(document: &Value, location: &Location, findings: &mut Vec<Finding>) {
    let name = called(document);
    let (code, message) = match Policy::stated(document) {
        Ok(None) => (
            Code::MissingPolicy,
            format!("{name} has no annotation `sherpack.io/crd-policy`: it is managed by this release"),
        ),
        Ok(Some(Policy::External)) => (
            Code::ExternalInPack,
            format!("{name} is external, so it is never applied: why is it in the pack?"),
        ),
        Ok(Some(Policy::Managed | Policy::Shared)) => return,
        Err(found) => (
            Code::AnnotationInvalid,
            format!(
                "{name}: the annotation `sherpack.io/crd-policy` is `{found}`, not managed, shared or external"
            ),
        ),
    };
    findings.push(Finding { code, location: location.clone(), message });
}

/// Whether an object defines a kind.
#[must_use]
pub fn is_definition(document: &Value) -> bool {
    let api = document.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    api.starts_with("apiextensions.k8s.io/")
        && document.get("kind").is_some_and(|kind| kind == "CustomResourceDefinition")
}

fn called(document: &Value) -> String {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
    super::definition::shown(&format!("{} {}", text("/kind"), text("/metadata/name")))
}

/// The line of the first sign of a template, if the file is one.
fn templated(text: &str, documents: Option<&[Value]>) -> Option<u64> {
    let has_sign = |line: &str| SIGNS.iter().any(|sign| line.contains(sign));
    let code = |line: &str| !line.trim_start().starts_with('#') && has_sign(line);
    let first = text.lines().position(code)? as u64 + 1;
    let is_template = match documents {
        None => true,
        Some(documents) => documents.iter().any(signed),
    };
    is_template.then_some(first)
}

/// Whether there are signs where no prose stands.
fn signed(value: &Value) -> bool {
    let has_sign = |text: &str| SIGNS.iter().any(|sign| text.contains(sign));
    match value {
        Value::String(text) => has_sign(text),
        Value::Array(items) => items.iter().any(signed),
        Value::Object(map) => map.iter().any(|(key, value)| {
            has_sign(key) || (!(PROSE.contains(&key.as_str()) && is_prose(value)) && signed(value))
        }),
        _ => false,
    }
}

/// A field of a schema may be called `description`, too; then it is a schema.
fn is_prose(value: &Value) -> bool {
    value.get("type").is_none()
}

/// The lines on which the documents of a stream begin.
fn starts(text: &str) -> Vec<u64> {
    let mut starts = Vec::new();
    let mut fresh = true;
    for (line, content) in text.lines().enumerate() {
        if content == "---" || content.starts_with("--- ") {
            fresh = true;
        } else if fresh && !content.trim().is_empty() && !content.trim_start().starts_with('#') {
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

    fn said(findings: &[Finding]) -> Vec<(Code, String)> {
        findings.iter().map(|finding| (finding.code, finding.location.to_string())).collect()
    }

    #[test]
    fn every_code_has_its_case() {
        let named = |more: &str| format!("{CRD}metadata: {{name: a.b{more}}}\n");
        let policy = |policy: &str| named(&format!(", annotations: {{sherpack.io/crd-policy: {policy}}}"));
        let rows = [
            (named(""), vec![(Code::MissingPolicy, "crds/a.yaml:1")]),
            (policy("managed"), vec![]),
            (policy("external"), vec![(Code::ExternalInPack, "crds/a.yaml:1")]),
            (policy("mine"), vec![(Code::AnnotationInvalid, "crds/a.yaml:1")]),
            (named(", labels: {{ values.labels }}"), vec![(Code::TemplatedInCrdsDir, "crds/a.yaml:3")]),
            (
                format!("{CRD}metadata:\n  name: \"{{{{ values.name }}}}\"\n"),
                vec![(Code::TemplatedInCrdsDir, "crds/a.yaml:4")],
            ),
            (
                format!("{{% if values.x %}}\n{CRD}{{% endif %}}\n"),
                vec![(Code::TemplatedInCrdsDir, "crds/a.yaml:1")],
            ),
            (
                format!(
                    "# first\n---\n{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: a}}\n",
                    policy("shared")
                ),
                vec![(Code::NonCrdInCrdsDir, "crds/a.yaml:7")],
            ),
        ];
        for (text, wanted) in rows {
            let wanted: Vec<(Code, String)> =
                wanted.into_iter().map(|(code, place)| (code, place.to_owned())).collect();
            assert_eq!(said(&file("crds/a.yaml", &text)), wanted, "{text}");
        }
    }

    #[test]
    fn braces_of_a_description_are_no_template() {
        let text = format!(
            "{CRD}metadata: {{name: a.b, annotations: {{helm.sh/resource-policy: keep}}}}\n# {{{{ a comment }}}}\nspec:\n  \
             versions:\n  - schema:\n      openAPIV3Schema:\n        description: use {{{{workflow.name}}}} here\n"
        );
        assert_eq!(said(&file("crds/a.yaml", &text)), []);
        // A field of that name is none.
        let text = text.replace("description: use", "properties:\n          description: {type: object, title: x, x: \"{{ y }}\"}\n        title: use");
        assert_eq!(file("crds/a.yaml", &text)[0].code, Code::TemplatedInCrdsDir);
    }

    #[test]
    fn definitions_of_templates_are_told_apart_by_their_source() {
        let document =
            yaml::parse_documents(&format!("{CRD}metadata: {{name: a.b}}\n"), "t").unwrap().remove(0);
        let source = format!("# {{{{ values.x }}}}\n{CRD}");
        let found = rendered("templates/_crd.yaml", &source, &document);
        assert_eq!(
            said(&found),
            [
                (Code::TemplatedInTemplates, "templates/_crd.yaml:3".to_owned()),
                (Code::MissingPolicy, "templates/_crd.yaml:3".to_owned())
            ]
        );
        assert_eq!(rendered("templates/crd.yaml", CRD, &document)[0].code, Code::StaticInTemplates);
        assert_eq!(rendered("templates/a.yaml", CRD, &serde_json::json!({"kind": "Service"})), []);
    }

    #[test]
    fn a_location_knows_the_dependency() {
        let dependency =
            |pack: &str, path: &str| Location::Dependency { pack: pack.into(), path: path.into(), line: 0 };
        assert_eq!(Location::of("crds/a.yaml", 3), Location::CrdsDir { path: "crds/a.yaml".into(), line: 3 });
        assert_eq!(
            Location::of("templates/a.yaml", 0),
            Location::Templates { path: "templates/a.yaml".into(), line: 0 }
        );
        assert_eq!(Location::of("charts/db/crds/a.yaml", 0), dependency("db", "charts/db/crds/a.yaml"));
        let deep = "charts/db/charts/core/templates/x/a.yaml";
        assert_eq!(Location::of(deep, 0), dependency("core", deep));
    }
}
