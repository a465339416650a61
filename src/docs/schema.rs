//! `api.md`, from the schema of the CustomResourceDefinition: what `kubectl explain` shows, on one page.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};

use super::cell;
use crate::api;

pub(super) fn page() -> String {
    let crd = api::crd();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let mut body = String::from(
        "`apiVersion: sherpack.io/v1alpha1`, `kind: SherpackRelease`; short names `sr`, `srel`. `kubectl explain srel.spec` shows the \
         same.\n",
    );
    for part in ["spec", "status"] {
        let fields = &schema.properties.as_ref().unwrap()[part];
        body.push_str(&format!("\n## {part}\n"));
        section(part, fields, &mut body);
    }
    super::page("API", "the CustomResourceDefinition", &body)
}

/// A table of the fields of an object, then a section for each of them that has fields of its own.
fn section(path: &str, schema: &JSONSchemaProps, body: &mut String) {
    let Some(fields) = &schema.properties else { return };
    body.push_str("\n| field | type | |\n|---|---|---|\n");
    let required = schema.required.clone().unwrap_or_default();
    for (name, field) in fields {
        let must = if required.contains(name) { ", required" } else { "" };
        let text = cell(field.description.as_deref().unwrap_or_default());
        body.push_str(&format!("| `{path}.{name}` | {}{must} | {text}{} |\n", kind(field), words(field)));
    }
    for (name, field) in fields {
        let (inside, mark) = match &field.items {
            Some(JSONSchemaPropsOrArray::Schema(item)) => (&**item, "[]"),
            _ => (field, ""),
        };
        if inside.properties.is_some() {
            let path = format!("{path}.{name}{mark}");
            body.push_str(&format!("\n### {path}\n"));
            section(&path, inside, body);
        }
    }
}

fn kind(field: &JSONSchemaProps) -> String {
    let of = |schema: &JSONSchemaProps| schema.type_.clone().unwrap_or_else(|| "any".to_owned());
    match &field.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => format!("list of {}", of(item)),
        _ => of(field),
    }
}

/// The words of which one has to be chosen.
fn words(field: &JSONSchemaProps) -> String {
    let words = field.enum_.iter().flatten().filter_map(|word| word.0.as_str());
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    if words.is_empty() { String::new() } else { format!(" One of {}.", words.join(", ")) }
}
