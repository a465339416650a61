//! How values print.

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use serde_json::Value as Json;

use super::budget::Budget;

/// The text of a value, as it prints. Bounded.
pub(super) fn of<'v>(value: &'v Value, budget: &Budget) -> Result<Cow<'v, str>, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::new();
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let weight = budget.weigh(value)?;
            budget.bytes(weight.bytes + 8 * weight.nodes)?;
            write(&mut out, value)?;
        }
        ValueKind::Undefined => {}
        _ => write(&mut out, value)?,
    }
    Ok(Cow::Owned(out))
}

/// A value inside another one. The caller has weighed it, so this cannot go deep.
fn write(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => out.push_str("undefined"),
        ValueKind::None => out.push_str("none"),
        // The engine would print `True`.
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::String => out.push_str(&Json::from(value.as_str().unwrap_or_default()).to_string()),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (index, item) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write(out, &item)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write(out, &key)?;
                out.push_str(": ");
                write(out, &value.get_item(&key)?)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// A value over several lines, for people who look for a mistake.
pub(super) fn pretty(value: &Value, budget: &Budget) -> Result<String, Error> {
    let weight = budget.weigh(value)?;
    // Each level indents what is in it.
    budget.bytes(weight.bytes + (8 + 4 * weight.depth) * weight.nodes)?;
    let mut out = String::new();
    lines(&mut out, value, 1)?;
    Ok(out)
}

fn lines(out: &mut String, value: &Value, level: usize) -> Result<(), Error> {
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) || value.len() == Some(0) {
        return write(out, value);
    }
    out.push_str(if is_map { "{\n" } else { "[\n" });
    for item in value.try_iter()? {
        out.push_str(&"    ".repeat(level));
        if is_map {
            write(out, &item)?;
            out.push_str(": ");
            lines(out, &value.get_item(&item)?, level + 1)?;
        } else {
            lines(out, &item, level + 1)?;
        }
        out.push_str(",\n");
    }
    out.push_str(&"    ".repeat(level - 1));
    out.push(if is_map { '}' } else { ']' });
    Ok(())
}

/// The text of a scalar, such as a key.
pub(super) fn plain(value: &Value) -> String {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => value.kind().to_string(),
        ValueKind::Undefined | ValueKind::None => String::new(),
        ValueKind::Bool => value.is_true().to_string(),
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}
