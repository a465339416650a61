//! Versions of one definition against each other, where nothing converts.
//!
//! Every object goes through the version in which it is stored, so each served version is compared with that one: what is lost
//! between two versions is lost on one of these two ways. Only what the old definition did not lose already is said.

use std::collections::BTreeSet;

use super::change::Change;
use super::definition::Version;
use super::path::Path;
use super::schema::{Compare, Sense};
use super::{Definition, Kind, Severity};

pub(super) fn compare(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    if new.converts() {
        return;
    }
    let known = if old.converts() { BTreeSet::new() } else { all_known(old) };
    for Loss { version, storage, change, severity } in all(new) {
        if known.contains(&key(&version, &storage, &change)) {
            continue;
        }
        let path = format!("{}{}", version.path(), change.path);
        let message = format!(
            "{} is served, objects are stored as {}, and nothing converts ({}): {}",
            version.name, storage.name, change.kind, change.message
        );
        out.push(Change { kind: Kind::LossyVersion, path, severity, message, probe: None, ..change });
    }
}

/// Whether a way between two versions drops or refuses something.
pub(super) fn is_lossy(from: &Version<'_>, to: &Version<'_>) -> bool {
    one(from, to).iter().any(|change| change.severity >= Severity::Dangerous)
}

struct Loss<'d> {
    version: Version<'d>,
    storage: Version<'d>,
    change: Change,
    severity: Severity,
}

/// What tells a loss from others: between the same two versions it may have been there before, whichever of them is stored.
type Key = (BTreeSet<String>, Kind, String);

fn key(version: &Version<'_>, storage: &Version<'_>, change: &Change) -> Key {
    ([version.name.to_owned(), storage.name.to_owned()].into(), change.kind, change.path.clone())
}

fn all_known(definition: &Definition) -> BTreeSet<Key> {
    all(definition).iter().map(|loss| key(&loss.version, &loss.storage, &loss.change)).collect()
}

fn all(definition: &Definition) -> Vec<Loss<'_>> {
    let Some(storage) = definition.storage() else { return Vec::new() };
    let mut found = Vec::new();
    for version in definition.versions().filter(|version| version.served() && version.name != storage.name) {
        let newer = priority(version.name) > priority(storage.name);
        let (low, high) = if newer { (&storage, &version) } else { (&version, &storage) };
        for change in one(low, high) {
            // A field that only the newer version has: dropped on the way into storage, or by an old client.
            let grows = matches!(
                change.kind,
                Kind::AddOptionalField
                    | Kind::AddRequiredField
                    | Kind::AddAdditionalProperties
                    | Kind::PreserveUnknownFields
            );
            let severity = match change.severity {
                _ if grows && newer => Severity::Dangerous,
                Severity::Dangerous | Severity::Blocked => Severity::Dangerous,
                _ if grows => Severity::Warning,
                Severity::Warning => Severity::Warning,
                Severity::Safe => continue,
            };
            found.push(Loss { version, storage, change, severity });
        }
    }
    found
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
