use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Compare, Said, Sense, Turn, map};
use crate::crd::path::{Path, Step};
use crate::crd::same::{is_implied, said, schema};
use crate::crd::{Kind, Severity};

impl Compare<'_> {
    /// `allOf`, `anyOf`, `oneOf` and `not`.
    pub(super) fn branches(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
        sense: Sense,
    ) {
        for word in ["allOf", "anyOf", "oneOf"] {
            let (from, to) = (branches(old, word), branches(new, word));
            match (&from, &to) {
                (Some(from), Some(to)) => self.alternatives(word, (from, to), (old, new), at, sense),
                (None, None) if said(old, word).map(schema) == said(new, word).map(schema) => {}
                _ if own(old, word).is_none() && own(new, word).is_none() => {}
                (None, _) => {
                    let message = format!("{word} is new: objects that do not fit are refused");
                    self.constraint(Turn::Tighter, word, at, sense, (None, new.get(word)), message);
                }
                // What was a union may now be none or several of its cases.
                (_, None) if word == "oneOf" && matches!(sense, Sense::Structure | Sense::Same) => {
                    let said = Said::new(Kind::RelaxValidation, Severity::Warning, old.get(word), None);
                    let message = "oneOf is gone: clients may meet none or several of its cases".to_owned();
                    self.say(said, word, at, message);
                }
                (_, None) => {
                    let message = format!("{word} is gone");
                    self.constraint(Turn::Looser, word, at, sense, (old.get(word), None), message);
                }
            }
        }
        match (said(old, "not"), said(new, "not")) {
            (Some(old), Some(new)) => self.below(old, new, &at.then(Step::Not), sense.below_not()),
            (None, None) => {}
            (None, to) => {
                let message = "not is new: objects that fit it are refused".to_owned();
                self.constraint(Turn::Tighter, "not", at, sense, (None, to), message);
            }
            (from, None) => {
                self.constraint(Turn::Looser, "not", at, sense, (from, None), "not is gone".to_owned());
            }
        }
    }

    fn alternatives(
        &mut self,
        word: &'static str,
        (from, to): (&[&Value], &[&Value]),
        (old, new): (&Map<String, Value>, &Map<String, Value>),
        at: &Path<'_>,
        sense: Sense,
    ) {
        let (gone, added) = (unmatched(from, to), unmatched(to, from));
        let inner = if word == "oneOf" { Sense::Unclear } else { sense.below_branch() };
        let paired = if gone.len() == added.len() { gone.len() } else { 0 };
        for ((_, old), (index, new)) in gone.iter().zip(&added).take(paired) {
            let before = self.out.len();
            self.below(old, new, &at.then(Step::Branch(word, *index)), inner);
            if self.out.len() == before {
                self.unhandled(&format!("{word}[{index}]"), at, Some(old), Some(new));
            }
        }
        for (index, branch) in gone.iter().skip(paired) {
            let turn = if word == "allOf" { Turn::Looser } else { Turn::Tighter };
            let message = format!("a case of {word} is gone: {}", super::brief(branch));
            self.constraint(turn, &format!("{word}[{index}]"), at, sense, (Some(branch), None), message);
        }
        for (index, branch) in added.iter().skip(paired) {
            let turn = match word {
                "allOf" => Turn::Tighter,
                "oneOf" if !is_case_of_new_field(branch, old, new) => Turn::Other,
                _ => Turn::Looser,
            };
            let message = format!("a case of {word} is new: {}", super::brief(branch));
            self.constraint(turn, &format!("{word}[{index}]"), at, sense, (None, Some(branch)), message);
        }
    }
}

/// The list of a junctor, when it says anything of its own.
fn branches<'s>(schema: &'s Map<String, Value>, word: &str) -> Option<Vec<&'s Value>> {
    Some(own(schema, word)?.as_array()?.iter().collect())
}

/// Without the branches that `x-kubernetes-int-or-string` implies.
fn own<'s>(schema: &'s Map<String, Value>, word: &str) -> Option<&'s Value> {
    let value = said(schema, word)?;
    let implied = is_implied(word, value) && said(schema, "x-kubernetes-int-or-string").is_some();
    (!implied).then_some(value)
}

/// The branches that the other list does not have, with their places.
fn unmatched<'s>(list: &[&'s Value], other: &[&'s Value]) -> Vec<(usize, &'s Value)> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for branch in other {
        *known.entry(schema(branch).to_string()).or_default() += 1;
    }
    let mut left = Vec::new();
    for (index, branch) in list.iter().enumerate() {
        match known.get_mut(&schema(branch).to_string()) {
            Some(count) if *count > 0 => *count -= 1,
            _ => left.push((index, *branch)),
        }
    }
    left
}

/// A union got one more member: its case asks for nothing but a field that no object can have yet.
fn is_case_of_new_field(branch: &Value, old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let Some(branch) = branch.as_object() else { return false };
    if branch.keys().any(|keyword| keyword != "required")
        || said(old, "x-kubernetes-preserve-unknown-fields").is_some()
    {
        return false;
    }
    let (before, after) = (map(old, "properties"), map(new, "properties"));
    let wanted: BTreeSet<&str> = branch
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    wanted.iter().any(|field| after.contains_key(*field) && !before.contains_key(*field))
}
