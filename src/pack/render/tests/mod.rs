//! Behaviour of the whole folder, through its one entry.

mod every;
mod files;
mod functions;
mod generated;
mod golden;
mod hostile;
mod language;
mod lookups;
mod mistakes;
mod published;
mod size;
mod subpacks;

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Capabilities, Error, Input, Lookup, NoCluster, Rendered, Secrets, Source, Stop, render};
use crate::pack::{Files, Limits, Pack, from_files};

fn pack(definition: &str, files: &[(&str, &str)]) -> Pack {
    let base = "apiVersion: sherpack/v1\nmetadata: {name: demo, version: 1.2.3, appVersion: '4'}\n";
    let mut all: Files =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    all.insert("Pack.yaml".to_owned(), format!("{base}{definition}").into_bytes());
    from_files(all, &Limits::default()).unwrap()
}

fn run(pack: &Pack, values: &Value) -> Result<Rendered, Error> {
    run_with(pack, values, &(Arc::new(NoCluster) as Arc<dyn Lookup>), &Secrets::new(), &Stop::default())
}

/// A render with everything that is not the same in all tests.
fn run_with(
    pack: &Pack,
    values: &Value,
    lookup: &Arc<dyn Lookup>,
    kept: &Secrets,
    stop: &Stop,
) -> Result<Rendered, Error> {
    render(pack, &input(values, lookup, kept, stop))
}

static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(|| Capabilities {
    kube_version: "v1.33.2".to_owned(),
    api_versions: vec!["v1".to_owned(), "apps/v1".to_owned()],
});

fn input<'a>(values: &'a Value, lookup: &'a Arc<dyn Lookup>, kept: &'a Secrets, stop: &'a Stop) -> Input<'a> {
    Input {
        release_name: "shop",
        namespace: "apps",
        revision: 3,
        is_upgrade: true,
        values,
        capabilities: &CAPABILITIES,
        now: "2026-03-01T12:30:15.999Z".parse::<Timestamp>().unwrap(),
        seed: "uid/3",
        secrets: Source { kept, random: &[7; 32], made: None },
        lookup,
        stop,
    }
}

/// The text of one template, through the notes, which may be any text.
fn text_of(template: &str, values: &Value) -> Result<String, Error> {
    Ok(run(&pack("", &[("templates/NOTES.txt", template)]), values)?.notes.unwrap_or_default())
}

/// Each template gives this text.
#[track_caller]
fn all_give(rows: &[(&str, &str)]) {
    let values = json!({
        "name": "shop", "n": 3, "f": 1.5, "yes": true, "empty": "", "list": ["b", "a", "b"],
        "map": {"b": 2, "a": {"deep": [1, "x"]}}, "big": 9_007_199_254_740_993_u64, "text": "a: 'b'\n\nc \"d\" \\",
    });
    for (template, expected) in rows {
        match text_of(template, &values) {
            Ok(text) => assert_eq!(text, *expected, "{template}"),
            Err(error) => panic!("{template}: {error}"),
        }
    }
}

/// The error of a template.
#[track_caller]
fn failure(template: &str) -> Error {
    let shown: String = template.chars().take(300).collect();
    match text_of(template, &json!({})) {
        Ok(text) => {
            panic!("`{shown}` rendered {} bytes: {}", text.len(), text.chars().take(200).collect::<String>())
        }
        Err(error) => error,
    }
}
