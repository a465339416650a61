//! The short way from text to values, for what manifests nearly always are: maps, lists and scalars without anchors,
//! aliases, merge keys and tags. It builds values straight from the events of the parser that the careful reader
//! stands on, in about half of its time. Whatever it does not know, and every error, it leaves to the careful
//! reader: so there is one voice for errors, and one place for the rare parts of YAML.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use super::limits::{MAX_DEPTH, MAX_DOCUMENTS};

/// Beyond that the careful reader counts the bytes of scalars.
const MAX_BYTES: usize = 32 << 20;

/// The documents of `text` that are not null; none when it is a text for the careful reader.
pub(super) fn read(text: &str, max_nodes: usize) -> Option<Vec<Value>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut options = granit_parser::options! {};
    options.set_emit_comments(false);
    let mut reader = Reader { max_nodes, ..Reader::default() };
    for event in Parser::new_from_str_with_options(text, options) {
        reader.take(event.ok()?.0)?;
    }
    Some(reader.documents)
}

#[derive(Default)]
struct Reader {
    max_nodes: usize,
    nodes: usize,
    started: usize,
    documents: Vec<Value>,
    open: Vec<Open>,
    /// Entries of all open collections, the innermost last. Those of lists have no key.
    entries: Vec<(String, Value)>,
}

/// A collection that has begun.
enum Open {
    List {
        /// Where its entries begin.
        first: usize,
    },
    Map {
        first: usize,
        /// Whether the last entry waits for its value.
        has_key: bool,
    },
}

impl Reader {
    fn take(&mut self, event: Event<'_>) -> Option<()> {
        match event {
            Event::Scalar(text, style, 0, None) => {
                self.count()?;
                let plain = style == ScalarStyle::Plain;
                if let Some(Open::Map { has_key: has_key @ false, .. }) = self.open.last_mut() {
                    if plain && !is_own_name(&text) {
                        return None;
                    }
                    *has_key = true;
                    self.entries.push((text.into_owned(), Value::Null));
                    return Some(());
                }
                let value = if plain { resolve(text)? } else { Value::String(text.into_owned()) };
                self.add(value)
            }
            Event::SequenceStart(_, 0, None) => self.enter(Open::List { first: self.entries.len() }),
            Event::MappingStart(_, 0, None) => {
                self.enter(Open::Map { first: self.entries.len(), has_key: false })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let value = match self.open.pop()? {
                    Open::List { first } => {
                        Value::Array(self.entries.drain(first..).map(|(_, value)| value).collect())
                    }
                    Open::Map { first, .. } => {
                        let length = self.entries.len() - first;
                        let map: Map<String, Value> = self.entries.drain(first..).collect();
                        // Less when a key is repeated.
                        if map.len() != length {
                            return None;
                        }
                        Value::Object(map)
                    }
                };
                self.add(value)
            }
            Event::DocumentStart(..) => {
                self.started += 1;
                (self.started <= MAX_DOCUMENTS).then_some(())
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Some(()),
            _ => None,
        }
    }

    fn count(&mut self) -> Option<()> {
        self.nodes += 1;
        (self.nodes <= self.max_nodes).then_some(())
    }

    fn enter(&mut self, open: Open) -> Option<()> {
        self.count()?;
        self.open.push(open);
        (self.open.len() <= MAX_DEPTH).then_some(())
    }

    fn add(&mut self, value: Value) -> Option<()> {
        match self.open.last_mut() {
            Some(Open::Map { has_key, .. }) => {
                // A collection as key.
                if !*has_key {
                    return None;
                }
                *has_key = false;
                self.entries.last_mut()?.1 = value;
            }
            Some(Open::List { .. }) => self.entries.push((String::new(), value)),
            None if value.is_null() => {}
            None => self.documents.push(value),
        }
        Some(())
    }
}

/// Whether a plain key is nothing else than its text: no null, no merge, and no integer, of which the careful reader
/// knows when two spellings are the same key.
fn is_own_name(key: &str) -> bool {
    !is_null(key) && key != "<<" && !key.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
}

/// Whether a plain scalar is null.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// What a plain scalar means. None is for numbers that JSON does not have.
fn resolve(text: Cow<'_, str>) -> Option<Value> {
    if is_null(&text) {
        return Some(Value::Null);
    }
    if let Some(truth) = boolean(&text) {
        return Some(Value::Bool(truth));
    }
    // Numbers of every kind begin with one of these.
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return Some(Value::String(text.into_owned()));
    }
    if let Some(number) = integer(&text) {
        return Some(Value::Number(number));
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    if matches!(unsigned, ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF") {
        return None;
    }
    match text.parse::<f64>() {
        // Rust takes `+inf` for a number; YAML does not.
        Ok(_) if unsigned.starts_with(|c: char| c.is_ascii_alphabetic()) => {}
        Ok(float) => return Number::from_f64(float).map(Value::Number),
        Err(_) => {}
    }
    Some(Value::String(text.into_owned()))
}

fn boolean(text: &str) -> Option<bool> {
    // Long texts are the most, and none of them is one.
    if text.len() > 5 {
        return None;
    }
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match text.as_bytes().first()? {
        b't' | b'T' | b'y' | b'Y' | b'o' | b'O' if is(["true", "yes", "y", "on"]) => Some(true),
        b'f' | b'F' | b'n' | b'N' | b'o' | b'O' if is(["false", "no", "n", "off"]) => Some(false),
        _ => None,
    }
}

/// The integers of YAML 1.1, and `0o` of 1.2: sign, base, and single underscores between digits or after the base.
fn integer(text: &str) -> Option<Number> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (base, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, unsigned.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, unsigned.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, unsigned.get(2..)?),
        [b'0', _, ..] => (8, unsigned.get(1..)?),
        _ => (10, unsigned),
    };
    let digits = if base == 10 { digits } else { digits.strip_prefix('_').unwrap_or(digits) };
    let mut value = 0_u64;
    let mut after_digit = false;
    for byte in digits.bytes() {
        if byte == b'_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = char::from(byte).to_digit(base)?;
        value = value.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
        after_digit = true;
    }
    if !after_digit {
        return None;
    }
    if negative { 0_i64.checked_sub_unsigned(value).map(Number::from) } else { Some(Number::from(value)) }
}
