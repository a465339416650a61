//! Links between the documents: each file and each anchor exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use regex::Regex;

use super::root;
use crate::layers;

/// All documents for people.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/samples/README.md"]
            .iter()
            .map(|name| root().join(name))
            .filter(|file| file.exists())
            .collect();
    layers::files(&root().join("docs"), "md", &mut found);
    found
}

/// The text without its blocks of code.
fn without_code(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = without_code(text);
    let headings = headings
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings
        .map(|heading| {
            let kept = heading.to_lowercase();
            kept.chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut broken = Vec::new();
    let mut checked = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for found in link.captures_iter(&without_code(&text)) {
            let target = &found[1];
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let there = file.exists();
            let anchored = anchor.is_empty()
                || fs::read_to_string(&file).is_ok_and(|text| anchors(&text).contains(anchor));
            if !there || !anchored {
                broken.push(format!("{}: {target}", document.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(checked > 5, "only {checked} links were found: does the search still work?");
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn anchors_are_those_of_the_pages() {
    let text = "# Whose rights\n```\n# no heading\n```\n### spec.pack.http\n## `list --stale`, and more\n";
    let anchors = anchors(text);
    for anchor in ["whose-rights", "specpackhttp", "list---stale-and-more"] {
        assert!(anchors.contains(anchor), "{anchor} of {anchors:?}");
    }
    assert_eq!(anchors.len(), 3);
}
