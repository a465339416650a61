//! Keeps what came from Secrets out of messages: of templates, and of the API server about objects made of it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Error, Pass};
use crate::pack::layers::{Content, Layer};

/// A shorter text is no secret, and would be found in every message.
const SHORTEST: usize = 4;
/// What stands in its place.
const HIDDEN: &str = "(from a Secret)";

impl Pass<'_> {
    /// The message without what Secrets hold.
    pub(super) fn hidden(&self, message: String) -> String {
        hide(&message, &self.secrets).unwrap_or(message)
    }

    /// The error without what Secrets hold.
    pub(super) fn hidden_error(&self, error: Error) -> Error {
        // What is told of a fetch has nothing of values in it.
        if error.is_conflict() || error.is_blind() || error.wakes() {
            return error;
        }
        match hide(&error.to_string(), &self.secrets) {
            Some(message) => Error::Hidden { reason: error.reason(), class: error.class(), message },
            None => error,
        }
    }
}

/// The text without any line of any text or number of these layers; `None` when there is none in it.
fn hide(text: &str, layers: &[Layer]) -> Option<String> {
    let mut found = BTreeSet::new();
    for layer in layers {
        match &layer.content {
            Content::Values(values) => find(text, values, &mut found),
            Content::At(_, value) => find(text, value, &mut found),
        }
    }
    let mut found: Vec<String> = found.into_iter().collect();
    // One may be a part of another.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let hidden = found.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN));
    (!found.is_empty()).then_some(hidden)
}

fn find(text: &str, value: &Value, found: &mut BTreeSet<String>) {
    let mut look = |secret: &str| {
        if secret.len() >= SHORTEST && text.contains(secret) {
            found.insert(secret.to_owned());
        }
    };
    match value {
        Value::String(secret) => secret.lines().map(str::trim).for_each(look),
        Value::Number(number) => look(&number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| find(text, item, found)),
        Value::Object(fields) => fields.values().for_each(|field| find(text, field, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_in_a_message_of_a_secret_is_replaced_whole() {
        let values = json!({
            "user": {"password": "hunter2hunter", "pin": 123_456}, "list": ["hunter2"], "short": "is",
            "key": "-----BEGIN KEY-----\n  MIIabc\n-----END KEY-----\n",
        });
        let origin = "Secret/apps/web#values.yaml".to_owned();
        let at = Content::At(Vec::new(), json!("tok3n"));
        let layers = [Content::Values(Arc::new(values)), at].map(|content| Layer {
            origin: origin.clone(),
            field: String::new(),
            content,
        });
        let hide = |text: &str| hide(text, &layers);
        assert_eq!(
            hide("`hunter2hunter` is not a number, hunter2 is neither").unwrap(),
            "`(from a Secret)` is not a number, (from a Secret) is neither"
        );
        for text in ["a 123456 b", "a MIIabc b", "a tok3n b"] {
            assert_eq!(hide(text).unwrap(), "a (from a Secret) b");
        }
        assert_eq!(hide("nothing is in here"), None);
    }
}
