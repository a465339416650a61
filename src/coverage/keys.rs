//! Every key of `Pack.yaml` has a behaviour test that gives it.
//!
//! A test gives a key when its code has a text that is YAML with `apiVersion: sherpack/v1` and the key at its place. In the
//! text of a `format!` the doubled braces are those of YAML. `Pack.yaml` of the packs below `tests/packs` do not count: they are
//! there for their objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::code::{Function, demand, functions, of_file};
use crate::manifest::yaml;
use crate::pack::SECTIONS;

/// Keys that no test gives, each with the reason.
const UNTESTED: &[(&str, &str)] = &[];

fn collect(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(list) => list.iter().for_each(|item| collect(item, path, found)),
        _ => {}
    }
}

/// The paths of all keys in the definitions of packs.
fn given(functions: &[Function]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in functions.iter().flat_map(|function| &function.words) {
        if !text.contains("apiVersion: sherpack/v1\n") {
            continue;
        }
        let formatted = text.replace("{{", "{").replace("}}", "}");
        for text in [text, &formatted] {
            if let Ok(value) = yaml::parse_value(text, "Pack.yaml") {
                collect(&value, "", &mut found);
            }
        }
    }
    found
}

#[test]
fn every_key_of_a_pack_has_a_behaviour_test() {
    let given = given(&functions());
    let join = |section: &str, key: &str| {
        if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
    };
    let all = SECTIONS.iter().flat_map(|(section, keys)| keys.iter().map(|key| join(section, key)));
    let missing: Vec<String> = all.filter(|key| !given.contains(key)).collect();
    demand("a pack these keys", &missing, UNTESTED);
}

#[test]
fn a_key_counts_at_its_place_in_a_pack_only() {
    let code = r##"
        fn test(name: &str) {
            let one = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\ncrds: {upgrade: {strategy: force}}\n";
            let two = format!("apiVersion: sherpack/v1\ndependencies: [{{name: {name}, alias: b}}]\n");
            let no_pack = "apiVersion: v1\nengine: {strict: false}\n";
            // "apiVersion: sherpack/v1\nkind: library\n"
        }
    "##;
    let given = given(&of_file("test", code));
    for path in ["metadata.version", "crds.upgrade.strategy", "dependencies.name", "dependencies.alias"] {
        assert!(given.contains(path), "{path}: {given:?}");
    }
    for path in ["strategy", "engine", "kind", "crds.strategy"] {
        assert!(!given.contains(path), "{path}: {given:?}");
    }
}
