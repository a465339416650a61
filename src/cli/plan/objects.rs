//! From what the API server answered about an object to what would become of it. No IO.

use serde_json::Value;

use super::report::{FieldChange, ObjectLine, Problem, Would};
use crate::cluster::{self, Holder};
use crate::crd::{self, Definition};
use crate::manifest::differences::{asked_for, compare, is_secret_content, redact, secret_texts};
use crate::manifest::{Object, ObjectId, defining};
use crate::plan;
use crate::plan::definitions::Author;

/// Fields of one object that are told; more are counted.
const MANY: usize = 40;
const REDACTED: &str = "(redacted)";

/// What was found out about an object.
pub(super) enum Asked {
    /// No server can be asked yet, and why.
    Not(Problem),
    /// Its kind is not served.
    Unserved(cluster::Error),
    /// What is there, whose it is, and what a dry run answered.
    Tried { live: Option<Value>, author: Author, answer: Result<Value, cluster::Error> },
    /// A hook that is there from an earlier run, and makes way.
    Again,
    /// A Job that has run, and may be gone.
    Ran,
}

/// What decides beside the answers.
pub(super) struct Around<'a> {
    /// The definitions that the pack would write, new or changed.
    pub(super) definitions: &'a [Object],
    /// `spec.install.adopt` is `Unowned`.
    pub(super) adopt: bool,
}

/// What would become of an object. `known`: an earlier revision applied it, so its owner is not asked for.
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
        Asked::Ran => ObjectLine { would: Would::Unchanged, ..line },
        // What the definition of the pack says is all that there is to ask.
        Asked::Unserved(_) if by_schema.is_some() => ObjectLine { would: made, ..line },
        Asked::Unserved(error) => of_cluster(&error),
        Asked::Tried { live: Some(live), .. } if is_leaving(&live) => {
            of_cluster(&cluster::Error::Terminating { id: object.id.clone() })
        }
        Asked::Tried { live: Some(live), ref author, .. } if !known && !may_take(author, around.adopt) => {
            let holder = match author {
                Author::Release(owner) => Holder::Release(owner.clone()),
                Author::Unknown(Some(helm)) => Holder::Helm(helm.clone()),
                Author::Departed if is_kept(&live) => Holder::Kept,
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
            let changes = changes(&object.id, live, next);
            let would = if changes.is_empty() { Would::Unchanged } else { Would::Change };
            ObjectLine { would, changes, ..line }
        }
    }
}

fn is_kept(live: &Value) -> bool {
    let annotations = live.pointer("/metadata/annotations").cloned().unwrap_or_default();
    plan::is_kept(serde_json::from_value(annotations).ok().as_ref())
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
    for value in secret_texts(&object.body) {
        problem.message = problem.message.replace(value, REDACTED);
    }
    problem
}

/// The fields that differ, without what only the API server and our own marks say.
pub(super) fn changes(id: &ObjectId, live: Value, next: Value) -> Vec<FieldChange> {
    let (live, next) = (asked_for(live), asked_for(next));
    let all = compare(&live, &next);
    let more = all.len().saturating_sub(MANY);
    let mut found: Vec<FieldChange> = all
        .into_iter()
        .take(MANY)
        .map(|one| {
            let hidden = is_secret_content(id, &one.at);
            let shown = |value: &Value| {
                let mut value = value.clone();
                if hidden {
                    redact(&mut value, REDACTED);
                }
                value
            };
            FieldChange { path: one.dotted(), old: one.old.map(shown), new: one.new.map(shown) }
        })
        .collect();
    if more > 0 {
        found.push(FieldChange { path: format!("… and {more} more fields"), old: None, new: None });
    }
    found
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
