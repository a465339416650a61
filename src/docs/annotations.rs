//! `annotations.md`, from the table of annotations and the names with their doc comments.

use std::fs;

use super::{Constant, constants, root};
use crate::api::annotations::{KNOWN, Wants};

fn values(wants: Wants) -> String {
    let list = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match wants {
        Wants::Word(words) => list(words),
        Wants::Words(words) => format!("comma list of {}", list(words)),
        Wants::Truth => "`\"true\"`, `\"false\"`".to_owned(),
        Wants::Integer => "integer in quotes".to_owned(),
        Wants::Count => "number from 0, in quotes".to_owned(),
        Wants::Duration => "duration, `90s`".to_owned(),
        Wants::Objects => "comma list of `Kind/name`".to_owned(),
        Wants::Port => "number or name of a port".to_owned(),
        Wants::Codes => "comma list of codes and ranges, `200-399`".to_owned(),
        Wants::Path => "path".to_owned(),
        Wants::Text => "text".to_owned(),
    }
}

pub(super) fn page() -> String {
    let names = constants(&fs::read_to_string(root().join("src/api/names.rs")).unwrap());
    let about = |key: &str| names.iter().find(|name| name.value == key).map_or("", |name| name.doc.as_str());
    let mut body = String::from("## On objects in a pack\n\n| annotation | values | |\n|---|---|---|\n");
    for (key, wants) in KNOWN {
        let text = match key.strip_prefix("helm.sh/") {
            Some(name) => format!(
                "Helm's name of [`sherpack.io/{name}`](#on-objects-in-a-pack); ours wins when both are set."
            ),
            None => about(key).to_owned(),
        };
        body.push_str(&format!("| `{key}` | {} | {text} |\n", values(wants)));
    }
    body.push_str("\n## Other labels and annotations\n\n| name | |\n|---|---|\n");
    let others = names.iter().filter(|Constant { value, .. }| {
        value.starts_with("sherpack.io/")
            && !KNOWN.iter().any(|(key, _)| key == value)
            && !value.ends_with('/')
    });
    for Constant { value, doc, .. } in others {
        body.push_str(&format!("| `{value}` | {doc} |\n"));
    }
    super::page("Annotations and labels", "`src/api/names.rs` and `src/api/annotations.rs`", &body)
}
