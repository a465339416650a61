use serde_json::{Map, Value};

use super::bounds::moved;
use super::{Compare, Said, Sense, Turn, brief};
use crate::crd::path::Path;
use crate::crd::same::{data, said, same};
use crate::crd::{Kind, Severity};

impl Compare<'_> {
    /// Keywords about the value as such: enum, pattern, null, default.
    pub(super) fn values(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
        sense: Sense,
    ) {
        self.enumeration(said(old, "enum"), said(new, "enum"), at, sense);
        let (from, to) = (said(old, "pattern"), said(new, "pattern"));
        if !same("pattern", from, to) {
            let turn = match (from, to) {
                (None, _) => Turn::Tighter,
                (_, None) => Turn::Looser,
                _ => Turn::Other,
            };
            self.constraint(turn, "pattern", at, sense, (from, to), moved("pattern", from, to));
        }
        let (from, to) = (said(old, "nullable"), said(new, "nullable"));
        if !same("nullable", from, to) {
            let (said, message) = if to.is_some() {
                (Said::new(Kind::AllowNull, Severity::Safe, from, to), "null is valid")
            } else {
                let said = Said::new(Kind::ForbidNull, Severity::Dangerous, from, to).refusing();
                (said, "null is no longer valid")
            };
            self.say(said, "nullable", at, message.to_owned());
        }
        self.default(said(old, "default"), said(new, "default"), at);
    }

    fn default(&mut self, old: Option<&Value>, new: Option<&Value>, at: &Path<'_>) {
        if same("default", old, new) {
            return;
        }
        let kind = match (old, new) {
            (None, _) => Kind::AddDefault,
            // For a required field the parent says more; see `fields`.
            (_, None) => Kind::RemoveDefault,
            _ => Kind::ChangeDefault,
        };
        let message =
            format!("{}: objects without a value change as they are read", moved("default", old, new));
        self.say(Said::new(kind, Severity::Warning, old, new), "default", at, message);
    }

    fn enumeration(&mut self, old: Option<&Value>, new: Option<&Value>, at: &Path<'_>, sense: Sense) {
        if same("enum", old, new) {
            return;
        }
        let (Some(Value::Array(from)), Some(Value::Array(to))) = (old, new) else {
            let turn = match (old, new) {
                (None, _) => Turn::Tighter,
                (_, None) => Turn::Looser,
                _ => Turn::Other,
            };
            return self.constraint(turn, "enum", at, sense, (old, new), moved("enum", old, new));
        };
        let less = |from: &[Value], to: &[Value]| -> Vec<Value> {
            let known: std::collections::BTreeSet<String> =
                to.iter().map(|value| data(value).to_string()).collect();
            from.iter().filter(|value| !known.contains(&data(value).to_string())).cloned().collect()
        };
        let (gone, added) = (less(from, to), less(to, from));
        let list = |values: &[Value]| {
            const MOST: usize = 10;
            let mut texts: Vec<String> = values.iter().take(MOST).map(brief).collect();
            if values.len() > MOST {
                texts.push(format!("and {} more", values.len() - MOST));
            }
            texts.join(", ")
        };
        if matches!(sense, Sense::Inverted | Sense::Unclear) {
            let turn = match (gone.is_empty(), added.is_empty()) {
                (false, true) => Turn::Tighter,
                (true, false) => Turn::Looser,
                _ => Turn::Other,
            };
            return self.constraint(turn, "enum", at, sense, (old, new), moved("enum", old, new));
        }
        if !gone.is_empty() {
            let said = Said::new(Kind::RemoveEnumValue, Severity::Dangerous, old, new).refusing();
            self.say(said, "enum", at, format!("{} is no longer valid", list(&gone)));
        }
        if !added.is_empty() {
            let said = Said::new(Kind::AddEnumValue, Severity::Warning, old, new);
            self.say(said, "enum", at, format!("{} is valid, and clients may not know it", list(&added)));
        }
    }
}
