//! Where definitions of resources stand, and what their policy says.

use serde_json::Value;

use super::{Finding, Severity};
use crate::api::names::CRD_POLICY;
use crate::manifest::yaml;
use crate::pack::Pack;
use crate::render::Rendered;

/// Looks at the files below `crds/` of a pack and of those inside of it.
pub(super) fn files(pack: &Pack, prefix: &str, findings: &mut Vec<Finding>) {
    for (path, content) in pack.files.iter().filter(|(path, _)| path.starts_with("crds/")) {
        let file = format!("{prefix}{path}");
        if !path.ends_with(".yaml") && !path.ends_with(".yml") {
            let message = "only files with the ending .yaml or .yml are read below crds/";
            findings.push(Finding::new("FileIgnored", Severity::Info, &file, message));
            continue;
        }
        let text = String::from_utf8_lossy(content);
        if ["{{", "{%", "{#"].iter().any(|sign| text.contains(sign)) {
            let message = "files below crds/ are not templates: move it to templates/, or write it out";
            findings.push(Finding::new("TemplatedCrdInCrdsDir", Severity::Error, &file, message));
            continue;
        }
        match yaml::parse_documents(&text, &file) {
            Err(error) => {
                findings.push(Finding::new(error.reason(), Severity::Error, &file, error.to_string()));
            }
            Ok(documents) => {
                for document in &documents {
                    if is_definition(document) {
                        policy(document, &file, findings);
                    } else {
                        let message = format!(
                            "{} {} is no CustomResourceDefinition: move it to templates/",
                            text_of(&document["kind"]),
                            text_of(&document["metadata"]["name"])
                        );
                        findings.push(Finding::new("NonCrdInCrdsDir", Severity::Error, &file, message));
                    }
                }
            }
        }
    }
    for subpack in &pack.subpacks {
        if let Ok(inner) = &subpack.content {
            files(inner, &format!("{prefix}{}/", subpack.path), findings);
        }
    }
}

/// Looks at the definitions that come from templates.
pub(super) fn rendered(rendered: &Rendered, findings: &mut Vec<Finding>) {
    let all = rendered.objects.iter().zip(&rendered.origins);
    for (document, file) in all.filter(|(document, _)| is_definition(document)) {
        let name = text_of(&document["metadata"]["name"]);
        let message =
            format!("{name} is installed with the other objects; below crds/ it would come before them");
        findings.push(Finding::new("CrdInTemplates", Severity::Info, file, message));
        if policy_of(document).is_some_and(|policy| policy.eq_ignore_ascii_case("shared")) {
            let message =
                format!("{name} is shared with other releases, but depends on the values of this one");
            findings.push(Finding::new("SharedCrdInTemplates", Severity::Warning, file, message));
        }
        policy(document, file, findings);
    }
}

fn policy(document: &Value, file: &str, findings: &mut Vec<Finding>) {
    let name = text_of(&document["metadata"]["name"]);
    match policy_of(document) {
        None => {
            let message = format!("{name} has no annotation `{CRD_POLICY}`: it is managed by this release");
            findings.push(Finding::new("NoPolicyAnnotation", Severity::Info, file, message));
        }
        Some(policy) if policy.eq_ignore_ascii_case("external") => {
            let message = format!("{name} is external, so it is never applied: why is it in the pack?");
            findings.push(Finding::new("ExternalPolicyInPack", Severity::Warning, file, message));
        }
        Some(policy) if !["managed", "shared"].iter().any(|known| policy.eq_ignore_ascii_case(known)) => {
            let message = format!("{name}: the annotation `{CRD_POLICY}` is not managed, shared or external");
            findings.push(Finding::new("AnnotationInvalid", Severity::Error, file, message));
        }
        Some(_) => {}
    }
}

fn policy_of(document: &Value) -> Option<&str> {
    document["metadata"]["annotations"].get(CRD_POLICY)?.as_str()
}

fn is_definition(document: &Value) -> bool {
    let group =
        document["apiVersion"].as_str().is_some_and(|version| version.starts_with("apiextensions.k8s.io/"));
    group && document["kind"] == "CustomResourceDefinition"
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or("?").chars().take(100).collect()
}
