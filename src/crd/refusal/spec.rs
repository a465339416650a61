use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Refusals;
use crate::crd::Definition;
use crate::crd::definition::{NOTHING, Version};

/// The annotation that groups of the Kubernetes community need.
const APPROVED: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: [&str; 5] = ["integer", "number", "string", "boolean", "date"];
const COLUMN_FORMATS: [&str; 8] =
    ["int32", "int64", "float", "double", "byte", "date", "date-time", "password"];
const SELECTABLE: usize = 8;
const WARNING: usize = 256;

/// Everything but the versions one by one.
pub(super) fn check(new: &Definition, old: Option<&Definition>, out: &mut Refusals) {
    let group = new.text(None, "group");
    match group {
        "" => out.refuse("spec.group", "is missing"),
        group if !is_subdomain(group) => out.refuse("spec.group", "is no domain name"),
        group if !group.contains('.') => out.refuse("spec.group", "must have at least one dot"),
        _ => {}
    }
    match new.text(None, "scope") {
        "Namespaced" | "Cluster" => {}
        "" => out.refuse("spec.scope", "is missing"),
        _ => out.refuse("spec.scope", "is neither Namespaced nor Cluster"),
    }
    names(new, out);
    let wanted = format!("{}.{group}", new.text(Some("names"), "plural"));
    if new.name != wanted && !new.name.is_empty() {
        out.refuse("metadata.name", format!("must be {wanted}, made of plural and group"));
    }
    versions(new, out);
    if new.spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        out.refuse("spec.preserveUnknownFields", "must not be true");
    }
    if new.spec.get("preserveUnknownFields").is_some_and(|value| !value.is_boolean()) {
        out.refuse("spec.preserveUnknownFields", "must be true or false");
    }
    conversion(new, out);
    approval(new, old, out);
}

fn names(new: &Definition, out: &mut Refusals) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let name = new.text(Some("names"), key);
        let path = format!("spec.names.{key}");
        if name.is_empty() {
            out.refuse(&path, "is missing");
        } else if !is_label(&if key.to_lowercase().ends_with("kind") {
            name.to_lowercase()
        } else {
            name.to_owned()
        }) {
            out.refuse(
                &path,
                "must begin with a letter and have letters, digits and dashes only, at most 63",
            );
        }
    }
    let kind = new.text(Some("names"), "kind");
    if !kind.is_empty() && kind == new.text(Some("names"), "listKind") {
        out.refuse("spec.names.listKind", "must not be the kind");
    }
    for key in ["shortNames", "categories"] {
        let list = new.spec.get("names").and_then(|names| names.get(key)).and_then(Value::as_array);
        for (index, name) in list.into_iter().flatten().enumerate() {
            if !name.as_str().is_some_and(is_label) {
                let path = format!("spec.names.{key}[{index}]");
                out.refuse(
                    &path,
                    "must begin with a letter and have letters, digits and dashes only, at most 63",
                );
            }
        }
    }
}

fn versions(new: &Definition, out: &mut Refusals) {
    let storage = new.versions().filter(Version::is_storage).count();
    if storage != 1 {
        out.refuse(
            "spec.versions",
            format!("must have exactly one version with `storage: true`, and has {storage}"),
        );
    }
    let mut seen = BTreeSet::new();
    for version in new.versions() {
        if !seen.insert(version.name) {
            out.refuse("spec.versions", format!("has {} twice", version.name));
        }
    }
}

fn conversion(new: &Definition, out: &mut Refusals) {
    let map = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_object).cloned();
    let conversion = map(&new.spec, "conversion").unwrap_or_default();
    let (place, webhook) = ("spec.conversion", map(&conversion, "webhook"));
    match new.text(Some("conversion"), "strategy") {
        "None" => {
            if webhook.is_some() {
                out.refuse("spec.conversion.webhook", "must not be set unless the strategy is Webhook");
            }
        }
        "Webhook" => {
            let Some(webhook) = webhook else {
                return out.refuse("spec.conversion.webhook", "is missing, and the strategy is Webhook");
            };
            client(&map(&webhook, "clientConfig"), out);
            let path = format!("{place}.webhook.conversionReviewVersions");
            let versions: Vec<&str> = match webhook.get("conversionReviewVersions").and_then(Value::as_array)
            {
                Some(versions) => {
                    versions.iter().map(|version| version.as_str().unwrap_or_default()).collect()
                }
                None => Vec::new(),
            };
            let mut seen = BTreeSet::new();
            if versions.is_empty() {
                out.refuse(&path, "is missing");
            } else if versions.iter().any(|version| !seen.insert(*version) || !is_label(version)) {
                out.refuse(&path, "has a version twice, or one that is no name");
            } else if !versions.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
                out.refuse(&path, "must have v1 or v1beta1");
            }
        }
        "" => out.refuse("spec.conversion.strategy", "is missing"),
        _ => out.refuse("spec.conversion.strategy", "is neither None nor Webhook"),
    }
}

fn client(client: &Option<Map<String, Value>>, out: &mut Refusals) {
    let path = "spec.conversion.webhook.clientConfig";
    let Some(client) = client else { return out.refuse(path, "is missing, and the strategy is Webhook") };
    let is_set = |key: &str| client.get(key).is_some_and(|value| !value.is_null());
    if is_set("url") == is_set("service") {
        return out.refuse(path, "must have exactly one of url and service");
    }
    if let Some(url) = client.get("url").and_then(Value::as_str) {
        let rest = url.strip_prefix("https://");
        let bad = rest.is_none_or(|rest| {
            let host = rest.split('/').next().unwrap_or_default();
            host.is_empty() || host.contains('@') || rest.contains(['?', '#'])
        });
        if bad {
            out.refuse(
                &format!("{path}.url"),
                "must be https:// and a host, without user, query and fragment",
            );
        }
    }
    if let Some(service) = client.get("service").and_then(Value::as_object) {
        for key in ["name", "namespace"] {
            if service.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                out.refuse(&format!("{path}.service.{key}"), "is missing");
            }
        }
        if service.get("port").and_then(Value::as_i64).is_none_or(|port| !(1..=65535).contains(&port)) {
            out.refuse(&format!("{path}.service.port"), "is no port");
        }
        texts(service, &["path"], &format!("{path}.service"), out);
        // One slash may end it.
        let wrong = |route: &str| {
            route != "/"
                && route.strip_prefix('/').is_none_or(|rest| {
                    rest.strip_suffix('/').unwrap_or(rest).split('/').any(|part| !is_subdomain(part))
                })
        };
        if service.get("path").and_then(Value::as_str).is_some_and(|route| !route.is_empty() && wrong(route))
        {
            out.refuse(
                &format!("{path}.service.path"),
                "must begin with a slash and be made of domain names",
            );
        }
    }
}

fn approval(new: &Definition, old: Option<&Definition>, out: &mut Refusals) {
    let group = new.text(None, "group");
    let protected = |end: &str| group == end || group.ends_with(&format!(".{end}"));
    if !protected("k8s.io") && !protected("kubernetes.io") {
        return;
    }
    // 0: missing, 1: invalid, 2: bypassed, 3: approved.
    let state = |definition: &Definition| match definition.annotations.get(APPROVED).and_then(Value::as_str) {
        None | Some("") => 0,
        Some(text) if text.starts_with("unapproved") => 2,
        Some(text)
            if text
                .split_once("://")
                .is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty()) =>
        {
            3
        }
        Some(_) => 1,
    };
    let now = state(new);
    if now < 2 && old.is_none_or(|old| state(old) != now) {
        let problem =
            "must link to the approval of this API, because its group belongs to the Kubernetes community";
        out.refuse(&format!("metadata.annotations[{APPROVED:?}]"), problem);
    }
}

/// A version without its schema's insides.
pub(super) fn version(version: &Version<'_>, out: &mut Refusals) {
    if !is_label(version.name) {
        out.refuse(".name", "must begin with a letter and have letters, digits and dashes only, at most 63");
    }
    for key in ["served", "storage", "deprecated"] {
        if version.body.get(key).is_some_and(|value| !value.is_boolean() && !value.is_null()) {
            out.refuse(&format!(".{key}"), "must be true or false");
        }
    }
    texts(version.body, &["deprecationWarning"], "", out);
    if version.schema().is_none() {
        out.refuse(".schema.openAPIV3Schema", "is missing");
    }
    if let Some(text) = version.body.get("deprecationWarning").and_then(Value::as_str) {
        if version.body.get("deprecated") != Some(&Value::Bool(true)) {
            out.refuse(".deprecationWarning", "is for deprecated versions only");
        } else if text.is_empty() || text.len() > WARNING || text.chars().any(char::is_control) {
            out.refuse(".deprecationWarning", format!("must be a line of 1 to {WARNING} bytes"));
        }
    }
    columns(version, out);
    scale(version, out);
    selectable(version, out);
}

fn columns(version: &Version<'_>, out: &mut Refusals) {
    let columns = version.body.get("additionalPrinterColumns").and_then(Value::as_array);
    for (index, column) in columns.into_iter().flatten().enumerate() {
        if let Some(column) = column.as_object() {
            let place = format!(".additionalPrinterColumns[{index}]");
            texts(column, &["format", "description"], &place, out);
        }
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
        let path = |key: &str| format!(".additionalPrinterColumns[{index}].{key}");
        if text("name").is_empty() {
            out.refuse(&path("name"), "is missing");
        }
        if !COLUMN_TYPES.contains(&text("type")) {
            out.refuse(&path("type"), format!("must be one of {}", COLUMN_TYPES.join(", ")));
        }
        if !text("format").is_empty() && !COLUMN_FORMATS.contains(&text("format")) {
            out.refuse(&path("format"), format!("must be one of {}", COLUMN_FORMATS.join(", ")));
        }
        if !text("jsonPath").starts_with('.') {
            out.refuse(&path("jsonPath"), "must begin with a dot");
        }
    }
}

fn scale(version: &Version<'_>, out: &mut Refusals) {
    let scale = version.body.get("subresources").and_then(|all| all.get("scale")).and_then(Value::as_object);
    let Some(scale) = scale else { return };
    texts(scale, &["labelSelectorPath"], ".subresources.scale", out);
    let rows: [(&str, &[&str], bool); 3] = [
        ("specReplicasPath", &[".spec."], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ];
    for (key, starts, needed) in rows {
        let text = scale.get(key).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() && !needed {
            continue;
        }
        if !starts.iter().any(|start| text.starts_with(start)) {
            out.refuse(
                &format!(".subresources.scale.{key}"),
                format!("must be a path below {}", starts.join(" or ")),
            );
        }
    }
}

fn selectable(version: &Version<'_>, out: &mut Refusals) {
    let fields =
        version.body.get("selectableFields").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut seen = BTreeSet::new();
    for (index, entry) in fields.iter().enumerate() {
        let path = format!(".selectableFields[{index}].jsonPath");
        let text = entry.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        let Some(route) = text.strip_prefix('.').filter(|route| !route.is_empty()) else {
            out.refuse(&path, "must be a path that begins with a dot");
            continue;
        };
        if !seen.insert(text) {
            out.refuse(&path, "is there twice");
        }
        if route.split('.').next() == Some("metadata") {
            out.refuse(&path, "must not point into metadata");
            continue;
        }
        let mut place = version.schema().unwrap_or(&NOTHING);
        let mut found = true;
        for part in route.split('.') {
            match place.get("properties").and_then(|fields| fields.get(part)).and_then(Value::as_object) {
                Some(inner) => place = inner,
                None => found = false,
            }
        }
        let scalar =
            matches!(place.get("type").and_then(Value::as_str), Some("string" | "boolean" | "integer"));
        if !found || !scalar {
            out.refuse(&path, "must point to a field of type string, boolean or integer");
        }
    }
    if seen.len() > SELECTABLE {
        out.refuse(".selectableFields", format!("has more than {SELECTABLE} fields"));
    }
}

/// Fields that can only be read when they are texts.
fn texts(map: &Map<String, Value>, keys: &[&str], path: &str, out: &mut Refusals) {
    for key in keys {
        if map.get(*key).is_some_and(|value| !value.is_string() && !value.is_null()) {
            out.refuse(&format!("{path}.{key}"), "must be a text");
        }
    }
}

/// A name as DNS has labels that begin with a letter.
fn is_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}
