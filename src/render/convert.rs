//! Between the engine's values and JSON.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value as Engine};
use serde_json::{Map, Number, Value};

use super::budget::Budget;
use super::text;

/// Object keys keep their sorted order.
pub(super) fn from_json(value: &Value) -> Engine {
    match value {
        Value::Null => Engine::from(()),
        Value::Bool(value) => Engine::from(*value),
        Value::Number(number) => {
            if let Some(integer) = number.as_i64() {
                Engine::from(integer)
            } else if let Some(integer) = number.as_u64() {
                Engine::from(integer)
            } else {
                Engine::from(number.as_f64().unwrap_or_default())
            }
        }
        Value::String(value) => Engine::from(value.as_str()),
        Value::Array(items) => Engine::from(items.iter().map(from_json).collect::<Vec<_>>()),
        Value::Object(map) => {
            Engine::from_pairs(map.iter().map(|(key, value)| (key.as_str(), from_json(value))))
        }
    }
}

/// Bounded by [`Budget::weigh`]. Undefined is null, as in a list that holds it.
pub(super) fn to_json(value: &Engine, budget: &Budget) -> Result<Value, Error> {
    budget.weigh(value)?;
    convert(value)
}

fn convert(value: &Engine) -> Result<Value, Error> {
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number => number(value)?,
        ValueKind::String => Value::String(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            Value::Array(value.try_iter()?.map(|item| convert(&item)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter()? {
                let item = value.get_item(&key)?;
                map.insert(text::plain(&key), convert(&item)?);
            }
            Value::Object(map)
        }
        other => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("a {other} cannot be written as data"),
            ));
        }
    })
}

fn number(value: &Engine) -> Result<Value, Error> {
    let wrong =
        || Error::new(ErrorKind::InvalidOperation, format!("the number {value} cannot be written as data"));
    if value.is_integer() {
        if let Ok(integer) = i64::try_from(value.clone()) {
            return Ok(integer.into());
        }
        return u64::try_from(value.clone()).map(Value::from).map_err(|_| wrong());
    }
    let float = f64::try_from(value.clone()).map_err(|_| wrong())?;
    Number::from_f64(float).map(Value::Number).ok_or_else(wrong)
}
