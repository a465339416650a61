//! Each kind of change alone, in both directions where it has one.

use std::collections::BTreeSet;

use super::of;
use crate::crd::{Definition, Kind, Severity, admissible, examples};

#[test]
fn every_kind_has_an_example_of_every_severity() {
    let wanted: BTreeSet<(Kind, Severity)> = Kind::ALL
        .iter()
        .flat_map(|kind| kind.severities().iter().map(|severity| (*kind, *severity)))
        .collect();
    let shown: BTreeSet<(Kind, Severity)> =
        examples().iter().map(|example| (example.kind, example.severity)).collect();
    assert_eq!(wanted, shown);
}

#[test]
fn every_example_is_what_it_says() {
    let mut wrong = Vec::new();
    for example in examples() {
        let analysis = of(&example.old, &example.new);
        let found = analysis
            .changes
            .iter()
            .any(|change| (change.kind, change.severity) == (example.kind, example.severity));
        if !found || analysis.verdict() != example.severity {
            wrong.push(format!("{} {}: {:#?}", example.kind, example.severity, analysis.changes));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_example_is_refused_but_those_that_are_blocked() {
    for example in examples() {
        let old = Definition::from_value(&example.old).unwrap();
        let new = Definition::from_value(&example.new).unwrap();
        if example.creatable {
            assert_eq!(admissible(&old), Ok(()), "{}", example.kind);
        }
        if example.severity != Severity::Blocked {
            assert_eq!(admissible(&new), Ok(()), "{}", example.kind);
        }
    }
}

#[test]
fn nothing_differs_from_itself() {
    for example in examples() {
        for document in [&example.old, &example.new] {
            let analysis = of(document, document);
            assert!(analysis.changes.is_empty(), "{:?}", analysis.changes);
            assert_eq!(analysis.verdict(), Severity::Safe);
        }
    }
}
