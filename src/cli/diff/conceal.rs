//! Keeps back what is secret, so that what is printed tells no more than that it differs.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::manifest::ObjectId;
use crate::manifest::differences::{Difference, is_secret_content, redact};
use crate::pack::layers;
use crate::storage::Stored;

const REDACTED: &str = "<redacted>";
const CHANGED: &str = "<redacted, changed>";
/// A shorter text is no secret, and would be found everywhere.
const SHORTEST: usize = 4;

/// What some revisions got from Secrets or made up themselves, the longest first: one may be a part of another.
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    pub(super) fn of(revisions: &[&Stored]) -> Self {
        let mut texts = BTreeSet::new();
        for stored in revisions {
            let record = &stored.record;
            for (_, value, source) in layers::leaves(&record.values, &record.values_provenance.sources) {
                if layers::describe(source).contains("Secret/") {
                    take(value, &mut texts);
                }
            }
            for secret in stored.private.iter().flat_map(|private| private.secrets.values()) {
                take(&secret.expose().into(), &mut texts);
            }
        }
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self(texts)
    }

    /// The text without any of them.
    pub(super) fn hidden(&self, text: &str) -> String {
        self.hide(text, REDACTED)
    }

    /// Both values of a field as they may be shown. Two that differ are told from each other, whatever is kept back.
    pub(super) fn values(&self, id: &ObjectId, one: &Difference<'_>) -> (Option<Value>, Option<Value>) {
        let (mut old, mut new) = (one.old.cloned(), one.new.cloned());
        let changed = if old.is_some() { CHANGED } else { REDACTED };
        if is_secret_content(id, &one.at) {
            old.iter_mut().for_each(|value| redact(value, REDACTED));
            new.iter_mut().for_each(|value| redact(value, changed));
            return (old, new);
        }
        old.iter_mut().for_each(|value| self.cover(value, REDACTED));
        let mut shown = new.clone();
        shown.iter_mut().for_each(|value| self.cover(value, REDACTED));
        if shown == old {
            shown = new.take();
            shown.iter_mut().for_each(|value| self.cover(value, changed));
        }
        (old, shown)
    }

    fn cover(&self, value: &mut Value, word: &str) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| self.cover(value, word)),
            Value::Array(items) => items.iter_mut().for_each(|value| self.cover(value, word)),
            Value::String(text) => *text = self.hide(text, word),
            Value::Number(number) if self.0.contains(&number.to_string()) => *value = word.into(),
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    fn hide(&self, text: &str, word: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), word))
    }
}

/// A value as a whole, line by line, and as it stands in a Secret.
fn take(value: &Value, texts: &mut BTreeSet<String>) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return,
    };
    let encoded = BASE64.encode(&text);
    let lines = text.lines().map(|line| line.trim().to_owned());
    texts.extend(lines.chain([encoded]).filter(|line| line.len() >= SHORTEST));
    if text.len() >= SHORTEST {
        texts.insert(text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::differences::compare;

    fn shown(secrets: &[&str], kind: &str, old: &Value, new: &Value) -> Vec<(Option<Value>, Option<Value>)> {
        let mut texts = BTreeSet::new();
        secrets.iter().for_each(|secret| take(&json!(secret), &mut texts));
        let secrets = Secrets(texts.into_iter().collect());
        let id = ObjectId { kind: kind.to_owned(), ..ObjectId::default() };
        compare(old, new).iter().map(|one| secrets.values(&id, one)).collect()
    }

    #[test]
    fn a_value_of_a_secret_is_told_to_differ_and_no_more() {
        let old = json!({"data": {"a": "b25l", "b": "dHdv"}, "type": "Opaque"});
        let new = json!({"data": {"a": "dHdv", "c": "dHdv"}, "type": "other"});
        let text = |text: &str| Some(json!(text));
        let expected = [
            (text("<redacted>"), text("<redacted, changed>")),
            (text("<redacted>"), None),
            (None, text("<redacted>")),
            (text("Opaque"), text("other")),
        ];
        assert_eq!(shown(&[], "Secret", &old, &new), expected);
        let all = shown(&[], "Secret", &json!({}), &json!({"data": {"a": "b25l"}}));
        assert_eq!(all, [(None, Some(json!({"a": "<redacted>"})))]);
    }

    #[test]
    fn what_came_from_a_secret_is_kept_back_wherever_it_stands() {
        let encoded = BASE64.encode("hunter2");
        let old = json!({"data": {"url": "a:hunter2@x", "same": "hunter2", "b": encoded, "n": 1}});
        let new = json!({"data": {"url": "a:hunter2@y", "same": "hunter3", "b": "z", "n": 2}});
        let found = shown(&["hunter2", "hunter3"], "ConfigMap", &old, &new);
        let text = |text: &str| Some(json!(text));
        let expected = [
            (text("<redacted>"), text("z")),
            (Some(json!(1)), Some(json!(2))),
            (text("<redacted>"), text("<redacted, changed>")),
            (text("a:<redacted>@x"), text("a:<redacted>@y")),
        ];
        assert_eq!(found, expected);
    }
}
