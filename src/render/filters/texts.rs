//! Filters on texts and numbers.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, State};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256, Sha512};

use super::{Input as _, wrong};
use crate::pack::version;
use crate::render::budget::{Budget, NODE, VALUE};
use crate::render::text;

/// Bytes of a range of versions.
const RANGE: usize = 1024;

pub(super) fn register(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    add!(engine, budget, "string", |b, v: &Value| text::of(v, &b)?.into_owned());
    add!(engine, budget, "quote", |b, v: &Value| quote(&text::of(v, &b)?, &b)?);
    add!(engine, budget, "squote", |b, v: &Value| format!("'{}'", text::of(v, &b)?.replace('\'', "''")));
    add!(engine, budget, "indent", |b, v: Cow<'_, str>, width: Option<usize>| indent(
        &v,
        width.unwrap_or(4),
        &b
    )?);
    add!(engine, budget, "nindent", |b, v: Cow<'_, str>, width: usize| format!(
        "\n{}",
        indent(&v, width, &b)?
    ));
    add!(engine, budget, "replace", |b, v: Cow<'_, str>, from: Cow<'_, str>, to: Cow<'_, str>| {
        // Each search prepares for what it looks for, byte by byte.
        b.steps(from.len() as u64)?;
        let count = v.matches(&*from).count() as u64;
        b.steps(v.len() as u64 / 64 + count)?;
        b.string(v.len() as u64 + count * to.len() as u64)?;
        v.replace(&*from, &to)
    });
    add!(engine, budget, "join", |b, v: &Value, separator: Option<Cow<'_, str>>| join(
        v,
        &separator.unwrap_or_default(),
        &b
    )?);
    add!(engine, budget, "repeat", |b, v: Cow<'_, str>, count: u64| repeat(&v, count, &b)?);
    add!(engine, budget, "trunc", |_b, v: Cow<'_, str>, length: usize| v
        .chars()
        .take(length)
        .collect::<String>());
    add!(engine, budget, "substr", |_b, v: Cow<'_, str>, start: usize, end: Option<usize>| {
        v.chars().take(end.unwrap_or(usize::MAX)).skip(start).collect::<String>()
    });
    add!(engine, budget, "trimprefix", |_b, v: Cow<'_, str>, prefix: Cow<'_, str>| v
        .strip_prefix(&*prefix)
        .unwrap_or(&v)
        .to_owned());
    add!(engine, budget, "trimsuffix", |_b, v: Cow<'_, str>, suffix: Cow<'_, str>| v
        .strip_suffix(&*suffix)
        .unwrap_or(&v)
        .to_owned());
    add!(engine, budget, "hasprefix", |_b, v: Cow<'_, str>, prefix: Cow<'_, str>| v.starts_with(&*prefix));
    add!(engine, budget, "hassuffix", |_b, v: Cow<'_, str>, suffix: Cow<'_, str>| v.ends_with(&*suffix));
    add!(engine, budget, "snakecase", |b, v: Cow<'_, str>| words(&v, &b)?.join("_"));
    add!(engine, budget, "kebabcase", |b, v: Cow<'_, str>| words(&v, &b)?.join("-"));
    add!(engine, budget, "pascalcase", |b, v: Cow<'_, str>| words(&v, &b)?
        .iter()
        .map(|word| capital(word))
        .collect::<String>());
    add!(engine, budget, "camelcase", |b, v: Cow<'_, str>| {
        let words = words(&v, &b)?;
        words
            .iter()
            .enumerate()
            .map(|(i, word)| if i == 0 { word.clone() } else { capital(word) })
            .collect::<String>()
    });
    add!(engine, budget, "b64encode", |b, v: &Value| STANDARD.encode(text::of(v, &b)?.as_bytes()));
    add!(engine, budget, "b64decode", |_b, v: Cow<'_, str>| {
        let bytes = STANDARD.decode(v.trim()).map_err(|error| wrong(format!("b64decode: {error}")))?;
        String::from_utf8(bytes).map_err(|_| wrong("b64decode: the content is not UTF-8 text"))?
    });
    add!(engine, budget, "sha256", |b, v: &Value| hex(&Sha256::digest(text::of(v, &b)?.as_bytes())));
    add!(engine, budget, "sha512", |b, v: &Value| hex(&Sha512::digest(text::of(v, &b)?.as_bytes())));
    add!(engine, budget, "basename", |_b, v: Cow<'_, str>| v
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned());
    add!(engine, budget, "int", |_b, v: &Value| to_int(v)?);
    add!(engine, budget, "float", |_b, v: &Value| to_float(v)?);
    add!(engine, budget, "floor", |_b, v: f64| v.floor() as i64);
    add!(engine, budget, "ceil", |_b, v: f64| v.ceil() as i64);
    add!(engine, budget, "semver_match", |b, v: &Value, range: Cow<'_, str>| {
        if range.len() > RANGE {
            return Err(wrong(format!("semver_match: the range is longer than {RANGE} bytes")));
        }
        b.steps(range.len() as u64)?;
        version::matches(&range, &text::of(v, &b)?)
            .map_err(|message| wrong(format!("semver_match: {message}")))?
    });
}

pub(in crate::render) fn quote(text: &str, budget: &Budget) -> Result<String, Error> {
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

pub(in crate::render) fn repeat(text: &str, count: u64, budget: &Budget) -> Result<String, Error> {
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
        if out.len() as u64 > VALUE {
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

pub(in crate::render) fn to_int(value: &Value) -> Result<i64, Error> {
    let cannot = || wrong(format!("a {} cannot become an integer: {}", value.kind(), text::plain(value)));
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

pub(in crate::render) fn to_float(value: &Value) -> Result<f64, Error> {
    let cannot = || wrong(format!("a {} cannot become a float: {}", value.kind(), text::plain(value)));
    match (value.kind(), value.as_str()) {
        (ValueKind::Number, _) => f64::try_from(value.clone()).map_err(|_| cannot()),
        (_, Some(text)) if text.len() <= 100 => text.trim().parse().map_err(|_| cannot()),
        _ => Err(cannot()),
    }
}
