//! From what the API server answered about an object to what would become of it. No IO.

use serde_json::{Map, Value};

use super::report::{FieldChange, ObjectLine, Problem, Would};
use crate::api::names;
use crate::cluster::{self, Holder};
use crate::crd::{self, Definition};
use crate::manifest::{Object, defining};
use crate::plan::definitions::Author;

/// Fields of one object that are told; more are counted.
const MANY: usize = 40;
const REDACTED: &str = "(redacted)";
/// What the API server keeps of an object beside what was asked for.
const KEPT_BY_SERVER: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What was found out about an object.
pub(super) enum Asked {
    /// Nobody can be asked yet, and why.
    Not(Problem),
    /// Its kind is not served.
    Unserved(cluster::Error),
    /// What is there, whose it is, and what a dry run answered.
    Tried { live: Option<Value>, author: Author, answer: Result<Value, cluster::Error> },
    /// A hook that is there from an earlier run, and makes way.
    Again,
}

/// What decides beside the answers.
pub(super) struct Around<'a> {
    /// The definitions that the pack would write, new or changed.
    pub(super) definitions: &'a [Object],
    /// `spec.install.adopt` is `Unowned`.
    pub(super) adopt: bool,
}

/// What would become of an object. `known`: an earlier revision applied it, so nobody asks whose it is.
pub(super) fn line(
    object: &Object,
    file: Option<&str>,
    (hook, known): (bool, bool),
    asked: Asked,
    around: &Around<'_>,
) -> ObjectLine {
    let line = ObjectLine {
        object: object.id.to_string(),
        file: file.map(str::to_owned),
        would: Would::Refused,
        changes: Vec::new(),
        problem: None,
    };
    let refused =
        |problem: Problem| ObjectLine { problem: Some(without_secrets(object, problem)), ..line.clone() };
    let of_cluster = |error: &cluster::Error| refused(Problem::new(error.reason(), error));
    let by_schema = fit(object, around.definitions);
    if let Some(Err(problem)) = by_schema {
        return refused(problem);
    }
    let made = if hook { Would::Run } else { Would::Create };
    match asked {
        Asked::Not(problem) => ObjectLine { would: Would::Unchecked, problem: Some(problem), ..line },
        Asked::Again => ObjectLine { would: Would::Run, ..line },
        // What the definition of the pack says is all that there is to ask.
        Asked::Unserved(_) if by_schema.is_some() => ObjectLine { would: made, ..line },
        Asked::Unserved(error) => of_cluster(&error),
        Asked::Tried { live: Some(live), .. } if is_leaving(&live) => {
            of_cluster(&cluster::Error::Terminating { id: object.id.clone() })
        }
        Asked::Tried { live: Some(_), ref author, .. } if !known && !may_take(author, around.adopt) => {
            let holder = match author {
                Author::Release(owner) => Holder::Release(owner.clone()),
                Author::Unknown(Some(helm)) => Holder::Helm(helm.clone()),
                _ => Holder::Unknown,
            };
            of_cluster(&cluster::Error::NotOwned { id: object.id.clone(), holder })
        }
        // The API server judges by the definition as it is now, and that will be another one.
        Asked::Tried { live, answer: Err(_), .. } if by_schema.is_some() => {
            ObjectLine { would: if live.is_some() { Would::Change } else { made }, ..line }
        }
        Asked::Tried { answer: Err(error), .. } => of_cluster(&error),
        Asked::Tried { live: None, .. } => ObjectLine { would: made, ..line },
        Asked::Tried { live: Some(live), answer: Ok(next), .. } => {
            let changes = changes(object.id.kind == "Secret" && object.id.group.is_empty(), live, next);
            let would = if changes.is_empty() { Would::Unchanged } else { Would::Change };
            ObjectLine { would, changes, ..line }
        }
    }
}

fn is_leaving(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

fn may_take(author: &Author, adopt: bool) -> bool {
    match author {
        Author::Us => true,
        Author::Release(_) => false,
        Author::Departed | Author::Unknown(_) => adopt,
    }
}

/// What the definition in the pack says of a custom resource; `None` for every other object.
fn fit(object: &Object, definitions: &[Object]) -> Option<Result<(), Problem>> {
    let (definition, _) = defining(definitions, &object.api_version, &object.id.kind)?;
    // One that cannot be read is told of by itself.
    let definition = Definition::from_value(&definition.body).ok()?;
    let version = object.api_version.rsplit('/').next().unwrap_or_default();
    let Some(schema) = definition.schema(version) else { return Some(Ok(())) };
    let fit = crd::check(schema, &object.body);
    let refused = fit.refused.iter().map(|(field, why)| format!("{field}: {why}"));
    // As the API server says it with strict validation.
    let unknown = fit.pruned.iter().map(|field| {
        let field = field.to_string();
        format!("unknown field \"{}\"", field.trim_start_matches('.'))
    });
    let all: Vec<String> = refused.chain(unknown).collect();
    if all.is_empty() {
        return Some(Ok(()));
    }
    let message = format!("{} of the pack does not take it: {}", definition.name, all.join("; "));
    Some(Err(Problem::new("ObjectInvalid", message)))
}

/// Messages of the API server may quote what they do not like.
fn without_secrets(object: &Object, mut problem: Problem) -> Problem {
    if object.id.kind != "Secret" {
        return problem;
    }
    for part in ["data", "stringData"] {
        for value in object.body.get(part).and_then(Value::as_object).into_iter().flat_map(Map::values) {
            if let Some(value) = value.as_str().filter(|value| !value.is_empty()) {
                problem.message = problem.message.replace(value, REDACTED);
            }
        }
    }
    problem
}

/// The fields that differ, without what only the API server and our own marks say.
pub(super) fn changes(secret: bool, live: Value, next: Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare("", Some(&asked_for(live)), Some(&asked_for(next)), &mut found);
    let more = found.len().saturating_sub(MANY);
    found.truncate(MANY);
    if more > 0 {
        found.push(FieldChange { path: format!("… and {more} more fields"), old: None, new: None });
    }
    if secret {
        let hidden =
            |change: &FieldChange| change.path.starts_with("data") || change.path.starts_with("stringData");
        for change in found.iter_mut().filter(|change| hidden(change)) {
            change.old.iter_mut().chain(&mut change.new).for_each(redact);
        }
    }
    found
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(redact),
        Value::Array(items) => items.iter_mut().for_each(redact),
        leaf => *leaf = REDACTED.into(),
    }
}

fn asked_for(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in KEPT_BY_SERVER {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(names::APPLIED);
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, out: &mut Vec<FieldChange>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                compare(&below(path, key), old.get(key), new.get(key), out);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(&format!("{path}[{index}]"), old.get(index), new.get(index), out);
            }
        }
        (old, new) => {
            out.push(FieldChange { path: path.to_owned(), old: old.cloned(), new: new.cloned() });
        }
    }
}

fn below(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{key:?}]"),
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
