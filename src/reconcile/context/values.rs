//! Values as releases refer to them: parsed once while nothing changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::cluster::{Account, Reference};
use crate::pack::values;
use crate::source::lru::WeightedLru;
use crate::source::values::Parsed;

/// What the values kept may weigh together; what was not used for the longest time goes first.
const KEPT_BYTES: usize = 32 << 20;
/// What one scalar, list or map takes in memory, at most.
pub(super) const NODE: usize = 200;
/// Texts kept.
const KEPT: usize = 10_000;

/// A key of an object, and whether its text was read as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::reconcile) struct Place {
    /// As whom it was read, `None` as the operator: what one account may read is not another one's to use.
    pub account: Option<Account>,
    pub reference: Reference,
    pub key: String,
    pub text: bool,
}

/// Parsed values by where they were read, each with the resourceVersion of its object.
pub struct ValuesKept {
    kept: Mutex<WeightedLru<Place, (u64, Parsed)>>,
}

impl Default for ValuesKept {
    fn default() -> Self {
        Self { kept: Mutex::new(WeightedLru::new(KEPT, KEPT_BYTES)) }
    }
}

impl ValuesKept {
    pub(in crate::reconcile) fn get(&self, place: &Place, version: u64) -> Option<Parsed> {
        let mut kept = self.lock();
        // What is out of date counts as no use.
        kept.peek(place).filter(|(found, _)| *found == version)?;
        kept.get(place).map(|(_, parsed)| parsed.clone())
    }

    pub(in crate::reconcile) fn put(&self, place: Place, version: u64, parsed: Parsed) {
        let weight = weight(&parsed);
        self.lock().put(place, (version, parsed), weight);
    }

    /// Drops what was read of objects that no release refers to any more.
    pub(in crate::reconcile) fn retain(&self, referred: impl Fn(&Reference) -> bool) {
        self.lock().retain(|place, _| referred(&place.reference));
    }

    fn lock(&self) -> MutexGuard<'_, WeightedLru<Place, (u64, Parsed)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how much memory they take.
fn weight(parsed: &Parsed) -> usize {
    match parsed {
        Parsed::Values(values) => NODE * values::nodes(values) + texts(values),
        Parsed::Text(text) => text.len(),
        Parsed::Missing => 0,
    }
}

/// Bytes of keys and texts.
fn texts(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(texts).sum(),
        Value::Object(fields) => fields.iter().map(|(key, field)| key.len() + texts(field)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::sync::Arc;

    use super::*;
    use crate::api::ReferenceKind;

    fn place(name: &str) -> Place {
        let reference = Reference::new(ReferenceKind::Secret, "apps", name);
        Place { account: None, reference, key: "values.yaml".to_owned(), text: false }
    }

    #[test]
    fn values_are_given_for_the_version_that_was_read() {
        let kept = ValuesKept::default();
        kept.put(place("a"), 7, Parsed::Missing);
        assert!(kept.get(&place("a"), 7).is_some());
        assert!(kept.get(&place("a"), 8).is_none());
        assert!(kept.get(&Place { text: true, ..place("a") }, 7).is_none());
        let account = Some(Account { namespace: "apps".to_owned(), name: "deployer".to_owned() });
        assert!(kept.get(&Place { account, ..place("a") }, 7).is_none(), "read by somebody else");
        kept.put(place("b"), 7, Parsed::Missing);
        kept.retain(|reference| reference.name == "b");
        assert!(kept.get(&place("a"), 7).is_none() && kept.get(&place("b"), 7).is_some());
    }

    #[test]
    fn the_values_kept_are_bounded_and_the_least_recently_used_go_first() {
        let large = || {
            let items: Vec<Value> = vec![json!(1); KEPT_BYTES / NODE / 3];
            Parsed::Values(Arc::new(json!({ "items": items })))
        };
        let kept = ValuesKept::default();
        for name in ["a", "b"] {
            kept.put(place(name), 1, large());
        }
        assert!(kept.get(&place("a"), 1).is_some());
        kept.put(place("c"), 1, large());
        assert!(kept.get(&place("b"), 1).is_none(), "used longer ago than the first");
        assert!(kept.get(&place("a"), 1).is_some() && kept.get(&place("c"), 1).is_some());
        for number in 0..KEPT + 5 {
            kept.put(place(&number.to_string()), 1, Parsed::Missing);
        }
        let inner = kept.lock();
        assert_eq!(inner.len(), KEPT);
        assert!(inner.iter().all(|(_, (_, parsed))| weight(parsed) == 0), "the large ones were the oldest");
    }
}
