//! Between the engine's values and JSON.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectExt as _, ValueKind};
use minijinja::{Error, ErrorKind, Value as Engine};
use serde_json::{Map, Number, Value};

use super::budget::{Budget, DEPTH, NODE};
use super::text;
use crate::pack::values::Merged;

/// What one value of new data costs: a map of one entry is two of them, and takes some 350 bytes.
const NEW: u64 = 3 * NODE;
/// Longest object that is searched from its start.
const FEW: usize = 8;

/// An object, sorted by its keys. To templates it is what the engine's own map is, and takes half the time to make.
struct Fields(Vec<(Engine, Engine)>);

impl Fields {
    fn find(&self, key: &str) -> Option<Engine> {
        let own = |field: &(Engine, Engine)| field.0.as_str().unwrap_or_default().cmp(key);
        let found = if self.0.len() <= FEW {
            self.0.iter().find(|field| own(field).is_eq())
        } else {
            self.0.binary_search_by(own).ok().and_then(|at| self.0.get(at))
        };
        found.map(|(_, value)| value.clone())
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl Object for Fields {
    fn get_value(self: &Arc<Self>, key: &Engine) -> Option<Engine> {
        self.find(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Engine> {
        self.find(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_key_value_enumerator(|this| Box::new(this.0.iter().cloned()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

/// An object of these fields, which are in the order of their names.
pub(super) fn from_fields<const N: usize>(fields: [(&str, Engine); N]) -> Engine {
    Engine::from_object(Fields(fields.into_iter().map(|(key, value)| (Engine::from(key), value)).collect()))
}

/// What two layers of values are together.
pub(super) fn from_merged(merged: &Merged<'_>) -> Engine {
    match merged {
        Merged::One(value) => from_json(value),
        Merged::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (Engine::from(*key), from_merged(value)));
            Engine::from_object(Fields(fields.collect()))
        }
    }
}

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
            let fields = map.iter().map(|(key, value)| (Engine::from(key.as_str()), from_json(value)));
            Engine::from_object(Fields(fields.collect()))
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

/// Data that did not exist before: all of it is paid for.
pub(super) fn new_data(data: &Value, budget: &Budget) -> Result<Engine, Error> {
    if depth(data) > DEPTH {
        return Err(budget.over(format!("a value is nested more than {DEPTH} levels deep")));
    }
    let value = from_json(data);
    let weight = budget.weigh(&value)?;
    budget.bytes(weight.bytes + NEW * weight.nodes)?;
    Ok(value)
}

/// Parsers stop at 128 levels, so this cannot go deep.
fn depth(data: &Value) -> usize {
    match data {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
