//! Every annotation that means something has a behaviour test, and so has every word that it may have as its value. So it is
//! with the fields of `spec`, the flags of the command line and the keys of `Pack.yaml`, each in a file of its own. What
//! SECURITY.md says to be held is held by tests that exist.

mod code;
mod fields;
mod flags;
mod keys;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::api::annotations::{KNOWN, Wants};
use crate::api::{duration, names};

/// The code of all behaviour tests that are run, without comments.
fn tests() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let list = fs::read_to_string(root.join("behaviour.rs")).unwrap();
    let modules = Regex::new(r"(?m)^    mod ([a-z_]+);$").unwrap();
    let mut code = String::new();
    for module in modules.captures_iter(&list) {
        let text = fs::read_to_string(root.join("behaviour").join(format!("{}.rs", &module[1]))).unwrap();
        code.extend(
            text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")),
        );
    }
    code
}

/// The values that tests give an annotation; one that stands in a variable is empty here.
fn values(code: &str, key: &str) -> BTreeSet<String> {
    let annotation = regex::escape(key);
    let given = Regex::new(&format!(r#""{annotation}"\s*[:,]\s*(?:"([^"]*)")?"#)).unwrap();
    let mut found: BTreeSet<String> = given.captures_iter(code).map(|given| word(given.get(1))).collect();
    if key == names::HOOK {
        // The helper in `tests/support/packs.rs` gives a Job this annotation.
        let helper = Regex::new(r#"\bhook\(\s*"[^"]*",\s*"([^"]*)"#).unwrap();
        found.extend(helper.captures_iter(code).map(|given| word(given.get(1))));
    }
    found.extend(probed(code, key));
    found
}

/// What `probed` in `tests/support/probed.rs` gives an object: what it always does, and its settings.
fn probed(code: &str, annotation: &str) -> Vec<String> {
    if !code.contains("probed(") {
        return Vec::new();
    }
    match annotation {
        names::HEALTH_CHECK => return vec!["true".to_owned()],
        names::HEALTH_CHECK_INTERVAL => return vec!["1s".to_owned()],
        _ => {}
    }
    let setting = annotation.strip_prefix(names::HEALTH_CHECK).and_then(|rest| rest.strip_prefix('-'));
    let Some(setting) = setting else { return Vec::new() };
    let given = Regex::new(&format!(r#"\("{setting}",\s*(?:"([^"]*)")?"#)).unwrap();
    given.captures_iter(code).map(|given| word(given.get(1))).collect()
}

/// Unlike one that is there to be refused.
fn means_something(wants: &Wants, value: &str) -> bool {
    let variable = value.is_empty();
    variable
        || match wants {
            Wants::Integer => value.parse::<i32>().is_ok(),
            Wants::Count | Wants::Codes => value.parse::<u32>().is_ok(),
            Wants::Duration => duration::parse(value).is_ok(),
            _ => true,
        }
}

fn word(found: Option<regex::Match<'_>>) -> String {
    found.map(|text| text.as_str().to_owned()).unwrap_or_default()
}

#[test]
fn every_annotation_has_a_behaviour_test_and_so_has_every_word_of_it() {
    let code = tests();
    let mut missing = Vec::new();
    for (annotation, wants) in KNOWN.iter() {
        let given = values(&code, annotation);
        let words = match wants {
            Wants::Word(words) | Wants::Words(words) => words,
            Wants::Truth => &["true"][..],
            _ => &[],
        };
        if words.is_empty() && !given.iter().any(|value| means_something(wants, value)) {
            missing.push((*annotation).to_owned());
        }
        let tested = |word: &str| given.iter().any(|value| value.split(',').any(|part| part.trim() == word));
        missing.extend(words.iter().filter(|word| !tested(word)).map(|word| format!("{annotation}: {word}")));
    }
    assert!(missing.is_empty(), "no behaviour test gives an object these annotations: {missing:#?}");
}

#[test]
fn values_are_read_as_tests_write_them() {
    let code = r#"
        with_annotation(job, "sherpack.io/hook-weight", weight);
        with_annotation(
            job,
            "helm.sh/hook-delete-policy",
            "hook-failed,hook-succeeded",
        );
        json!({"annotations": {"sherpack.io/drift": "ignore"}});
        pack().object(hook("a", "pre-install"));
    "#;
    let of = |annotation: &str| values(code, annotation).into_iter().collect::<Vec<_>>();
    assert_eq!(of(names::HOOK_WEIGHT), [""]);
    assert_eq!(of(names::HELM_HOOK_DELETE_POLICY), ["hook-failed,hook-succeeded"]);
    assert_eq!(of(names::DRIFT), ["ignore"]);
    assert_eq!(of(names::HOOK), ["pre-install"]);
    assert!(of(names::HELM_HOOK).is_empty());
}

/// The rows of the threats in SECURITY.md, without their head.
fn threats() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md")).unwrap();
    let (_, after) = text.split_once("| A tenant | tries to | What holds | Held by |\n").unwrap();
    after.lines().skip(1).take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
}

#[test]
fn what_holds_a_threat_is_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let list = fs::read_to_string(root.join("behaviour.rs")).unwrap();
    let deeds = fs::read_to_string(root.join("stage/attack/deeds.rs")).unwrap();
    let name = Regex::new(r"^`(?:make attack DEEDS=([a-z]+)|([a-z_]+)::([a-z0-9_]+))`$").unwrap();
    let exists = |held: &str| {
        let Some(found) = name.captures(held) else { return false };
        if let Some(deed) = found.get(1) {
            return deeds.contains(&format!("(\"{}\", self.clone().", deed.as_str()));
        }
        let (file, test) = (&found[2], &found[3]);
        let code = fs::read_to_string(root.join("behaviour").join(format!("{file}.rs"))).unwrap_or_default();
        let test = Regex::new(&format!(r"#\[(?:tokio::)?test[^\]]*\]\s*(?:async )?fn {test}\(")).unwrap();
        list.contains(&format!("    mod {file};\n")) && test.is_match(&code)
    };
    let rows = threats();
    assert!(rows.len() > 25, "only {} threats were found: does the search still work?", rows.len());
    let mut missing = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        missing.extend(cells[3].split(", ").filter(|held| !exists(held)).map(str::to_owned));
    }
    assert!(missing.is_empty(), "SECURITY.md names these, and there is no such test or deed: {missing:#?}");
}
