//! How short and how long the durations of a spec may be, and the schema rules that say the same.
//!
//! The API server refuses what is out of range. An object of before the rule may hold it still, so it is bounded here
//! as well, and told.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Invalid, duration};

/// A source is looked at, and a release is passed over, at most this often.
pub const INTERVAL_MIN: Duration = Duration::from_secs(10);
/// No operation, wave, hook or wait for definitions lasts longer.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A duration that counts as another one than the spec says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Path of the field, such as `spec.interval`.
    pub field: String,
    /// What it says.
    pub written: String,
    /// What counts instead.
    pub counts: Duration,
}

impl fmt::Display for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, written, counts } = self;
        let (than, counts) = (relation(*counts), duration::format(*counts));
        write!(
            f,
            "{field} is `{written}`, {than} than {counts}: the operator takes {counts}. Write {counts} or "
        )?;
        f.write_str(if than == "shorter" { "more" } else { "less" })
    }
}

fn relation(bound: Duration) -> &'static str {
    if bound == INTERVAL_MIN { "shorter" } else { "longer" }
}

/// Durations of one spec as they count; what was bounded is noted.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub bounded: Vec<Bounded>,
}

impl Bounds {
    /// `spec.interval`.
    ///
    /// # Errors
    /// What is no duration, and zero.
    pub(super) fn interval(
        &mut self,
        field: &str,
        text: Option<&str>,
        default: Duration,
    ) -> Result<Duration, Invalid> {
        let asked = positive(field, text, default)?;
        Ok(self.note(field, text, asked, asked.max(INTERVAL_MIN)))
    }

    /// A field that bounds an operation or a part of one.
    ///
    /// # Errors
    /// What is no duration, and zero.
    pub(super) fn timeout(
        &mut self,
        field: &str,
        text: Option<&str>,
        default: Duration,
    ) -> Result<Duration, Invalid> {
        let asked = positive(field, text, default)?;
        Ok(self.note(field, text, asked, asked.min(TIMEOUT_MAX)))
    }

    fn note(&mut self, field: &str, text: Option<&str>, asked: Duration, counts: Duration) -> Duration {
        if let Some(written) = text.filter(|_| counts != asked) {
            let (field, written) = (field.to_owned(), written.to_owned());
            self.bounded.push(Bounded { field, written, counts });
        }
        counts
    }
}

/// A duration that is more than zero.
pub(super) fn positive(field: &str, text: Option<&str>, default: Duration) -> Result<Duration, Invalid> {
    let Some(text) = text else { return Ok(default) };
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err(Invalid::spec(field, format!("`{text}` is zero: it must be longer"))),
        Ok(duration) => Ok(duration),
        Err(error) => Err(Invalid::spec(field, error.to_string())),
    }
}

/// `x-kubernetes-validations` of `spec.interval`. On the field and not on the root, so that an object of before the rule
/// can be edited as long as this field stays as it is.
pub(super) fn interval_rule() -> Value {
    json!([{"rule": "duration(self) >= duration('10s')", "message": "must be 10s or more"}])
}

/// `x-kubernetes-validations` of each timeout.
pub(super) fn timeout_rule() -> Value {
    json!([{"rule": "duration(self) <= duration('24h')", "message": "must be 24h or less"}])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_at_least_ten_seconds_and_a_timeout_at_most_a_day() {
        let table: [(&str, u64, u64); 7] = [
            ("0.000001ms", 10, 0),
            ("1ms", 10, 0),
            ("9.999s", 10, 9),
            ("10s", 10, 10),
            ("24h", 86_400, 86_400),
            ("24h0.001s", 86_400, 86_400),
            ("1000h", 3_600_000, 86_400),
        ];
        for (text, interval, timeout) in table {
            let mut bounds = Bounds::default();
            let interval = Duration::from_secs(interval);
            let found = bounds.interval("spec.interval", Some(text), Duration::ZERO).unwrap();
            assert_eq!(found.as_secs(), interval.as_secs(), "{text}");
            assert_eq!(bounds.bounded.is_empty(), duration::parse(text).unwrap() >= INTERVAL_MIN, "{text}");
            let mut bounds = Bounds::default();
            let found = bounds.timeout("spec.timeout", Some(text), Duration::ZERO).unwrap();
            assert_eq!(found.as_secs(), timeout, "{text}");
            assert_eq!(bounds.bounded.is_empty(), duration::parse(text).unwrap() <= TIMEOUT_MAX, "{text}");
        }
    }

    #[test]
    fn what_is_bounded_is_told_with_the_field_and_what_counts() {
        let mut bounds = Bounds::default();
        bounds.interval("spec.interval", Some("1ms"), Duration::MAX).unwrap();
        bounds.timeout("spec.waves.timeout", Some("1000h"), Duration::MAX).unwrap();
        let told: Vec<String> = bounds.bounded.iter().map(Bounded::to_string).collect();
        let expected = [
            "spec.interval is `1ms`, shorter than 10s: the operator takes 10s. Write 10s or more",
            "spec.waves.timeout is `1000h`, longer than 24h: the operator takes 24h. Write 24h or less",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_rules_say_what_the_code_does() {
        let rules = [interval_rule(), timeout_rule()].map(|rule| rule.to_string());
        assert!(
            rules[0].contains(&format!(">= duration('{}')", duration::format(INTERVAL_MIN))),
            "{rules:?}"
        );
        assert!(rules[1].contains(&format!("<= duration('{}')", duration::format(TIMEOUT_MAX))), "{rules:?}");
    }
}
