use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Compare, Said, brief};
use crate::crd::path::Path;
use crate::crd::same::{data, said};
use crate::crd::{Kind, Severity};

const RULES: &str = "x-kubernetes-validations";

impl Compare<'_> {
    /// CEL rules, told apart by their text: their order means nothing.
    pub(super) fn rules(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>) {
        let (from, to) = (said(old, RULES), said(new, RULES));
        if from.map(data) == to.map(data) {
            return;
        }
        let list = |value: Option<&Value>| value.is_none_or(Value::is_array);
        if !list(from) || !list(to) {
            return self.unhandled(RULES, at, from, to);
        }
        let (before, after) = (by_text(from), by_text(to));
        for (text, (index, rule)) in &after {
            if let Some((_, earlier)) = before.get(text) {
                self.same_rule(earlier, rule, *index, at);
            }
        }
        let gone: Vec<_> =
            before.iter().filter(|(text, _)| !after.contains_key(*text)).map(|(_, rule)| *rule).collect();
        let added: Vec<_> =
            after.iter().filter(|(text, _)| !before.contains_key(*text)).map(|(_, rule)| *rule).collect();
        // As many new ones as old ones are gone: an author rewrote them.
        let rewritten = if gone.len() == added.len() { gone.len() } else { 0 };
        for ((_, old), (index, new)) in gone.iter().zip(&added).take(rewritten) {
            let said =
                Said::new(Kind::ChangeValidationRule, Severity::Dangerous, Some(old), Some(new)).refusing();
            let message = format!(
                "the rule {} became {}: what it refuses cannot be compared",
                rule_text(old),
                rule_text(new)
            );
            self.say(said, &keyword(*index), at, message);
        }
        for (index, rule) in gone.iter().skip(rewritten) {
            let said = Said::new(Kind::RemoveValidationRule, Severity::Safe, Some(rule), None);
            self.say(said, &keyword(*index), at, format!("the rule {} is gone", rule_text(rule)));
        }
        for (index, rule) in added.iter().skip(rewritten) {
            let (severity, when) = if is_transition(rule) {
                (Severity::Warning, "changes of objects may be refused")
            } else {
                (Severity::Dangerous, "existing objects may be refused")
            };
            let said = Said::new(Kind::AddValidationRule, severity, None, Some(rule));
            let said = if severity == Severity::Warning { said } else { said.refusing() };
            self.say(said, &keyword(*index), at, format!("the rule {} is new: {when}", rule_text(rule)));
        }
        if from.map(lines) != to.map(lines) && gone.is_empty() && added.is_empty() {
            // The same rule twice: it means nothing, and yet it differs.
            let said = Said::new(Kind::UpdateValidationMessage, Severity::Safe, from, to);
            self.say(said, RULES, at, "a rule is repeated, or no longer".to_owned());
        }
    }

    fn same_rule(&mut self, old: &Value, new: &Value, index: usize, at: &Path<'_>) {
        let optional = |rule: &Value| rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        if optional(old) != optional(new) {
            let said =
                Said::new(Kind::ChangeValidationRule, Severity::Dangerous, Some(old), Some(new)).refusing();
            let when = if optional(new) { "also for new objects" } else { "for changes only" };
            self.say(said, &keyword(index), at, format!("the rule {} counts {when}", rule_text(new)));
        }
        let known = ["rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"];
        let part = |rule: &Value, wanted: &dyn Fn(&str) -> bool| -> Value {
            let Some(map) = rule.as_object() else { return rule.clone() };
            map.iter()
                .filter(|(key, value)| wanted(key) && !value.is_null())
                .map(|(k, v)| (k.clone(), data(v)))
                .collect()
        };
        let explains = |key: &str| known.contains(&key) && key != "rule" && key != "optionalOldSelf";
        if part(old, &explains) != part(new, &explains) {
            let said = Said::new(Kind::UpdateValidationMessage, Severity::Safe, Some(old), Some(new));
            let message = format!("the rule {} explains itself in another way", rule_text(new));
            self.say(said, &keyword(index), at, message);
        }
        let strange = |key: &str| !known.contains(&key);
        if part(old, &strange) != part(new, &strange) {
            self.unhandled(&keyword(index), at, Some(old), Some(new));
        }
    }
}

type Rules<'s> = BTreeMap<&'s str, (usize, &'s Value)>;

fn by_text(rules: Option<&Value>) -> Rules<'_> {
    let all = rules.and_then(Value::as_array).into_iter().flatten().enumerate();
    all.map(|(index, rule)| {
        (rule.get("rule").and_then(Value::as_str).unwrap_or_default().trim(), (index, rule))
    })
    .collect()
}

fn lines(rules: &Value) -> usize {
    rules.as_array().map_or(0, Vec::len)
}

fn keyword(index: usize) -> String {
    format!("{RULES}[{index}]")
}

fn rule_text(rule: &Value) -> String {
    rule.get("rule").map_or_else(|| brief(rule), |text| format!("`{}`", brief(text).trim_matches('"')))
}

/// Whether a rule needs an object from before to judge one.
fn is_transition(rule: &Value) -> bool {
    let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let uses = text.split(|c| !word(c)).any(|word| word == "oldSelf");
    uses && rule.get("optionalOldSelf") != Some(&Value::Bool(true))
}
