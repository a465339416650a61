//! Where definitions of resources stand, what their policy says, and whether a server would take them.

use serde_json::Value;

use super::{Finding, Severity};
use crate::crd::policy::placement::{self, Level, Location};
use crate::crd::{self, Definition};
use crate::manifest::{self, is_definition};
use crate::pack::crds_dir::{self, Unfit};
use crate::pack::render::Rendered;
use crate::pack::{Pack, subpacks};

impl From<placement::Finding> for Finding {
    fn from(finding: placement::Finding) -> Self {
        let severity = match finding.code.level() {
            Level::Error => Severity::Error,
            Level::Warning => Severity::Warning,
            Level::Info => Severity::Info,
        };
        let (location, dependency) = match &finding.location {
            Location::CrdsDir { .. } => ("crds", None),
            Location::Templates { .. } => ("templates", None),
            Location::Dependency { pack, .. } => ("dependency", Some(pack.clone())),
        };
        Self {
            code: finding.code.name(),
            severity,
            file: finding.location.path().to_owned(),
            line: finding.location.line(),
            message: finding.message,
            location: Some(location),
            dependency,
        }
    }
}

/// Looks at the files below `crds/` of a pack and of those inside of it. Gives those for which a render would end.
pub(super) fn files(pack: &Pack, prefix: &str, findings: &mut Vec<Finding>) -> Vec<String> {
    let mut unfit = Vec::new();
    for (path, content) in pack.files.iter().filter(|(path, _)| path.starts_with("crds/")) {
        let file = format!("{prefix}{path}");
        if !crds_dir::is_read(path) {
            let message = "only files with the ending .yaml or .yml are read below crds/";
            findings.push(Finding::new("FileIgnored", Severity::Info, &file, message));
            continue;
        }
        let before = findings.len();
        match crds_dir::read(&String::from_utf8_lossy(content), &file) {
            Err(Unfit::Templated { line }) => findings.push(placement::templated(&file, line).into()),
            Err(Unfit::Yaml(error)) => findings.push(of_yaml(&error, &file)),
            Ok(documents) => {
                for document in &documents {
                    findings.extend(placement::shipped(&file, document).into_iter().map(Finding::from));
                    findings.extend(judged(&document.body, &Location::of(&file, document.line)));
                }
            }
        }
        let ends = |finding: &Finding| finding.severity == Severity::Error;
        if findings.iter().skip(before).any(ends) {
            unfit.push(file);
        }
    }
    for subpack in &pack.subpacks {
        if let Ok(inner) = &subpack.content {
            unfit.extend(files(inner, &format!("{prefix}{}/", subpack.path), findings));
        }
    }
    unfit
}

fn of_yaml(error: &manifest::Error, file: &str) -> Finding {
    let (line, message) = match error {
        manifest::Error::Yaml { line, message, .. } => (*line, message.clone()),
        other => (0, other.to_string()),
    };
    Finding { line, ..Finding::new(error.reason(), Severity::Error, file, message) }
}

/// Looks at the definitions that come from templates.
pub(super) fn rendered(pack: &Pack, rendered: &Rendered, findings: &mut Vec<Finding>) {
    let all: Vec<(&Value, &String)> = rendered.objects.iter().zip(&rendered.origins).collect();
    // The documents of one template follow one another.
    for of_file in all.chunk_by(|(_, one), (_, other)| one == other) {
        let Some((_, file)) = of_file.first() else { continue };
        let documents: Vec<&Value> = of_file.iter().map(|(document, _)| *document).collect();
        if !documents.iter().any(|document| is_definition(document)) {
            continue;
        }
        let source = subpacks::file(pack, file).map(String::from_utf8_lossy).unwrap_or_default();
        findings.extend(placement::rendered(file, &source, &documents).into_iter().map(Finding::from));
        for document in documents {
            findings.extend(judged(document, &Location::of(file, 0)));
        }
    }
}

/// What the API server would refuse of a definition, else where its versions disagree.
fn judged(document: &Value, at: &Location) -> Vec<Finding> {
    if !is_definition(document) {
        return Vec::new();
    }
    let finding = |code, severity, message: String| {
        let finding = Finding::new(code, severity, at.path(), message);
        Finding { line: at.line(), ..finding }
    };
    let definition = Definition::from_value(document)
        .and_then(|definition| crd::admissible(&definition).map(|()| definition));
    match definition {
        Err(error) => vec![finding(error.reason(), Severity::Error, error.to_string())],
        Ok(definition) => {
            let changes = crd::introduce(&definition).changes.into_iter();
            changes
                .map(|change| {
                    let message = format!("{}: {}: {}", definition.name, change.path, change.message);
                    finding(change.kind.name(), Severity::Warning, message)
                })
                .collect()
        }
    }
}
