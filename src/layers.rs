//! The layer rule of `lib.rs`, checked: which folder may use which.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of one row do not use each other, but for those of the first. Upper rows may use lower ones.
const ROWS: &[&[&str]] = &[
    &["cli", "operator"],
    &["reconcile"],
    &["watch"],
    &["source", "storage"],
    &["cluster"],
    &["release"],
    &["plan"],
    &["crd", "health"],
    &["pack"],
    &["manifest"],
    &["api"],
];

/// Rooms within a folder that stand above the rest of it: the room, what it may use that the rest of its folder may not, and
/// who may not use it besides the rest.
const ROOMS: &[(&str, &[&str], &[&str])] = &[
    ("pack/render", &[], &["api", "manifest", "crd", "health"]),
    ("watch/probe", &["source", "storage"], &[]),
];

/// Folders that do no IO and read no clock.
const PURE: &[&str] = &["api", "manifest", "pack", "pack/render", "crd", "health", "plan", "release"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn row(folder: &str) -> usize {
    ROWS.iter()
        .position(|row| row.contains(&folder))
        .unwrap_or_else(|| panic!("src/{folder} has no place in the layers"))
}

/// The files below a folder whose names end so.
pub(crate) fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

/// The folders that a text names after `crate::`, in `use` lines and in paths; also those in braces.
fn used(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split("crate::").skip(1) {
        let names = rest.strip_prefix('{').map_or(rest, |list| list.split(';').next().unwrap_or_default());
        let several = rest.starts_with('{');
        let mut depth = 0;
        for part in names.split_inclusive(['{', '}', ',']) {
            let word: String =
                part.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if depth == 0 && !word.is_empty() {
                found.push(word);
            }
            match part.chars().last() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                _ => {}
            }
            if !several || depth < 0 {
                break;
            }
        }
    }
    found
}

#[test]
fn names_are_found_in_every_form() {
    assert_eq!(used("use crate::api::names;\nlet x = crate::plan::f();"), ["api", "plan"]);
    assert_eq!(used("use crate::{api::{a, b}, pack};"), ["api", "pack"]);
}

#[test]
fn every_folder_uses_only_what_is_below_it() {
    let folders: Vec<&str> = ROWS.concat();
    let mut edges = 0;
    for folder in &folders {
        let mut sources = Vec::new();
        files(&root().join(folder), "rs", &mut sources);
        for source in sources {
            for target in used(&fs::read_to_string(&source).unwrap()) {
                if target == *folder || !folders.contains(&target.as_str()) {
                    continue;
                }
                edges += 1;
                let (from, to) = (row(folder), row(&target));
                assert!(
                    from < to || (from == 0 && to == 0),
                    "{} uses crate::{target}, which is not below src/{folder}",
                    source.display()
                );
            }
        }
    }
    assert!(edges > 100, "only {edges} uses were found: does the search still work?");
}

#[test]
fn a_room_above_the_rest_of_its_folder_is_used_from_above_only() {
    for (room, allowed, below) in ROOMS {
        let (folder, name) = room.split_once('/').unwrap();
        let mut sources = Vec::new();
        for folder in below.iter().chain([&folder]) {
            files(&root().join(folder), "rs", &mut sources);
        }
        let (inside, rest): (Vec<PathBuf>, Vec<PathBuf>) =
            sources.into_iter().partition(|source| source.starts_with(root().join(room)));
        assert!(!inside.is_empty(), "src/{room} is not there");
        for source in rest {
            let text = fs::read_to_string(&source).unwrap();
            for path in [
                format!("{folder}::{name}::"),
                format!("super::{name}::"),
                format!("crate::{{{folder}::{name}"),
            ] {
                assert!(!text.contains(&path), "{} uses src/{room}, which is above it", source.display());
            }
            let own = source.starts_with(root().join(folder));
            let target = used(&text).into_iter().find(|target| own && allowed.contains(&target.as_str()));
            assert_eq!(target, None, "only src/{room} may use it, not {}", source.display());
        }
    }
}

#[test]
fn every_folder_has_a_place() {
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        // `docs` and `coverage` are made of unit tests.
        if path.is_dir() && !path.ends_with("docs") && !path.ends_with("coverage") {
            row(path.file_name().unwrap().to_str().unwrap());
        }
    }
}

#[test]
fn every_pure_folder_denies_clocks_and_io() {
    for folder in PURE {
        let text = fs::read_to_string(root().join(folder).join("mod.rs")).unwrap();
        for lint in ["clippy::disallowed_methods", "clippy::disallowed_types"] {
            assert!(
                text.contains("#![deny(") && text.contains(lint),
                "src/{folder}/mod.rs does not deny {lint}"
            );
        }
    }
}
