//! What the API server refuses, as far as that can be known without it.
//!
//! Retold from what servers from 1.33 on check. Not here: whether CEL rules compile and what they cost, which needs their compiler; the
//! server-side dry-run tells. What the old definition has already was accepted once, and is not said again.

mod defaults;
mod pattern;
mod schema;
mod spec;
mod structural;

use std::collections::BTreeSet;

use super::change::{Change, plain};
use super::{Definition, Error, Kind, Severity};

/// One thing that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    path: String,
    /// Goes on after the path: `must be an integer`.
    problem: String,
    structural: bool,
    /// What tells it from others when versions change their places: the name of the version and the path in it.
    key: (String, String),
}

/// Collects refusals of one part of a definition.
struct Refusals {
    found: Vec<Refusal>,
    version: String,
    /// Path of the part, `spec.versions[0]`.
    place: String,
}

impl Refusals {
    fn new() -> Self {
        Self { found: Vec::new(), version: String::new(), place: String::new() }
    }

    /// What follows is said of this version.
    fn enter(&mut self, version: &str, place: String) {
        self.version = version.to_owned();
        self.place = place;
    }

    fn refuse(&mut self, path: &str, problem: impl Into<String>) {
        self.add(path, problem.into(), false);
    }

    fn not_structural(&mut self, path: &str, problem: impl Into<String>) {
        self.add(path, problem.into(), true);
    }

    fn add(&mut self, path: &str, problem: String, structural: bool) {
        let key = (self.version.clone(), format!("{path} {problem}"));
        self.found.push(Refusal { path: format!("{}{path}", self.place), problem, structural, key });
    }
}

/// Adds what the server refuses of the new definition, and would not refuse of the old one.
pub(super) fn compare(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    if old.spec == new.spec && old.name == new.name && old.annotations == new.annotations {
        return;
    }
    let found = all(new, Some(old));
    if found.is_empty() {
        return;
    }
    let accepted: BTreeSet<(String, String)> =
        all(old, None).into_iter().map(|refusal| refusal.key).collect();
    out.extend(found.into_iter().filter(|refusal| !accepted.contains(&refusal.key)).map(change));
}

/// What the server refuses of a definition that it does not have yet.
pub(super) fn changes(new: &Definition) -> Vec<Change> {
    all(new, None).into_iter().map(change).collect()
}

fn change(refusal: Refusal) -> Change {
    let what = if refusal.structural { "the schema is not structural: it " } else { "it " };
    let message = format!("{what}{}", refusal.problem);
    plain(Kind::RefusedByServer, Severity::Blocked, &refusal.path, message)
}

/// The first thing for which the server refuses to create a definition.
pub(super) fn first(definition: &Definition) -> Option<Error> {
    let refusal = all(definition, None).into_iter().next()?;
    let (name, path, problem) = (definition.name.clone(), refusal.path, refusal.problem);
    Some(match refusal.structural {
        true => Error::NotStructural { name, path, problem },
        false => Error::Refused { name, path, problem },
    })
}

fn all(definition: &Definition, old: Option<&Definition>) -> Vec<Refusal> {
    let mut out = Refusals::new();
    spec::check(definition, old, &mut out);
    for version in definition.versions() {
        // Accepted as it is.
        if old.and_then(|old| old.version(version.name)).is_some_and(|old| old.body == version.body) {
            continue;
        }
        out.enter(version.name, version.path());
        spec::version(&version, &mut out);
        if let Some(schema) = version.schema() {
            schema::check(schema, version.body.get("subresources"), &mut out);
        }
    }
    out.found
}
