//! Versions of one definition against each other, where nothing converts.
//!
//! What is written in one served version is read in every other one as it is. So two versions must agree about what a value is, whether
//! it is there, and which values it has; else data is dropped, or a client meets what it does not know.
//!
//! Every object goes through the version in which it is stored, so each served version is compared with that one. Where that one keeps
//! what it does not describe, the others can disagree behind its back, so neighbours in the order of Kubernetes are compared too: versions
//! further apart can only disagree when neighbours do.
//!
//! New is a disagreement that was not between the same two versions, at the same place, about the same values, while nothing converted
//! either. Which of the two is stored does not count.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::crd::change::Change;
use crate::crd::definition::Version;
use crate::crd::path::Path;
use crate::crd::same::data;
use crate::crd::schema::{Compare, Sense};
use crate::crd::{Definition, Kind, Severity};

pub(super) fn compare(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    if new.converts() {
        return;
    }
    let known: BTreeSet<Key> =
        if old.converts() { BTreeSet::new() } else { all(old).iter().flat_map(Loss::keys).collect() };
    let is_new = |loss: &Loss<'_>| loss.keys().iter().any(|key| !known.contains(key));
    out.extend(all(new).into_iter().filter(is_new).map(Loss::told));
}

/// The disagreements of a definition that is not there yet. No object has been written in any version, so the worst is a Warning.
pub(super) fn within(new: &Definition) -> Vec<Change> {
    if new.converts() {
        return Vec::new();
    }
    let warned = |loss: Loss<'_>| Change { severity: loss.severity.min(Severity::Warning), ..loss.told() };
    all(new).into_iter().map(warned).collect()
}

/// Whether a way between two versions drops or refuses something.
pub(super) fn is_lossy(from: &Version<'_>, to: &Version<'_>) -> bool {
    one(from, to).iter().any(|change| change.severity >= Severity::Dangerous)
}

/// Something about which two versions disagree.
struct Loss<'d> {
    /// The one that is told of.
    version: Version<'d>,
    other: Version<'d>,
    /// The other one is that in which objects are stored.
    stored: bool,
    change: Change,
    severity: Severity,
}

/// What tells a loss from others: the versions, the kind, the place, and what it is about.
type Key = (BTreeSet<String>, Kind, Place);
/// The path of a change, and the field where many stand at one path.
type Place = (String, Option<String>);

fn place(change: &Change) -> Place {
    let required = change.probe.as_ref().filter(|_| change.kind == Kind::MakeRequired);
    (change.path.clone(), required.map(|probe| probe.field.to_string()))
}

impl Loss<'_> {
    /// One for each value of an enum, so that another value is news and a value less is none.
    fn keys(&self) -> Vec<Key> {
        let Change { kind, old, new, .. } = &self.change;
        let versions = BTreeSet::from([self.version.name.to_owned(), self.other.name.to_owned()]);
        let (path, field) = place(&self.change);
        let about = match kind {
            Kind::ChangeFieldType => vec![Some(format!("{old:?} {new:?}"))],
            Kind::AddEnumValue => only_in(new.as_ref(), old.as_ref()),
            Kind::RemoveEnumValue => only_in(old.as_ref(), new.as_ref()),
            _ => vec![field],
        };
        about.into_iter().map(|about| (versions.clone(), *kind, (path.clone(), about))).collect()
    }

    fn told(self) -> Change {
        let Self { version, other, stored, change, severity } = self;
        let path = format!("{}{}", version.path(), change.path);
        let how = if stored {
            format!("{} is served, objects are stored as {}, and nothing converts", version.name, other.name)
        } else {
            format!("{} and {} are served, and nothing converts", version.name, other.name)
        };
        let message = format!("{how} ({}): {}", change.kind, change.message);
        Change { kind: Kind::LossyVersion, path, severity, message, probe: None, ..change }
    }
}

/// The values of one enum that another does not have.
fn only_in(one: Option<&Value>, other: Option<&Value>) -> Vec<Option<String>> {
    let values = |of: Option<&Value>| -> BTreeSet<String> {
        let items = of.and_then(Value::as_array).into_iter().flatten();
        items.map(|value| data(value).to_string()).collect()
    };
    values(one).difference(&values(other)).cloned().map(Some).collect()
}

fn all(definition: &Definition) -> Vec<Loss<'_>> {
    let Some(storage) = definition.storage() else { return Vec::new() };
    let mut others: Vec<Version<'_>> =
        definition.versions().filter(|version| version.served() && version.name != storage.name).collect();
    let mut found: Vec<Loss<'_>> =
        others.iter().flat_map(|version| between(*version, storage, true)).collect();
    let mut told: BTreeMap<&str, BTreeSet<Place>> = BTreeMap::new();
    for loss in found.iter().filter(|loss| loss.severity >= Severity::Dangerous) {
        told.entry(loss.version.name).or_default().insert(place(&loss.change));
    }
    others.sort_by_cached_key(|version| priority(version.name));
    for pair in others.windows(2) {
        let [low, high] = pair else { continue };
        let is_told = |loss: &Loss<'_>| {
            let place = place(&loss.change);
            [low, high].iter().any(|one| told.get(one.name).is_some_and(|told| told.contains(&place)))
        };
        found.extend(between(*high, *low, false).into_iter().filter(|loss| !is_told(loss)));
    }
    found
}

/// What two versions disagree about, told of `version`.
fn between<'d>(version: Version<'d>, other: Version<'d>, stored: bool) -> Vec<Loss<'d>> {
    let newer = priority(version.name) > priority(other.name);
    let (low, high) = if newer { (&other, &version) } else { (&version, &other) };
    let (up, down) = (one(low, high), one(high, low));
    let unread: BTreeSet<Place> = down.iter().filter(|change| is_unread(change)).map(place).collect();
    let judged = up.into_iter().filter_map(|change| {
        // A field that only the newer version has: dropped on the way into storage.
        let grows = matches!(
            change.kind,
            Kind::AddOptionalField
                | Kind::AddRequiredField
                | Kind::AddAdditionalProperties
                | Kind::PreserveUnknownFields
        );
        let severity = match change.severity {
            _ if unread.contains(&place(&change)) || (grows && newer && stored) => Severity::Dangerous,
            Severity::Dangerous | Severity::Blocked => Severity::Dangerous,
            _ if grows => Severity::Warning,
            Severity::Warning => Severity::Warning,
            Severity::Safe => return None,
        };
        Some(Loss { version, other, stored, change, severity })
    });
    let mut found: Vec<Loss<'d>> = judged.collect();
    let known: BTreeSet<Place> = found.iter().map(|loss| place(&loss.change)).collect();
    let rest = down.into_iter().filter(|change| is_unread(change) && !known.contains(&place(change)));
    let severity = Severity::Dangerous;
    found.extend(rest.map(|change| Loss { version, other, stored, change, severity }));
    found
}

/// From a newer version to an older one: what was written in the newer one is dropped, missing or unknown in the older one. Wider bounds
/// are none of it: they are no matter of reading.
fn is_unread(change: &Change) -> bool {
    let structural = match change.kind {
        Kind::ChangeFieldType
        | Kind::MakeRequired
        | Kind::RemoveField
        | Kind::RemoveRequiredField
        | Kind::RemoveEnumValue
        | Kind::RemoveAdditionalProperties
        | Kind::PruneUnknownFields
        | Kind::RemoveEmbeddedResource
        | Kind::ForbidNull => true,
        Kind::TightenValidation | Kind::ChangeValidation => change.path.ends_with(".enum"),
        _ => false,
    };
    structural && change.severity >= Severity::Dangerous
}

fn one(low: &Version<'_>, high: &Version<'_>) -> Vec<Change> {
    let (Some(from), Some(to)) = (low.schema(), high.schema()) else { return Vec::new() };
    let mut out = Vec::new();
    let name = format!("{} to {}", low.name, high.name);
    if from != to {
        let root = Path::root(".schema.openAPIV3Schema");
        Compare { version: &name, out: &mut out }.schema(from, to, &root, Sense::Structure);
    }
    out
}

/// The order in which Kubernetes prefers versions: `v2` before `v1` before `v1beta2` before `v1alpha1` before `foo`.
fn priority(name: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let unknown = || (0, 0, 0, std::cmp::Reverse(name.to_owned()));
    let Some(rest) = name.strip_prefix('v') else { return unknown() };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return unknown() };
    let level = |stage: u8, minor: &str| {
        minor
            .parse()
            .map_or_else(|_| unknown(), |minor| (stage, major, minor, std::cmp::Reverse(String::new())))
    };
    match (rest, rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        ("", ..) => (3, major, 0, std::cmp::Reverse(String::new())),
        (_, Some(minor), _) => level(2, minor),
        (_, _, Some(minor)) => level(1, minor),
        _ => unknown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_order_of_kubernetes() {
        let mut names =
            ["foo1", "v1alpha1", "v10", "v2", "v11beta2", "v3beta1", "v12alpha1", "v10beta3", "foo10", "v1"];
        names.sort_by_key(|name| std::cmp::Reverse(priority(name)));
        assert_eq!(
            names,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10"]
        );
    }
}
