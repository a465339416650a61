//! Where the definitions of a pack stand, and what is wrong with that.
//!
//! What a file below `crds/` holds is for [`crds_dir`] to say, and for no other module: a render refuses what it calls unfit.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::Policy;
use crate::api::names::CRD_POLICY;
use crate::manifest::is_definition;
use crate::pack::crds_dir;

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
        let (mut rest, mut inner) = (path, None);
        while let Some((pack, below)) = rest.strip_prefix("charts/").and_then(|rest| rest.split_once('/')) {
            (rest, inner) = (below, Some(pack));
        }
        let path = path.to_owned();
        match inner {
            Some(pack) => Self::Dependency { pack: pack.to_owned(), path, line },
            None if rest.starts_with("crds/") => Self::CrdsDir { path, line },
            None => Self::Templates { path, line },
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

/// A file below `crds/` that was meant to be rendered.
#[must_use]
pub fn templated(path: &str, line: u64) -> Finding {
    let message = "files below crds/ are not rendered: move it to templates/, or write it out".to_owned();
    Finding { code: Code::TemplatedInCrdsDir, location: Location::of(path, line), message }
}

/// Looks at a document of a file below `crds/`, of the pack or of one inside.
#[must_use]
pub fn shipped(path: &str, document: &crds_dir::Document) -> Vec<Finding> {
    let location = Location::of(path, document.line);
    let mut findings = Vec::new();
    if is_definition(&document.body) {
        policy(&document.body, &location, &mut findings);
    } else {
        let called = called(&document.body);
        let message = format!("{called} is no CustomResourceDefinition: move it to templates/");
        findings.push(Finding { code: Code::NonCrdInCrdsDir, location, message });
    }
    findings
}

/// Looks at what was rendered from the template with this source; anything but definitions is fine.
#[must_use]
pub fn rendered(path: &str, source: &str, documents: &[&Value]) -> Vec<Finding> {
    let definitions: Vec<&Value> =
        documents.iter().copied().filter(|document| is_definition(document)).collect();
    let lines = source.lines().enumerate().filter(|(_, line)| line.contains("CustomResourceDefinition"));
    let lines: Vec<u64> = lines.map(|(line, _)| line as u64 + 1).collect();
    let mut findings = Vec::new();
    for (index, document) in definitions.iter().enumerate() {
        // Loops and conditions hide which is which.
        let index = if lines.len() == definitions.len() { index } else { 0 };
        let location = Location::of(path, lines.get(index).copied().unwrap_or(0));
        let name = called(document);
        let (code, message) = if crds_dir::is_template(source) {
            (
                Code::TemplatedInTemplates,
                format!(
                    "{name} depends on values: a static file below crds/ would be installed in a predictable order, be protected from \
                     accidental deletion and upgrade more clearly"
                ),
            )
        } else {
            (
                Code::StaticInTemplates,
                format!("{name} uses no value: below crds/ it would come before everything else"),
            )
        };
        findings.push(Finding { code, location: location.clone(), message });
        policy(document, &location, &mut findings);
    }
    findings
}

fn policy(document: &Value, location: &Location, findings: &mut Vec<Finding>) {
    let name = called(document);
    let (code, message) = match Policy::stated(document) {
        Ok(None) => (
            Code::MissingPolicy,
            format!("{name} has no annotation `{CRD_POLICY}`: it is managed by this release"),
        ),
        Ok(Some(Policy::External)) => (
            Code::ExternalInPack,
            format!("{name} is external, so it is never applied: why is it in the pack?"),
        ),
        Ok(Some(Policy::Managed | Policy::Shared)) => return,
        Err(found) => (
            Code::AnnotationInvalid,
            format!("{name}: the annotation `{CRD_POLICY}` is `{found}`, not managed, shared or external"),
        ),
    };
    findings.push(Finding { code, location: location.clone(), message });
}

fn called(document: &Value) -> String {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
    crate::crd::definition::shown(&format!("{} {}", text("/kind"), text("/metadata/name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n";

    fn said(findings: &[Finding]) -> Vec<(Code, String)> {
        findings.iter().map(|finding| (finding.code, finding.location.to_string())).collect()
    }

    /// Of a file below `crds/` that can be read.
    fn file(text: &str) -> Vec<Finding> {
        let documents = crds_dir::read(text, "crds/a.yaml").unwrap();
        documents.iter().flat_map(|document| shipped("crds/a.yaml", document)).collect()
    }

    fn document(text: &str) -> Value {
        crds_dir::read(text, "t").unwrap().remove(0).body
    }

    #[test]
    fn every_code_has_its_case() {
        let named = |more: &str| format!("{CRD}metadata: {{name: a.b{more}}}\n");
        let policy = |policy: &str| named(&format!(", annotations: {{sherpack.io/crd-policy: {policy}}}"));
        let rows = [
            (named(""), vec![(Code::MissingPolicy, "crds/a.yaml:1")]),
            (named(", annotations: {helm.sh/resource-policy: keep}"), vec![]),
            (policy("managed"), vec![]),
            (policy("external"), vec![(Code::ExternalInPack, "crds/a.yaml:1")]),
            (policy("mine"), vec![(Code::AnnotationInvalid, "crds/a.yaml:1")]),
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
            assert_eq!(said(&file(&text)), wanted, "{text}");
        }
        let found = templated("charts/db/crds/a.yaml", 3);
        assert_eq!(said(&[found]), [(Code::TemplatedInCrdsDir, "charts/db/crds/a.yaml:3".to_owned())]);
    }

    #[test]
    fn definitions_of_templates_are_told_apart_by_their_source() {
        let document = document(&format!("{CRD}metadata: {{name: a.b}}\n"));
        let source = format!("# {{{{ values.x }}}}\n{CRD}");
        let found = rendered("templates/_crd.yaml", &source, &[&document]);
        assert_eq!(
            said(&found),
            [
                (Code::TemplatedInTemplates, "templates/_crd.yaml:3".to_owned()),
                (Code::MissingPolicy, "templates/_crd.yaml:3".to_owned())
            ]
        );
        let source = format!("{{# of the language #}}\n{CRD}---\n{CRD}");
        let found = rendered("templates/crd.yaml", &source, &[&document, &document]);
        let wanted = [(Code::StaticInTemplates, "templates/crd.yaml:3".to_owned())];
        assert_eq!(said(&found)[..1], wanted);
        assert_eq!(found[2].location.line(), 6);
        assert_eq!(rendered("templates/a.yaml", CRD, &[&serde_json::json!({"kind": "Service"})]), []);
    }

    #[test]
    fn a_location_knows_the_dependency() {
        let dependency =
            |pack: &str, path: &str| Location::Dependency { pack: pack.into(), path: path.into(), line: 0 };
        assert_eq!(Location::of("crds/a.yaml", 3), Location::CrdsDir { path: "crds/a.yaml".into(), line: 3 });
        for path in ["templates/a.yaml", "templates/charts/crds/a.yaml"] {
            assert_eq!(Location::of(path, 0), Location::Templates { path: path.into(), line: 0 });
        }
        assert_eq!(Location::of("charts/db/crds/a.yaml", 0), dependency("db", "charts/db/crds/a.yaml"));
        let deep = "charts/db/charts/core/templates/crds/a.yaml";
        assert_eq!(Location::of(deep, 0), dependency("core", deep));
    }

    #[test]
    fn a_finding_names_the_object_of_which_it_speaks() {
        for (text, says) in [
            (format!("{CRD}metadata: {{name: a.b}}\n"), "CustomResourceDefinition a.b has no annotation"),
            (
                "kind: Service\nmetadata: {name: web}\n".to_owned(),
                "Service web is no CustomResourceDefinition",
            ),
            ("metadata: {}\n".to_owned(), "? ? is no CustomResourceDefinition"),
        ] {
            let found = file(&text);
            assert!(found[0].message.starts_with(says), "{}", found[0].message);
        }
    }
}
