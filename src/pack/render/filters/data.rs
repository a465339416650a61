//! Filters on lists and maps, and between data and text.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};
use serde_json::Value as Json;

use super::{Input as _, Text, printf, yaml};
use crate::manifest;
use crate::pack::render::budget::{Budget, NODE, wrong};
use crate::pack::render::convert::{self, new_data};
use crate::pack::render::scope::Scope;
use crate::pack::render::text;

/// Longest text that `fromjson` and `fromyaml` take.
const PARSE: usize = 2 << 20;

/// Most commas, colons and open brackets of such a JSON text: data takes far more memory than its text. The YAML reader
/// has a limit of its own.
const ITEMS: usize = 150_000;

#[expect(clippy::too_many_lines, reason = "a table: the register of these filters")]
pub(super) fn register(engine: &mut Environment<'static>) {
    add!(engine, "toyaml", |b, v: &Value| yaml::of(&convert::to_json(v, b)?));
    engine.add_filter(
        "tojson",
        |state: &mut State<'_, '_>, v: &Value, options: Kwargs| -> Result<Value, Error> {
            let budget = Scope::budget(state)?;
            budget.defined(v)?;
            let indent: Option<bool> = options.get::<Option<&Value>>("indent")?.map(Value::is_true);
            options.assert_all_used()?;
            let json = convert::to_json(v, budget)?;
            let text = if indent == Some(true) { format!("{json:#}") } else { json.to_string() };
            budget.keep(Value::from(text))
        },
    );
    add!(engine, "tojson_pretty", |b, v: &Value| format!("{:#}", convert::to_json(v, b)?));
    add!(engine, "fromyaml", |b, v: Text<'_>| from_yaml(&v, b)?);
    add!(engine, "fromjson", |b, v: Text<'_>| from_json(&v, b)?);
    add_lenient!(engine, "required", |_b, v: &Value, message: Option<Text<'_>>| required(
        v,
        message.as_deref()
    )?);
    add_lenient!(engine, "empty", |_b, v: &Value| is_empty(v));
    add_lenient!(engine, "haskey", |b, v: &Value, key: Text<'_>| {
        b.steps(key.len() as u64 / 64)?;
        v.get_attr(&key).is_ok_and(|found| !found.is_undefined())
    });
    add!(engine, "keys", |_b, v: &Value| match v.is_undefined() {
        true => Vec::new(),
        false => map(v)?.try_iter()?.collect::<Vec<Value>>(),
    });
    add!(engine, "values", |_b, v: &Value| {
        let keys: Vec<Value> = map(v)?.try_iter()?.collect();
        keys.iter().map(|key| v.get_item(key)).collect::<Result<Vec<Value>, Error>>()?
    });
    add!(engine, "merge", |b, base: &Value, over: &Value| {
        let (mut base, over) = (convert::to_json(base, b)?, convert::to_json(over, b)?);
        merge(&mut base, over);
        new_data(&base, b)?
    });
    add!(engine, "pick", |b, v: &Value, names: Rest<Value>| filter_keys(v, &names, true, b)?);
    add!(engine, "omit", |b, v: &Value, names: Rest<Value>| filter_keys(v, &names, false, b)?);
    add!(engine, "append", |b, v: &Value, item: Value| {
        let mut items = items(v, b)?;
        items.push(item);
        items
    });
    add!(engine, "prepend", |b, v: &Value, item: Value| {
        let mut items = items(v, b)?;
        items.insert(0, item);
        items
    });
    add!(engine, "concat", |b, v: &Value, others: Rest<Value>| {
        let mut all = items(v, b)?;
        for other in others.iter() {
            all.extend(items(other, b)?);
        }
        all
    });
    add!(engine, "without", |b, v: &Value, unwanted: Rest<Value>| {
        let items = items(v, b)?;
        pay_for_search(items.len(), &unwanted, b)?;
        items.into_iter().filter(|item| !unwanted.contains(item)).collect::<Vec<Value>>()
    });
    add!(engine, "compact", |b, v: &Value| items(v, b)?
        .into_iter()
        .filter(|item| !is_empty(item))
        .collect::<Vec<Value>>());
    add!(engine, "format", |b, v: Text<'_>, args: Rest<Value>| printf(&v, &args, true, b)?);
    engine.add_filter("tostrings", |state: &mut State<'_, '_>, v: &Value, options: Kwargs| {
        to_strings(v, &options, Scope::budget(state)?)
    });
}

pub(in crate::pack::render) fn from_yaml(text: &str, budget: &Budget) -> Result<Value, Error> {
    check_parse(text, budget)?;
    let data = manifest::yaml::parse_value(text, "fromyaml").map_err(|error| wrong(error.to_string()))?;
    new_data(&data, budget)
}

pub(in crate::pack::render) fn from_json(text: &str, budget: &Budget) -> Result<Value, Error> {
    check_parse(text, budget)?;
    let items = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    if items > ITEMS {
        return Err(budget.over(format!("a text to parse has more than {ITEMS} fields and items")));
    }
    let data: Json = serde_json::from_str(text).map_err(|error| wrong(format!("fromjson: {error}")))?;
    new_data(&data, budget)
}

fn check_parse(text: &str, budget: &Budget) -> Result<(), Error> {
    budget.steps(text.len() as u64 / 4)?;
    if text.len() > PARSE {
        return Err(budget.over(format!("a text to parse is larger than {} MiB", PARSE >> 20)));
    }
    budget.bytes(text.len() as u64)
}

/// Lays one map on another; everything else takes the place of what was there. Both were weighed.
fn merge(base: &mut Json, over: Json) {
    match (base, over) {
        (Json::Object(base), Json::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Json::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

fn required(value: &Value, message: Option<&str>) -> Result<Value, Error> {
    let missing = value.is_undefined() || value.is_none() || value.as_str() == Some("");
    if missing {
        return Err(wrong(message.unwrap_or("a required value is missing").to_owned()));
    }
    Ok(value.clone())
}

/// Undefined, null, and everything of length 0. Not `0` and not `false`.
pub(in crate::pack::render) fn is_empty(value: &Value) -> bool {
    value.is_undefined() || value.is_none() || value.len() == Some(0)
}

fn map(value: &Value) -> Result<&Value, Error> {
    if value.kind() == ValueKind::Map {
        Ok(value)
    } else {
        Err(wrong(format!("a map is needed, not a {}", value.kind())))
    }
}

pub(in crate::pack::render) fn items(value: &Value, budget: &Budget) -> Result<Vec<Value>, Error> {
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(wrong(format!("a list is needed, not a {}", value.kind())));
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        budget.bytes(NODE)?;
        items.push(item);
    }
    Ok(items)
}

/// Each of `count` values is compared with each of these.
fn pay_for_search(count: usize, wanted: &[Value], budget: &Budget) -> Result<(), Error> {
    let mut cost = 0;
    for value in wanted {
        let weight = budget.weigh(value)?;
        cost += weight.nodes + weight.bytes / 64;
    }
    budget.steps(cost.saturating_mul(count as u64))
}

fn filter_keys(value: &Value, names: &[Value], keep: bool, budget: &Budget) -> Result<Value, Error> {
    pay_for_search(value.len().unwrap_or(0), names, budget)?;
    let mut pairs = Vec::new();
    for key in map(value)?.try_iter()? {
        if names.contains(&key) == keep {
            let item = value.get_item(&key)?;
            pairs.push((key, item));
        }
    }
    Ok(Value::from_pairs(pairs))
}

fn to_strings(value: &Value, options: &Kwargs, budget: &Budget) -> Result<Value, Error> {
    let prefix: Option<&str> = options.get("prefix")?;
    let suffix: Option<&str> = options.get("suffix")?;
    let skip_empty: Option<bool> = options.get("skip_empty")?;
    options.assert_all_used()?;
    budget.defined(value)?;
    // The fields of a map, the characters of a text, and anything else is the only item.
    let list = match value.try_iter() {
        Ok(items) => {
            items.map(|item| budget.bytes(NODE).map(|()| item)).collect::<Result<Vec<Value>, Error>>()?
        }
        Err(_) => vec![value.clone()],
    };
    let mut out = Vec::new();
    for item in list {
        let missing = item.is_none() || item.is_undefined();
        let item = if missing { "".into() } else { text::of(&item, budget)? };
        if missing && skip_empty != Some(true) {
            out.push(Value::from(""));
            continue;
        }
        if item.is_empty() && skip_empty == Some(true) {
            continue;
        }
        let item = format!("{}{item}{}", prefix.unwrap_or_default(), suffix.unwrap_or_default());
        budget.string(item.len() as u64)?;
        out.push(Value::from(item));
    }
    budget.keep(Value::from(out))
}
