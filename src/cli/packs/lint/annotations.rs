//! Annotations of this operator, and those of Helm that it understands too: their names and values.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Finding, Severity};
use crate::api::annotations::{KNOWN, Wants};
use crate::api::names::{CRD_POLICY, GROUP};
use crate::api::{duration, reasons};
use crate::manifest::is_definition;
use crate::pack;

/// `Kind/name` of all objects.
pub(super) fn names<'o>(objects: impl Iterator<Item = &'o Value>) -> BTreeSet<String> {
    objects.map(name).collect()
}

fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

pub(super) fn check(object: &Value, names: &BTreeSet<String>, file: &str, findings: &mut Vec<Finding>) {
    let Some(annotations) = object["metadata"]["annotations"].as_object() else { return };
    let is_definition = is_definition(object);
    let object = name(object);
    for (key, value) in annotations {
        let known = KNOWN.iter().find(|(known, _)| known == key).map(|(_, wants)| wants);
        let own = key.split_once('/').is_some_and(|(prefix, _)| prefix == GROUP);
        let wants = match known {
            Some(wants) => wants,
            None if own => {
                let message = format!("{object}: the annotation `{key}` means nothing to the operator");
                findings.push(Finding::new("UnknownAnnotation", Severity::Warning, file, message));
                continue;
            }
            None => continue,
        };
        let Some(value) = value.as_str() else {
            let message = format!("{object}: the annotation `{key}` is not text: put it in quotes");
            findings.push(Finding::new("AnnotationInvalid", Severity::Error, file, message));
            continue;
        };
        if key == CRD_POLICY && is_definition {
            // Judged together with the place.
            continue;
        }
        if let Some(wanted) = wanted(wants, value) {
            let shown = pack::shown(value, 60);
            let message = format!("{object}: the annotation `{key}` is `{shown}`, not {wanted}");
            findings.push(Finding::new("AnnotationInvalid", Severity::Error, file, message));
        } else if matches!(wants, Wants::Objects) {
            for missing in list(value).filter(|wanted| !names.contains(*wanted)) {
                let message = format!("{object} waits for {missing}, which is not in the pack");
                findings.push(Finding::new(reasons::WAIT_FOR_INVALID, Severity::Error, file, message));
            }
        }
    }
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

/// What would have to stand there instead, unless it is right.
fn wanted(wants: &Wants, value: &str) -> Option<String> {
    let is_path = |value: &str| value.starts_with('/') && !value.contains(char::is_whitespace);
    let (fits, wanted) = match wants {
        Wants::Word(words) => (
            words.iter().any(|word| value.eq_ignore_ascii_case(word)),
            format!("one of {}", words.join(", ")),
        ),
        Wants::Words(words) => (
            list(value).all(|part| words.contains(&part)),
            format!("a comma-separated list of {}", words.join(", ")),
        ),
        Wants::Truth => (
            ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word)),
            "one of true, false".to_owned(),
        ),
        Wants::Integer => (value.parse::<i32>().is_ok(), "an integer".to_owned()),
        Wants::Count => (value.parse::<u32>().is_ok(), "a whole number from 0".to_owned()),
        Wants::Duration => (duration::parse(value).is_ok(), "a duration such as 5m".to_owned()),
        Wants::Objects => (
            list(value).all(|part| part.split('/').filter(|part| !part.is_empty()).count() == 2),
            "a comma-separated list of Kind/name".to_owned(),
        ),
        Wants::Port => (
            match value.parse::<u32>() {
                Ok(number) => (1..=65535).contains(&number),
                Err(_) => {
                    (1..=15).contains(&value.len())
                        && value.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
                }
            },
            "a port, by number or name".to_owned(),
        ),
        Wants::Codes => (
            list(value).all(|part| {
                part.splitn(2, '-')
                    .all(|code| code.parse::<u16>().is_ok_and(|code| (100..=599).contains(&code)))
            }),
            "a status code such as 200, or a range such as 200-399".to_owned(),
        ),
        Wants::Path => (is_path(value), "a path that starts with /".to_owned()),
        Wants::Text => (!value.trim().is_empty(), "text".to_owned()),
    };
    (!fits).then_some(wanted)
}
