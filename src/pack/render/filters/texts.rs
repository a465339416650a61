//! Filters on texts.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, State};
use semver::{Version, VersionReq};
use serde_json::Value as Json;
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use super::{Input as _, Text};
use crate::manifest::hex;
use crate::pack::render::budget::{Budget, VALUE, wrong};
use crate::pack::render::scope::Scope;
use crate::pack::render::text;
use crate::pack::version;

/// Bytes of a range of versions.
const RANGE: usize = 1024;

#[expect(clippy::too_many_lines, reason = "a table: the register of these filters")]
pub(super) fn register(engine: &mut Environment<'static>) {
    add!(engine, "string", |b, v: &Value| text::of(v, b)?.into_owned());
    add!(engine, "quote", |b, v: &Value| quote(&text::of(v, b)?, b)?);
    add!(engine, "squote", |b, v: &Value| format!("'{}'", text::of(v, b)?.replace('\'', "''")));
    add!(engine, "indent", |b, v: Text<'_>, width: Option<usize>| indent(&v, width.unwrap_or(4), b)?);
    add!(engine, "nindent", |b, v: Text<'_>, width: usize| format!("\n{}", indent(&v, width, b)?));
    add!(engine, "replace", |b, v: Text<'_>, from: Text<'_>, to: Text<'_>| {
        // Each search prepares for what it looks for, byte by byte.
        b.steps(from.len() as u64)?;
        let count = v.matches(&*from).count() as u64;
        b.steps(v.len() as u64 / 64 + count)?;
        b.string(v.len() as u64 + count * to.len() as u64)?;
        v.replace(&*from, &to)
    });
    add!(engine, "join", |b, v: &Value, separator: Option<Text<'_>>| join(
        v,
        &separator.unwrap_or_default(),
        b
    )?);
    add!(engine, "repeat", |b, v: Text<'_>, count: u64| repeat(&v, count, b)?);
    add!(engine, "trunc", |_b, v: Text<'_>, length: usize| v.chars().take(length).collect::<String>());
    add!(engine, "substr", |_b, v: Text<'_>, start: usize, length: Option<usize>| v
        .chars()
        .skip(start)
        .take(length.unwrap_or(usize::MAX))
        .collect::<String>());
    add!(engine, "wrap", |b, v: Text<'_>, width: usize| wrap(&v, width, b)?);
    add!(engine, "trimprefix", |_b, v: Text<'_>, prefix: Text<'_>| v
        .strip_prefix(&*prefix)
        .unwrap_or(&v)
        .to_owned());
    add!(engine, "trimsuffix", |_b, v: Text<'_>, suffix: Text<'_>| v
        .strip_suffix(&*suffix)
        .unwrap_or(&v)
        .to_owned());
    add!(engine, "hasprefix", |_b, v: Text<'_>, prefix: Text<'_>| v.starts_with(&*prefix));
    add!(engine, "hassuffix", |_b, v: Text<'_>, suffix: Text<'_>| v.ends_with(&*suffix));
    add!(engine, "snakecase", |b, v: Text<'_>| snake(&v, '_', b)?);
    add!(engine, "kebabcase", |b, v: Text<'_>| snake(&v, '-', b)?);
    add!(engine, "camelcase", |b, v: Text<'_>| joined_words(&v, false, b)?);
    add!(engine, "pascalcase", |b, v: Text<'_>| joined_words(&v, true, b)?);
    add!(engine, "b64encode", |b, v: &Value| match v.as_bytes() {
        Some(bytes) => {
            b.string(bytes.len() as u64 / 3 * 4 + 4)?;
            STANDARD.encode(bytes)
        }
        None => STANDARD.encode(text::of(v, b)?.as_bytes()),
    });
    add!(engine, "b64decode", |_b, v: Text<'_>| {
        let bytes = STANDARD.decode(v.trim()).map_err(|error| wrong(format!("b64decode: {error}")))?;
        String::from_utf8(bytes).map_err(|_| wrong("b64decode: the content is not UTF-8 text"))?
    });
    add!(engine, "sha256", |b, v: &Value| digest::<Sha256>(v, b)?);
    add!(engine, "sha512", |b, v: &Value| digest::<Sha512>(v, b)?);
    add!(engine, "sha1", |b, v: &Value| digest::<Sha1>(v, b)?);
    add!(engine, "md5", |b, v: &Value| digest::<Md5>(v, b)?);
    add!(engine, "basename", |_b, v: Text<'_>| part(&v, |path| path.file_name()));
    add!(engine, "dirname", |_b, v: Text<'_>| part(&v, |path| path.parent().map(Path::as_os_str)));
    add!(engine, "extname", |_b, v: Text<'_>| part(&v, |path| path.extension()));
    add!(engine, "cleanpath", |b, v: Text<'_>| clean_path(&v, b)?);
    add!(engine, "urlencode", |b, v: &Value| url_encode(v, b)?);
    add!(engine, "pprint", |b, v: &Value| text::pretty(v, b)?);
    add!(engine, "semver_match", |b, v: Text<'_>, range: Text<'_>| {
        if range.len() > RANGE {
            return Err(wrong(format!("semver_match: the range is longer than {RANGE} bytes")));
        }
        b.steps(range.len() as u64)?;
        semver_match(&v, range.trim())?
    });
}

pub(in crate::pack::render) fn quote(text: &str, budget: &Budget) -> Result<String, Error> {
    budget.string(text.len() as u64)?;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            // As they are, a reader would fold line breaks and refuse the others.
            '\0'..='\u{8}' | '\n'..='\u{1f}' | '\u{7f}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                let escaped = Json::from(c.to_string()).to_string();
                match escaped.trim_matches('"') {
                    raw if raw.starts_with('\\') => out.push_str(raw),
                    _ => _ = write!(out, "\\u{:04x}", u32::from(c)),
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    Ok(out)
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

pub(in crate::pack::render) fn repeat(text: &str, count: u64, budget: &Budget) -> Result<String, Error> {
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

/// By the rules of Cargo, as the published engine: `1.2` is `^1.2`, and a pre-release matches only a range that names one. A
/// range that Cargo does not know (`1.x || 2.x`, `>=1 <2`) goes by the rules of `kubeVersion`.
fn semver_match(version: &str, range: &str) -> Result<bool, Error> {
    let plain = version.trim().trim_start_matches('v');
    let parsed = Version::parse(plain).or_else(|_| {
        let mut parts =
            plain.split('-').next().unwrap_or_default().split('.').map(|part| part.parse().unwrap_or(0));
        match (parts.next(), parts.next(), parts.next()) {
            (Some(major), Some(minor), patch) => Ok(Version::new(major, minor, patch.unwrap_or(0))),
            _ => Err(wrong("semver_match: this is no version")),
        }
    })?;
    let known = VersionReq::parse(range)
        .or_else(|_| VersionReq::parse(range.split('-').next().unwrap_or_default()))
        .map_err(drop);
    match known {
        Ok(range) => Ok(range.matches(&parsed)),
        Err(()) => {
            version::matches(range, version).map_err(|_| wrong("semver_match: this is no range of versions"))
        }
    }
}

/// Lines of at most `width` characters where words allow it.
fn wrap(text: &str, width: usize, budget: &Budget) -> Result<String, Error> {
    budget.string(text.len() as u64)?;
    let mut out = String::new();
    let mut line = 0_usize;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if line > 0 {
            let fits = line + 1 + length <= width;
            out.push(if fits { ' ' } else { '\n' });
            line = if fits { line + 1 } else { 0 };
        }
        out.push_str(word);
        line += length;
    }
    Ok(out)
}

/// Small letters, with a separator in place of `-`, `_` and spaces and before the first of some capitals.
fn snake(text: &str, separator: char, budget: &Budget) -> Result<String, Error> {
    budget.string(text.len() as u64 * 2)?;
    let mut out = String::new();
    let mut after_capital = false;
    for (index, letter) in text.chars().enumerate() {
        let capital = letter.is_uppercase();
        if capital && index > 0 && !after_capital {
            out.push(separator);
        }
        match letter {
            '-' | '_' | ' ' => out.push(separator),
            _ if capital => out.extend(letter.to_lowercase().next()),
            _ => out.push(letter),
        }
        after_capital = capital;
    }
    Ok(out)
}

/// The words between `-`, `_` and spaces, each with a capital: pascal case leaves the other letters as they are,
/// camel case makes them small, the first one too.
fn joined_words(text: &str, pascal: bool, budget: &Budget) -> Result<String, Error> {
    budget.string(text.len() as u64 * 3)?;
    let mut out = String::new();
    let mut starts = pascal;
    for letter in text.chars() {
        if matches!(letter, '-' | '_' | ' ') {
            starts = true;
        } else if std::mem::take(&mut starts) {
            out.extend(letter.to_uppercase());
        } else if pascal {
            out.push(letter);
        } else {
            out.extend(letter.to_lowercase());
        }
    }
    Ok(out)
}

fn digest<D: sha2::Digest>(value: &Value, budget: &Budget) -> Result<String, Error> {
    if let Some(bytes) = value.as_bytes() {
        budget.steps(bytes.len() as u64 / 64)?;
        return Ok(hex(&D::digest(bytes)));
    }
    Ok(hex(&D::digest(text::of(value, budget)?.as_bytes())))
}

fn part<'p>(path: &'p str, of: impl FnOnce(&'p Path) -> Option<&'p std::ffi::OsStr>) -> String {
    of(Path::new(path)).unwrap_or_default().to_string_lossy().into_owned()
}

/// Without empty parts, `.` and `..`; a `..` at the start is dropped.
fn clean_path(path: &str, budget: &Budget) -> Result<String, Error> {
    // One entry for each part.
    budget.bytes(8 * path.len() as u64)?;
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    Ok(match (path.starts_with('/'), parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    })
}

/// Percent encoding; of a map its fields as a query, without those that are null.
fn url_encode(value: &Value, budget: &Budget) -> Result<String, Error> {
    let mut out = String::new();
    let add = |value: &Value| -> Result<String, Error> {
        let text = text::of(value, budget)?;
        budget.string(text.len() as u64 * 3)?;
        Ok(percent(&text))
    };
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => {}
        ValueKind::Map => {
            budget.weigh(value)?;
            for key in value.try_iter()? {
                let item = value.get_item(&key)?;
                if item.is_none() || item.is_undefined() {
                    continue;
                }
                let separator = if out.is_empty() { "" } else { "&" };
                // Writing to a String cannot fail.
                let _ = write!(out, "{separator}{}={}", add(&key)?, add(&item)?);
            }
        }
        _ => out = add(value)?,
    }
    Ok(out)
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
