//! What merging and setting values means.

use serde_json::{Map, Value};

use super::Error;
use crate::manifest;

/// Bytes of one text of values, or of `Pack.yaml`: several times what a release can store.
const BYTES: usize = 1 << 20;

/// Parses one YAML document that must be an object; nothing at all is an empty object.
///
/// # Errors
/// Larger than 1 MiB, not UTF-8, not YAML, more than one document, or not an object. The message has the line.
pub fn parse(text: &[u8], file: &str) -> Result<Value, Error> {
    read(text, file, str::to_owned)
}

/// As [`parse`] for a text whose content must not be shown: the message has the line and quotes nothing.
///
/// # Errors
/// As [`parse`].
pub fn parse_hidden(text: &[u8], file: &str) -> Result<Value, Error> {
    read(text, file, |_| {
        "it is not valid YAML, or repeats a key; it is not shown what stands there".to_owned()
    })
}

fn read(text: &[u8], file: &str, tell: impl Fn(&str) -> String) -> Result<Value, Error> {
    let wrong = |message: String| Error::Values { file: file.to_owned(), message };
    if text.len() > BYTES {
        return Err(Error::ValuesTooLarge { file: file.to_owned(), limit: BYTES });
    }
    let text = std::str::from_utf8(text).map_err(|_| wrong("it is not UTF-8 text".to_owned()))?;
    match manifest::yaml::parse_value(text, file) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(value) => Err(Error::ValuesNotAnObject { file: file.to_owned(), found: noun(&value) }),
        Err(manifest::Error::Yaml { line, message, .. }) => {
            let place = if line > 0 { format!("{file}:{line}") } else { file.to_owned() };
            Err(Error::Values { file: place, message: tell(&message) })
        }
        Err(error) => Err(wrong(tell(&error.to_string()))),
    }
}

/// What a value is, with its article.
fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Scalars, lists and objects in a value, itself included.
#[must_use]
pub fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(map) => map.values().map(nodes).sum(),
        _ => 0,
    }
}

/// Lays `over` on `base`: objects merge key by key, `null` removes a key, everything else replaces.
///
/// A `null` that removes nothing leaves nothing behind either, so merging is the same whatever the
/// defaults say.
#[must_use]
pub fn merge(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(over)) => {
            for (key, over) in over {
                if over.is_null() {
                    base.remove(&key);
                    continue;
                }
                let below = base.remove(&key).unwrap_or(Value::Null);
                base.insert(key, merge(below, over));
            }
            Value::Object(base)
        }
        (_, over @ Value::Object(_)) => merge(Value::Object(Map::new()), over),
        (_, over) => over,
    }
}

/// What [`merge`] gives, without a copy of what only one side has.
#[derive(Clone, Debug, PartialEq)]
pub enum Merged<'v> {
    /// All of it is from one side.
    One(&'v Value),
    /// An object that is made anew, in the order of its keys.
    Object(Vec<(&'v str, Self)>),
}

impl<'v> Merged<'v> {
    /// As [`merge`].
    #[must_use]
    pub fn of(base: &'v Value, over: &'v Value) -> Self {
        let Value::Object(over_fields) = over else { return Self::One(over) };
        let none = Map::new();
        let base_fields = base.as_object().unwrap_or(&none);
        if base_fields.is_empty() && !has_null(over) {
            return Self::One(over);
        }
        if over_fields.is_empty() && base.is_object() {
            return Self::One(base);
        }
        let mut fields: Vec<(&str, Self)> = Vec::with_capacity(base_fields.len() + over_fields.len());
        for (key, base) in base.as_object().into_iter().flatten() {
            match over_fields.get(key) {
                None => fields.push((key, Self::One(base))),
                Some(Value::Null) => {}
                Some(over) => fields.push((key, Self::of(base, over))),
            }
        }
        let below = fields.len();
        for (key, over) in over_fields {
            if !over.is_null() && !base_fields.contains_key(key) {
                fields.push((key, Self::of(&Value::Null, over)));
            }
        }
        if below > 0 && below < fields.len() {
            fields.sort_unstable_by_key(|(key, _)| *key);
        }
        Self::Object(fields)
    }

    /// A copy.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::One(value) => (*value).clone(),
            Self::Object(fields) => Value::Object(
                fields.iter().map(|(key, value)| ((*key).to_owned(), value.to_value())).collect(),
            ),
        }
    }
}

/// Whether a `null` would remove something: those in lists stay.
fn has_null(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.values().any(|value| value.is_null() || has_null(value)))
}

/// Joins two layers of values of a user, the second one stronger. A `null` stays, unlike in [`merge`]:
/// it is still to remove a default of the pack.
#[must_use]
pub fn overlay(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(over)) => {
            for (key, over) in over {
                let below = base.remove(&key).unwrap_or(Value::Null);
                base.insert(key, overlay(below, over));
            }
            Value::Object(base)
        }
        (_, over) => over,
    }
}

/// Applies one `path=value` to a layer of values.
///
/// Keys are separated by dots; `\.` is a dot inside a key, `\,` a comma and `\\` a backslash. `a[0]` addresses a list
/// item; a list grows by at most one item at a time. The value is typed by Helm's rule: `true`,
/// `false` and `null` (removes the default of the pack), an integer only in its canonical form (`8080`, `-1`, but
/// `0123` stays text), everything else text: `1.10` is the text `1.10`.
///
/// # Errors
/// No `=`, an empty key, a list index that is no number or leaves a gap, or a path through a scalar.
pub fn set(values: Value, expression: &str) -> Result<Value, Error> {
    let wrong = |why: String| Error::Set { expression: expression.chars().take(120).collect(), why };
    let Some((path, text)) = expression.split_once('=') else {
        return Err(wrong("write it as path=value".to_owned()));
    };
    let steps = steps(path).map_err(wrong)?;
    set_at(values, &steps, typed(&unescape(text))).map_err(wrong)
}

/// Sets one value at the path that [`steps`] has read; see [`set`].
///
/// # Errors
/// A list index that leaves a gap, or a path through a scalar. The message holds keys of the path and no value.
pub fn set_at(values: Value, steps: &[Step], value: Value) -> Result<Value, String> {
    let mut values = if values.is_object() { values } else { Value::Object(Map::new()) };
    put(&mut values, steps, value)?;
    Ok(values)
}

/// Steps of one path, as deep as values may be nested.
const STEPS: usize = 60;

/// One step of a path through values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// Reads a path such as `a.b\.c[0]`; see [`set`].
///
/// # Errors
/// An empty key, an index that is no number, or too many steps.
pub fn steps(path: &str) -> Result<Vec<Step>, String> {
    let steps = read_steps(path)?;
    if steps.len() > STEPS { Err(format!("it has more than {STEPS} steps")) } else { Ok(steps) }
}

fn read_steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut key = String::new();
    let mut expects_key = true;
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => key.extend(chars.next()),
            '.' | '[' => {
                if !key.is_empty() {
                    steps.push(Step::Key(std::mem::take(&mut key)));
                } else if expects_key {
                    return Err("a key is empty".to_owned());
                }
                expects_key = c == '.';
                if c == '[' {
                    let index: String = chars.by_ref().take_while(|c| *c != ']').collect();
                    let index = index.parse().map_err(|_| format!("`{index}` is not a list index"))?;
                    steps.push(Step::Index(index));
                }
            }
            c => {
                expects_key = false;
                key.push(c);
            }
        }
    }
    if !key.is_empty() {
        steps.push(Step::Key(key));
    } else if expects_key {
        return Err("a key is empty".to_owned());
    }
    Ok(steps)
}

fn put(target: &mut Value, steps: &[Step], value: Value) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        *target = value;
        return Ok(());
    };
    match step {
        Step::Key(key) => {
            if target.is_null() {
                *target = Value::Object(Map::new());
            }
            let Value::Object(map) = target else {
                return Err(format!("`{key}` is below {}, not an object", noun(target)));
            };
            put(map.entry(key.as_str()).or_insert(Value::Null), rest, value)
        }
        Step::Index(index) => {
            if target.is_null() {
                *target = Value::Array(Vec::new());
            }
            let Value::Array(list) = target else {
                return Err(format!("`[{index}]` is on {}, not on a list", noun(target)));
            };
            if *index > list.len() {
                return Err(format!("`[{index}]` leaves a gap: the list has {} items", list.len()));
            }
            if *index == list.len() {
                list.push(Value::Null);
            }
            put(&mut list[*index], rest, value)
        }
    }
}

/// A comma may be written `\,` as Helm wants it. Only that: a value may well be a Windows path.
fn unescape(text: &str) -> String {
    text.replace("\\,", ",")
}

/// The value of a text by the rule of [`set`].
#[must_use]
pub fn typed(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        _ => match text.parse::<i64>() {
            Ok(number) if number.to_string() == text => number.into(),
            _ => text.into(),
        },
    }
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
