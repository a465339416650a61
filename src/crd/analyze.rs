mod pairs;
mod versions;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::change::{Analysis, Change, plain, unknown};
use super::definition::{NOTHING, Version};
use super::path::Path;
use super::same;
use super::schema::{Compare, Sense};
use super::{Definition, Kind, Severity, refusal};

/// Compares two definitions, the whole first and then version by version.
///
/// Linear in their size, and the same for the same input. Nothing that differs is left out: what is not known is
/// [`Kind::Unhandled`]. Two definitions that differ in spelling only give no changes.
#[must_use]
pub fn analyze(old: &Definition, new: &Definition) -> Analysis {
    let mut changes = Vec::new();
    if old.spec != new.spec {
        whole(old, new, &mut changes);
        let known: BTreeMap<&str, Version<'_>> =
            old.versions().map(|version| (version.name, version)).collect();
        for version in new.versions() {
            if let Some(earlier) = known.get(version.name) {
                one(earlier, &version, &mut changes);
            }
        }
        pairs::compare(old, new, &mut changes);
    }
    refusal::compare(old, new, &mut changes);
    once(&mut changes);
    if changes.is_empty() && old.spec != new.spec && same::spec(&old.spec) != same::spec(&new.spec) {
        let message = "the definitions differ in something that is not known".to_owned();
        changes.push(plain(Kind::Unhandled, Severity::Warning, "spec", message));
    }
    Analysis { name: new.name.clone(), is_new: false, changes }
}

/// A definition that does not exist yet: nothing can break, but its versions may disagree and the server may refuse it.
#[must_use]
pub fn introduce(new: &Definition) -> Analysis {
    let changes = pairs::within(new).into_iter().chain(refusal::changes(new)).collect();
    Analysis { name: new.name.clone(), is_new: true, changes }
}

/// Whether the server would create a definition.
///
/// # Errors
/// It would refuse it; the error names the path.
pub fn admissible(definition: &Definition) -> Result<(), super::Error> {
    refusal::first(definition).map_or(Ok(()), Err)
}

/// Two rules may speak of one thing, such as a default that is gone from a field that is required; the worse one is said.
fn once(changes: &mut Vec<Change>) {
    let twice = |change: &Change| change.kind == Kind::RemoveDefault;
    let mut worst: BTreeMap<String, Severity> = BTreeMap::new();
    for change in changes.iter().filter(|change| twice(change)) {
        let entry = worst.entry(change.path.clone()).or_insert(change.severity);
        *entry = change.severity.max(*entry);
    }
    changes.retain(|change| !twice(change) || worst.get(&change.path) == Some(&change.severity));
}

fn whole(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    let fixed = if old.established { Severity::Blocked } else { Severity::Dangerous };
    let rows = [
        (Kind::ChangeGroup, None, "group", Severity::Blocked, "the group never changes"),
        (Kind::ChangeScope, None, "scope", fixed, "objects are stored with or without a namespace"),
        (Kind::ChangePlural, Some("names"), "plural", Severity::Blocked, "the plural name never changes"),
        (Kind::ChangeKindName, Some("names"), "kind", fixed, "the kind of existing objects never changes"),
        (
            Kind::ChangeSingular,
            Some("names"),
            "singular",
            Severity::Warning,
            "commands that use the old name fail",
        ),
        (
            Kind::ChangeListKind,
            Some("names"),
            "listKind",
            Severity::Warning,
            "clients that look at the kind of lists fail",
        ),
    ];
    for (kind, parent, key, severity, why) in rows {
        let (from, to) = (old.text(parent, key), new.text(parent, key));
        if from != to {
            // Only a file can lack it: nothing is known of the definition that it stands for.
            let (kind, severity) =
                if from.is_empty() { (Kind::Unhandled, Severity::Warning) } else { (kind, severity) };
            let path = parent.map_or_else(|| format!("spec.{key}"), |parent| format!("spec.{parent}.{key}"));
            let message = format!("{key} changed from {from:?} to {to:?}: {why}");
            out.push(Change {
                old: Some(from.into()),
                new: Some(to.into()),
                ..plain(kind, severity, &path, message)
            });
        }
    }
    names(old, new, out);
    versions::conversion(old, new, out);
    pruning(old, new, out);
    unknown(&old.spec, &new.spec, SPEC, "spec", out);
    unknown(
        versions::inner(&old.spec, "names"),
        versions::inner(&new.spec, "names"),
        NAMES,
        "spec.names",
        out,
    );
    version_list(old, new, out);
}

const SPEC: &[&str] = &["group", "names", "scope", "versions", "conversion", "preserveUnknownFields"];
const NAMES: &[&str] = &["plural", "singular", "kind", "listKind", "shortNames", "categories"];

fn names(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    let rows = [
        ("shortNames", Kind::AddShortName, Kind::RemoveShortName, "commands that use it fail"),
        (
            "categories",
            Kind::AddCategory,
            Kind::RemoveCategory,
            "`kubectl get` of the category shows the objects no more",
        ),
    ];
    for (key, added, removed, why) in rows {
        let list = |definition: &Definition| -> BTreeSet<String> {
            let names =
                definition.spec.get("names").and_then(|names| names.get(key)).and_then(Value::as_array);
            names
                .into_iter()
                .flatten()
                .map(|name| name.as_str().map_or_else(|| name.to_string(), str::to_owned))
                .collect()
        };
        let (from, to) = (list(old), list(new));
        let path = format!("spec.names.{key}");
        for name in to.difference(&from) {
            let change = plain(added, Severity::Safe, &path, format!("{name} is new"));
            out.push(Change { new: Some(name.as_str().into()), ..change });
        }
        for name in from.difference(&to) {
            let change = plain(removed, Severity::Warning, &path, format!("{name} is gone: {why}"));
            out.push(Change { old: Some(name.as_str().into()), ..change });
        }
    }
}

fn pruning(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    let path = "spec.preserveUnknownFields";
    let (from, to) = (old.spec.get("preserveUnknownFields"), new.spec.get("preserveUnknownFields"));
    if from == Some(&Value::Bool(true)) && to.is_none() {
        let message =
            "what the schema does not name is dropped from existing objects at their next write".to_owned();
        let change = plain(Kind::EnablePruning, Severity::Dangerous, path, message);
        out.push(Change { old: from.cloned(), ..change });
    } else if from != to && to != Some(&Value::Bool(true)) {
        let message = "it is neither true nor false".to_owned();
        let change = plain(Kind::Unhandled, Severity::Warning, path, message);
        out.push(Change { old: from.cloned(), new: to.cloned(), ..change });
    }
}

fn version_list(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    let is_known: BTreeSet<&str> = old.versions().map(|version| version.name).collect();
    let still: BTreeSet<&str> = new.versions().map(|version| version.name).collect();
    for version in new.versions().filter(|version| !is_known.contains(version.name)) {
        let message = format!("{} is new", version.name);
        let change = plain(Kind::AddVersion, Severity::Safe, &version.path(), message);
        out.push(Change { new: Some(short(&version)), ..change });
    }
    for version in old.versions().filter(|version| !still.contains(version.name)) {
        let name = version.name;
        let (severity, why) = if old.stored.iter().any(|stored| stored == name) {
            (
                Severity::Blocked,
                "objects may still be stored in it. Keep it, move the storage flag, write every object once, take it \
                 out of status.storedVersions, and remove it then",
            )
        } else if version.served() {
            (Severity::Dangerous, "clients that use it fail")
        } else {
            (Severity::Warning, "it was neither served nor stored")
        };
        let change = plain(Kind::RemoveVersion, severity, &version.path(), format!("{name} is gone: {why}"));
        out.push(Change { old: Some(short(&version)), ..change });
    }
    // Recorded by the server, but in neither file.
    for name in
        old.stored.iter().filter(|name| !is_known.contains(name.as_str()) && !still.contains(name.as_str()))
    {
        let message = format!("{name} is missing, and objects may still be stored in it");
        out.push(plain(Kind::RemoveVersion, Severity::Blocked, "spec.versions", message));
    }
    storage(old, new, out);
}

fn short(version: &Version<'_>) -> Value {
    let flags = ["name", "served", "storage"];
    let map = version.body.iter().filter(|(key, _)| flags.contains(&key.as_str()));
    Value::Object(map.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn storage(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    let (Some(from), Some(to)) = (old.storage(), new.storage()) else { return };
    if from.name == to.name {
        return;
    }
    let remains = new.version(from.name);
    let lossy = !new.converts() && remains.is_some_and(|from| pairs::is_lossy(&from, &to));
    let gone = remains.is_none() && !new.converts() && pairs::is_lossy(&from, &to);
    let (severity, why) = if lossy || gone {
        (Severity::Dangerous, "nothing converts, and what the new one does not have is dropped")
    } else if !to.served() {
        (Severity::Dangerous, "no client can read it")
    } else {
        (Severity::Warning, "no way leads back to a definition without the new one")
    };
    let message = format!("objects are stored as {} instead of {}: {why}", to.name, from.name);
    let path = format!("{}.storage", to.path());
    let change = plain(Kind::ChangeStorageVersion, severity, &path, message);
    out.push(Change { old: Some(from.name.into()), new: Some(to.name.into()), ..change });
}

/// One version, old against new.
fn one(old: &Version<'_>, new: &Version<'_>, out: &mut Vec<Change>) {
    versions::flags(old, new, out);
    versions::columns(old, new, out);
    versions::selectable(old, new, out);
    versions::subresources(old, new, out);
    let known = [
        "name",
        "served",
        "storage",
        "deprecated",
        "deprecationWarning",
        "schema",
        "subresources",
        "additionalPrinterColumns",
        "selectableFields",
    ];
    unknown(old.body, new.body, &known, &new.path(), out);
    let (from, to) = (versions::inner(old.body, "schema"), versions::inner(new.body, "schema"));
    unknown(from, to, &["openAPIV3Schema"], &format!("{}.schema", new.path()), out);
    let root = format!("{}.schema.openAPIV3Schema", new.path());
    let (from, to) = (old.schema().unwrap_or(&NOTHING), new.schema().unwrap_or(&NOTHING));
    if from != to {
        Compare { version: new.name, out }.schema(from, to, &Path::root(&root), Sense::Structure);
    }
}
