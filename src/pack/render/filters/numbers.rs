//! Filters on numbers. No error shows the value: it may be a secret.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::Input as _;
use crate::pack::render::budget::wrong;
use crate::pack::render::scope::Scope;

pub(super) fn register(engine: &mut Environment<'static>) {
    add!(engine, "int", |_b, v: &Value| to_int(v)?);
    add!(engine, "float", |_b, v: &Value| to_float(v)?);
    add!(engine, "floor", |_b, v: &Value| rounded(v, f64::floor)?);
    add!(engine, "round", |_b, v: &Value, digits: Option<i32>| round(v, digits.unwrap_or(0))?);
    add!(engine, "ceil", |_b, v: &Value| rounded(v, f64::ceil)?);
}

/// Halves go away from zero.
fn round(value: &Value, digits: i32) -> Result<Value, Error> {
    if value.kind() != ValueKind::Number {
        return Err(wrong(format!("a number is needed, not a {}", value.kind())));
    }
    if value.is_integer() {
        return Ok(value.clone());
    }
    let factor = 10_f64.powi(digits);
    Ok(Value::from((to_float(value)? * factor).round() / factor))
}

fn rounded(value: &Value, round: fn(f64) -> f64) -> Result<i64, Error> {
    if value.kind() != ValueKind::Number {
        return Err(wrong(format!("a number is needed, not a {}", value.kind())));
    }
    match value.as_i64().filter(|_| value.is_integer()) {
        Some(integer) => Ok(integer),
        None => to_int(&Value::from(round(to_float(value)?))),
    }
}

pub(in crate::pack::render) fn to_int(value: &Value) -> Result<i64, Error> {
    let cannot = || wrong(format!("this {} cannot become an integer", value.kind()));
    if let Some(integer) = value.as_i64() {
        return Ok(integer);
    }
    let float = match (value.kind(), value.as_str()) {
        (ValueKind::Bool, _) => return Ok(i64::from(value.is_true())),
        (ValueKind::Number, _) => f64::try_from(value.clone()).map_err(|_| cannot())?,
        (_, Some(text)) if text.len() > 100 => return Err(cannot()),
        (_, Some(text)) => match text.trim().parse::<i64>() {
            Ok(integer) => return Ok(integer),
            Err(_) => text.trim().parse::<f64>().map_err(|_| cannot())?,
        },
        _ => return Err(cannot()),
    };
    // 2^63 as a float; a cast beyond it would silently saturate.
    if float.is_finite() && float.abs() < 9.223_372_036_854_775e18 { Ok(float as i64) } else { Err(cannot()) }
}

pub(in crate::pack::render) fn to_float(value: &Value) -> Result<f64, Error> {
    let cannot = || wrong(format!("this {} cannot become a float", value.kind()));
    match (value.kind(), value.as_str()) {
        (ValueKind::Number, _) => f64::try_from(value.clone()).map_err(|_| cannot()),
        (ValueKind::Bool, _) => Ok(if value.is_true() { 1.0 } else { 0.0 }),
        (_, Some(text)) if text.len() <= 100 => text.trim().parse().map_err(|_| cannot()),
        _ => Err(cannot()),
    }
}
