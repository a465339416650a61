//! What holds of the pages that people write: README is short, and no reason is left without a way out.

use std::fs;

use super::{reasons, root};

/// Words of README, code and tables included.
const README_WORDS: usize = 700;

#[test]
fn readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let words = text.split_whitespace().count();
    assert!(
        words <= README_WORDS,
        "README.md has {words} words, {README_WORDS} are allowed: move facts to docs/"
    );
}

#[test]
fn every_reason_stands_in_troubleshooting() {
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let reasons = reasons::page();
    let reasons: Vec<&str> = reasons.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert!(reasons.len() > 100, "only {} reasons were found: does the search still work?", reasons.len());
    let absent: Vec<&str> = reasons
        .into_iter()
        .filter(|reason| !page.contains(&format!("(reference/reasons.md#{})", reason.to_lowercase())))
        .collect();
    assert!(absent.is_empty(), "docs/troubleshooting.md has no row for {absent:?}");
}
