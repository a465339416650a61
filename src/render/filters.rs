//! Filters on text and data, each bounded by the budget.
//!
//! The engine's own filters are registered a second time behind a wrapper that weighs what goes in
//! and what comes out; those whose output can be far larger than their input are written anew here.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters as builtin};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256, Sha512};

use super::budget::{Budget, DEPTH, NODE};
use super::{convert, text};
use crate::manifest;
use crate::pack::{values, version};

/// Longest text that `fromjson` and `fromyaml` take.
const PARSE: usize = 2 << 20;

pub(super) fn wrong(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

pub(super) fn register(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    register_builtin(engine, budget);
    register_text(engine, budget);
    register_data(engine, budget);
}

/// Puts `$function` behind a wrapper. The inner name has a space: no template can write it.
macro_rules! bounded {
    ($engine:ident, $budget:ident, $($name:literal => $function:path, $growth:literal;)*) => {$(
        $engine.add_filter(concat!("builtin ", $name), $function);
        let budget = Arc::clone($budget);
        $engine.add_filter($name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            forward(state, &budget, concat!("builtin ", $name), $growth, args)
        });
    )*};
}

/// Growth: how many times the bytes of its input a text can have.
fn register_builtin(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    engine.remove_filter("pprint");
    bounded! { engine, budget,
        "safe" => builtin::safe, 1; "escape" => builtin::escape, 6; "e" => builtin::escape, 6;
        "lower" => builtin::lower, 3; "upper" => builtin::upper, 3; "title" => builtin::title, 3;
        "capitalize" => builtin::capitalize, 3; "trim" => builtin::trim, 1; "reverse" => builtin::reverse, 1;
        "length" => builtin::length, 1; "count" => builtin::length, 1; "dictsort" => builtin::dictsort, 1;
        "items" => builtin::items, 1; "split" => builtin::split, 1; "lines" => builtin::lines, 1;
        "default" => builtin::default, 1; "d" => builtin::default, 1; "round" => builtin::round, 1;
        "abs" => builtin::abs, 1; "attr" => builtin::attr, 1; "first" => builtin::first, 1;
        "last" => builtin::last, 1; "min" => builtin::min, 1; "max" => builtin::max, 1;
        "sort" => builtin::sort, 1; "list" => builtin::list, 1; "bool" => builtin::bool, 1;
        "batch" => builtin::batch, 1; "slice" => builtin::slice, 1; "sum" => builtin::sum, 1;
        "select" => builtin::select, 1; "reject" => builtin::reject, 1; "map" => builtin::map, 1;
        "selectattr" => builtin::selectattr, 1; "rejectattr" => builtin::rejectattr, 1;
        "groupby" => builtin::groupby, 1; "unique" => builtin::unique, 1; "chain" => builtin::chain, 1;
        "zip" => builtin::zip, 1; "format" => builtin::format, 1;
    }
}

fn forward(
    state: &mut State<'_, '_>,
    budget: &Budget,
    name: &str,
    growth: u64,
    args: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let args: Vec<Value> = args.0.into_iter().map(ValueOrKwargs::into_value).collect();
    for (index, arg) in args.iter().enumerate() {
        let weight = budget.weigh(arg)?;
        // Sorting and grouping compare each item some times.
        budget.steps(weight.nodes * 8)?;
        if growth > 1 {
            budget.string(weight.bytes * growth)?;
        }
        // Columns to fill in `batch` and `slice`; widths in `format`.
        if index > 0 && arg.as_usize().is_some_and(|number| number > 10_000) && matches!(name, "builtin batch" | "builtin slice") {
            return Err(wrong("more than 10000 columns"));
        }
    }
    if name == "builtin format" && args.first().and_then(Value::as_str).is_some_and(has_large_width) {
        return Err(wrong("a width in the format is larger than 999, or `*`"));
    }
    let value = state.apply_filter(name, &args)?;
    budget.keep(value)
}

fn has_large_width(format: &str) -> bool {
    let mut digits = 0;
    format.chars().any(|c| {
        digits = if c.is_ascii_digit() { digits + 1 } else { 0 };
        digits > 3
    }) || format.contains('*')
}

macro_rules! add {
    ($engine:ident, $budget:ident, $name:literal, |$b:ident $(, $arg:ident : $kind:ty)*| $body:expr) => {
        let $b = Arc::clone($budget);
        $engine.add_filter($name, move |$($arg: $kind),*| -> Result<Value, Error> {
            let value: Value = Value::from($body);
            $b.keep(value)
        });
    };
}


fn register_text(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    add!(engine, budget, "string", |b, v: &Value| text::of(v, &b)?.into_owned());
    add!(engine, budget, "quote", |b, v: &Value| quote(&text::of(v, &b)?, &b)?);
    add!(engine, budget, "squote", |b, v: &Value| format!("'{}'", text::of(v, &b)?.replace('\'', "''")));
    add!(engine, budget, "indent", |b, v: Cow<'_, str>, width: Option<usize>| indent(&v, width.unwrap_or(4), &b)?);
    add!(engine, budget, "nindent", |b, v: Cow<'_, str>, width: usize| format!("\n{}", indent(&v, width, &b)?));
    add!(engine, budget, "replace", |b, v: Cow<'_, str>, from: Cow<'_, str>, to: Cow<'_, str>| {
        let count = v.matches(&*from).count() as u64;
        b.steps(v.len() as u64 / 64 + count)?;
        b.string(v.len() as u64 + count * to.len() as u64)?;
        v.replace(&*from, &to)
    });
    add!(engine, budget, "join", |b, v: &Value, separator: Option<Cow<'_, str>>| join(v, &separator.unwrap_or_default(), &b)?);
    add!(engine, budget, "repeat", |b, v: Cow<'_, str>, count: u64| repeat(&v, count, &b)?);
    add!(engine, budget, "trunc", |_b, v: Cow<'_, str>, length: usize| v.chars().take(length).collect::<String>());
    add!(engine, budget, "substr", |_b, v: Cow<'_, str>, start: usize, end: Option<usize>| {
        v.chars().take(end.unwrap_or(usize::MAX)).skip(start).collect::<String>()
    });
    add!(engine, budget, "trimprefix", |_b, v: Cow<'_, str>, prefix: Cow<'_, str>| v.strip_prefix(&*prefix).unwrap_or(&v).to_owned());
    add!(engine, budget, "trimsuffix", |_b, v: Cow<'_, str>, suffix: Cow<'_, str>| v.strip_suffix(&*suffix).unwrap_or(&v).to_owned());
    add!(engine, budget, "hasprefix", |_b, v: Cow<'_, str>, prefix: Cow<'_, str>| v.starts_with(&*prefix));
    add!(engine, budget, "hassuffix", |_b, v: Cow<'_, str>, suffix: Cow<'_, str>| v.ends_with(&*suffix));
    add!(engine, budget, "snakecase", |b, v: Cow<'_, str>| words(&v, &b)?.join("_"));
    add!(engine, budget, "kebabcase", |b, v: Cow<'_, str>| words(&v, &b)?.join("-"));
    add!(engine, budget, "pascalcase", |b, v: Cow<'_, str>| words(&v, &b)?.iter().map(|word| capital(word)).collect::<String>());
    add!(engine, budget, "camelcase", |b, v: Cow<'_, str>| {
        let words = words(&v, &b)?;
        words.iter().enumerate().map(|(i, word)| if i == 0 { word.clone() } else { capital(word) }).collect::<String>()
    });
    add!(engine, budget, "b64encode", |b, v: &Value| STANDARD.encode(text::of(v, &b)?.as_bytes()));
    add!(engine, budget, "b64decode", |_b, v: Cow<'_, str>| {
        let bytes = STANDARD.decode(v.trim()).map_err(|error| wrong(format!("b64decode: {error}")))?;
        String::from_utf8(bytes).map_err(|_| wrong("b64decode: the content is not UTF-8 text"))?
    });
    add!(engine, budget, "sha256", |b, v: &Value| hex(&Sha256::digest(text::of(v, &b)?.as_bytes())));
    add!(engine, budget, "sha512", |b, v: &Value| hex(&Sha512::digest(text::of(v, &b)?.as_bytes())));
    add!(engine, budget, "basename", |_b, v: Cow<'_, str>| v.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned());
    add!(engine, budget, "int", |_b, v: &Value| to_int(v)?);
    add!(engine, budget, "float", |_b, v: &Value| to_float(v)?);
    add!(engine, budget, "floor", |_b, v: f64| v.floor() as i64);
    add!(engine, budget, "ceil", |_b, v: f64| v.ceil() as i64);
    add!(engine, budget, "semver_match", |b, v: &Value, range: Cow<'_, str>| {
        version::matches(&range, &text::of(v, &b)?).map_err(|message| wrong(format!("semver_match: {message}")))?
    });
}

fn register_data(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    add!(engine, budget, "toyaml", |b, v: &Value| {
        manifest::yaml::to_yaml(&convert::to_json(v, &b)?).trim_end_matches('\n').to_owned()
    });
    let to_json_budget = Arc::clone(budget);
    engine.add_filter("tojson", move |v: &Value, options: Kwargs| -> Result<Value, Error> {
        let indent: Option<bool> = options.get::<Option<&Value>>("indent")?.map(Value::is_true);
        options.assert_all_used()?;
        let json = convert::to_json(v, &to_json_budget)?;
        let text = if indent == Some(true) { format!("{json:#}") } else { json.to_string() };
        to_json_budget.keep(Value::from(text))
    });
    add!(engine, budget, "tojson_pretty", |b, v: &Value| format!("{:#}", convert::to_json(v, &b)?));
    add!(engine, budget, "fromyaml", |b, v: Cow<'_, str>| from_yaml(&v, &b)?);
    add!(engine, budget, "fromjson", |b, v: Cow<'_, str>| from_json(&v, &b)?);
    add!(engine, budget, "required", |_b, v: &Value, message: Option<Cow<'_, str>>| required(v, message.as_deref())?);
    add!(engine, budget, "empty", |_b, v: &Value| is_empty(v));
    add!(engine, budget, "haskey", |_b, v: &Value, key: Cow<'_, str>| {
        v.kind() == ValueKind::Map && v.get_attr(&key).is_ok_and(|found| !found.is_undefined())
    });
    add!(engine, budget, "keys", |_b, v: &Value| map(v)?.try_iter()?.collect::<Vec<Value>>());
    add!(engine, budget, "values", |_b, v: &Value| {
        let keys: Vec<Value> = map(v)?.try_iter()?.collect();
        keys.iter().map(|key| v.get_item(key)).collect::<Result<Vec<Value>, Error>>()?
    });
    add!(engine, budget, "merge", |b, base: &Value, over: &Value| {
        let (base, over) = (convert::to_json(base, &b)?, convert::to_json(over, &b)?);
        new_data(&values::merge(base, over), &b)?
    });
    add!(engine, budget, "pick", |_b, v: &Value, names: Rest<Value>| filter_keys(v, &names, true)?);
    add!(engine, budget, "omit", |_b, v: &Value, names: Rest<Value>| filter_keys(v, &names, false)?);
    add!(engine, budget, "append", |b, v: &Value, item: Value| {
        let mut items = items(v, &b)?;
        items.push(item);
        items
    });
    add!(engine, budget, "prepend", |b, v: &Value, item: Value| {
        let mut items = items(v, &b)?;
        items.insert(0, item);
        items
    });
    add!(engine, budget, "concat", |b, v: &Value, others: Rest<Value>| {
        let mut all = items(v, &b)?;
        for other in others.iter() {
            all.extend(items(other, &b)?);
        }
        all
    });
    add!(engine, budget, "without", |b, v: &Value, unwanted: Rest<Value>| {
        let items = items(v, &b)?;
        b.steps((items.len() * unwanted.len()) as u64)?;
        items.into_iter().filter(|item| !unwanted.contains(item)).collect::<Vec<Value>>()
    });
    add!(engine, budget, "compact", |b, v: &Value| items(v, &b)?.into_iter().filter(|item| !is_empty(item)).collect::<Vec<Value>>());
    let strings_budget = Arc::clone(budget);
    engine.add_filter("tostrings", move |v: &Value, options: Kwargs| to_strings(v, &options, &strings_budget));
}

pub(super) fn quote(text: &str, budget: &Budget) -> Result<String, Error> {
    budget.string(text.len() as u64)?;
    // A JSON string is a double-quoted scalar of YAML.
    Ok(Json::from(text).to_string())
}

/// Every line that is not empty gets `width` spaces, the first one too.
fn indent(text: &str, width: usize, budget: &Budget) -> Result<String, Error> {
    let lines = text.lines().count() as u64;
    budget.string((width as u64).saturating_mul(lines).saturating_add(text.len() as u64))?;
    let pad = " ".repeat(if lines == 0 { 0 } else { width });
    let mut out = String::new();
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if !line.is_empty() {
            out.push_str(&pad);
            out.push_str(line);
        }
    }
    Ok(out)
}

pub(super) fn repeat(text: &str, count: u64, budget: &Budget) -> Result<String, Error> {
    budget.string((text.len() as u64).saturating_mul(count))?;
    // An empty text may be repeated without end.
    Ok(if text.is_empty() { String::new() } else { text.repeat(count as usize) })
}

fn join(list: &Value, separator: &str, budget: &Budget) -> Result<String, Error> {
    let mut out = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        let item = text::of(&item, budget)?.into_owned();
        budget.string((item.len() + separator.len()) as u64)?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(&item);
        // The budget bounds the sum of all texts; this bounds this one.
        if out.len() as u64 > super::budget::VALUE {
            return Err(budget.over("the joined text is too large".to_owned()));
        }
    }
    Ok(out)
}

/// Words at separators and at the start of capitals: `myHTTPServer-name` is `my http server name`.
fn words(text: &str, budget: &Budget) -> Result<Vec<String>, Error> {
    budget.bytes(NODE * text.len() as u64 / 2)?;
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let chars: Vec<char> = text.chars().collect();
    for (index, c) in chars.iter().enumerate() {
        if !c.is_alphanumeric() {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            continue;
        }
        let after_small = index > 0 && !chars[index - 1].is_uppercase();
        let before_small = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        if c.is_uppercase() && (after_small || before_small) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        word.extend(c.to_lowercase());
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    Ok(words)
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

pub(super) fn to_int(value: &Value) -> Result<i64, Error> {
    let cannot = || wrong(format!("a {} cannot become an integer: {}", value.kind(), text::plain(value)));
    if let Some(integer) = value.as_i64() {
        return Ok(integer);
    }
    let float = match (value.kind(), value.as_str()) {
        (ValueKind::Bool, _) => return Ok(i64::from(value.is_true())),
        (ValueKind::Number, _) => f64::try_from(value.clone()).map_err(|_| cannot())?,
        (_, Some(text)) => match text.trim().parse::<i64>() {
            Ok(integer) => return Ok(integer),
            Err(_) => text.trim().parse::<f64>().map_err(|_| cannot())?,
        },
        _ => return Err(cannot()),
    };
    // 2^63 as a float; a cast beyond it would silently saturate.
    if float.is_finite() && float.abs() < 9.223_372_036_854_775e18 { Ok(float as i64) } else { Err(cannot()) }
}

pub(super) fn to_float(value: &Value) -> Result<f64, Error> {
    let cannot = || wrong(format!("a {} cannot become a float: {}", value.kind(), text::plain(value)));
    match (value.kind(), value.as_str()) {
        (ValueKind::Number, _) => f64::try_from(value.clone()).map_err(|_| cannot()),
        (_, Some(text)) => text.trim().parse().map_err(|_| cannot()),
        _ => Err(cannot()),
    }
}

pub(super) fn from_yaml(text: &str, budget: &Budget) -> Result<Value, Error> {
    check_parse(text, budget)?;
    let data = manifest::yaml::parse_value(text, "fromyaml").map_err(|error| wrong(error.to_string()))?;
    new_data(&data, budget)
}

pub(super) fn from_json(text: &str, budget: &Budget) -> Result<Value, Error> {
    check_parse(text, budget)?;
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

/// Data that did not exist before: all of it is paid for.
fn new_data(data: &Json, budget: &Budget) -> Result<Value, Error> {
    if depth(data) > DEPTH {
        return Err(budget.over(format!("a value is nested more than {DEPTH} levels deep")));
    }
    let value = convert::from_json(data);
    let weight = budget.weigh(&value)?;
    budget.bytes(weight.bytes + NODE * weight.nodes)?;
    Ok(value)
}

/// Parsers stop at 128 levels, so this cannot go deep.
fn depth(data: &Json) -> usize {
    match data {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
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
pub(super) fn is_empty(value: &Value) -> bool {
    value.is_undefined() || value.is_none() || value.len() == Some(0)
}

fn map(value: &Value) -> Result<&Value, Error> {
    if value.kind() == ValueKind::Map { Ok(value) } else { Err(wrong(format!("a map is needed, not a {}", value.kind()))) }
}

pub(super) fn items(value: &Value, budget: &Budget) -> Result<Vec<Value>, Error> {
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

fn filter_keys(value: &Value, names: &[Value], keep: bool) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    for key in map(value)?.try_iter()? {
        if names.contains(&key) == keep {
            let item = value.get_item(&key)?;
            pairs.push((key, item));
        }
    }
    Ok(pairs.into_iter().collect())
}

fn to_strings(value: &Value, options: &Kwargs, budget: &Budget) -> Result<Value, Error> {
    let prefix: Option<&str> = options.get("prefix")?;
    let suffix: Option<&str> = options.get("suffix")?;
    let skip_empty: Option<bool> = options.get("skip_empty")?;
    options.assert_all_used()?;
    let list = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => items(value, budget)?,
        _ => vec![value.clone()],
    };
    let mut out = Vec::new();
    for item in list {
        let item = text::of(&item, budget)?;
        if item.is_empty() && skip_empty == Some(true) {
            continue;
        }
        let item = format!("{}{item}{}", prefix.unwrap_or_default(), suffix.unwrap_or_default());
        budget.string(item.len() as u64)?;
        out.push(Value::from(item));
    }
    budget.keep(Value::from(out))
}
