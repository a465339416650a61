use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::manifest::group_of;

/// Reads a live object; everything absent or of another type reads as `None`.
#[derive(Clone, Copy)]
pub(super) struct Live<'a> {
    body: &'a Value,
    now: Timestamp,
}

/// One entry of `status.conditions`.
#[derive(Clone, Copy)]
pub(super) struct Condition<'a>(&'a Value);

impl<'a> Live<'a> {
    pub(super) fn new(body: &'a Value, now: Timestamp) -> Self {
        Self { body, now }
    }

    pub(super) fn group(self) -> &'a str {
        self.text("/apiVersion").map_or("", group_of)
    }

    pub(super) fn kind(self) -> &'a str {
        self.text("/kind").unwrap_or_default()
    }

    pub(super) fn value(self, pointer: &str) -> Option<&'a Value> {
        self.body.pointer(pointer).filter(|value| !value.is_null())
    }

    /// Never the empty string.
    pub(super) fn text(self, pointer: &str) -> Option<&'a str> {
        self.value(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    pub(super) fn int(self, pointer: &str) -> Option<i64> {
        self.value(pointer)?.as_i64()
    }

    /// A counter of a status, which leaves out zeros.
    pub(super) fn count(self, pointer: &str) -> i64 {
        self.int(pointer).unwrap_or(0)
    }

    /// An integer, or a string of digits.
    pub(super) fn lenient_int(self, pointer: &str) -> Option<i64> {
        let value = self.value(pointer)?;
        value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    pub(super) fn items(self, pointer: &str) -> impl Iterator<Item = &'a Value> {
        self.value(pointer).and_then(Value::as_array).into_iter().flatten()
    }

    pub(super) fn conditions(self) -> impl Iterator<Item = Condition<'a>> {
        self.items("/status/conditions").map(Condition)
    }

    pub(super) fn condition(self, type_: &str) -> Option<Condition<'a>> {
        self.conditions().find(|condition| condition.type_() == type_)
    }

    /// Time since a moment that the object names; zero when that lies ahead, as clocks differ.
    pub(super) fn since(self, time: &str) -> Option<Duration> {
        let since = self.now.duration_since(time.parse().ok()?);
        Some(since.try_into().unwrap_or(Duration::ZERO))
    }

    /// Time since the object was created.
    pub(super) fn age(self) -> Option<Duration> {
        self.since(self.text("/metadata/creationTimestamp")?)
    }
}

impl<'a> Condition<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        Self(value)
    }

    pub(super) fn type_(self) -> &'a str {
        self.field("type")
    }

    pub(super) fn is_true(self) -> bool {
        self.field("status") == "True"
    }

    pub(super) fn is_false(self) -> bool {
        self.field("status") == "False"
    }

    pub(super) fn reason(self) -> &'a str {
        self.field("reason")
    }

    /// The reason, or `default` for a condition that gives none.
    pub(super) fn reason_or(self, default: &'static str) -> &'a str {
        if self.reason().is_empty() { default } else { self.reason() }
    }

    pub(super) fn message(self) -> &'a str {
        self.field("message")
    }

    pub(super) fn last_transition(self) -> Option<&'a str> {
        Some(self.field("lastTransitionTime")).filter(|time| !time.is_empty())
    }

    pub(super) fn observed_generation(self) -> Option<i64> {
        self.0.get("observedGeneration")?.as_i64()
    }

    fn field(self, name: &str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}
