//! Comparing single values, and saying what a schema wants. No value is ever shown.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Number, Value};

use super::compile::Type;
use crate::pack::shown;

/// Where in the values.
pub(super) enum Path<'p> {
    Root,
    Key(&'p Self, &'p str),
    Index(&'p Self, usize),
}

impl Path<'_> {
    /// As it is written in messages.
    pub(super) fn text(&self) -> String {
        let mut steps = Vec::new();
        let mut at = self;
        loop {
            at = match at {
                Path::Root => break,
                Path::Key(up, key) => {
                    steps.push(format!(".{}", shown(key, 60)));
                    up
                }
                Path::Index(up, index) => {
                    steps.push(format!("[{index}]"));
                    up
                }
            };
        }
        steps.reverse();
        let text: String = steps.concat().chars().take(300).collect();
        text.strip_prefix('.').map(str::to_owned).unwrap_or(text)
    }
}

pub(super) fn is_a(value: &Value, kind: Type) -> bool {
    match kind {
        Type::Null => value.is_null(),
        Type::Boolean => value.is_boolean(),
        Type::Integer => match value {
            Value::Number(number) => !number.is_f64() || number.as_f64().is_some_and(|n| n.fract() == 0.0),
            _ => false,
        },
        Type::Number => value.is_number(),
        Type::String => value.is_string(),
        Type::Array => value.is_array(),
        Type::Object => value.is_object(),
    }
}

pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    let whole = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // Numbers of JSON are finite.
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    if let (Some(number), Some(of)) = (number.as_i64(), of.as_i64()) {
        return number % of == 0;
    }
    let times = number.as_f64().unwrap_or_default() / of.as_f64().unwrap_or(1.0);
    (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
}

pub(super) fn type_names(types: &[Type]) -> String {
    let name = |kind: &Type| match kind {
        Type::Null => "null",
        Type::Boolean => "true or false",
        Type::Integer => "an integer",
        Type::Number => "a number",
        Type::String => "a string",
        Type::Array => "a list",
        Type::Object => "an object",
    };
    types.iter().map(name).collect::<Vec<_>>().join(" or ")
}

pub(super) fn enum_text(options: &[Value]) -> String {
    let mut text = String::from(if options.len() == 1 { "must be " } else { "must be one of " });
    for (index, option) in options.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        if text.len() > 200 {
            text.push_str(", ..");
            break;
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{}", option.to_string().chars().take(60).collect::<String>());
    }
    text
}

pub(super) fn range_text(min: u64, max: u64) -> String {
    match (min, max) {
        (min, u64::MAX) => format!("at least {min}"),
        (0, max) => format!("at most {max}"),
        (min, max) if min == max => format!("exactly {min}"),
        (min, max) => format!("{min} to {max}"),
    }
}
