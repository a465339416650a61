//! In which forms a text may stand in a message: as it is, quoted, escaped or encoded by what quotes it.

use std::collections::HashSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// A shorter text is no secret, and would be found in every message.
pub(super) const SHORTEST: usize = 4;
/// Base64 in the middle of other base64 is told by so many letters.
const CORE: usize = 8;

const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, NO_PAD);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD);

/// A form of a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub text: String,
    /// It is base64, so that letters beside it may be of the same.
    pub base64: bool,
}

/// Whether any form of a text may begin with one of `starts`. No form is built of most texts.
pub(super) fn begins(text: &str, starts: &HashSet<[u8; SHORTEST]>) -> bool {
    let Some(first) = text.as_bytes().first_chunk::<SHORTEST>() else { return false };
    if starts.contains(first) || begins_in_base64(*first, starts) {
        return true;
    }
    if first.iter().all(u8::is_ascii_alphanumeric) {
        // No way to quote it changes these.
        return false;
    }
    // Each way to quote goes character by character.
    let end = text.char_indices().nth(SHORTEST).map_or(text.len(), |(at, _)| at);
    let quoted = quoted(text.get(..end).unwrap_or(text));
    quoted.iter().any(|form| form.as_bytes().first_chunk().is_some_and(|start| starts.contains(start)))
}

fn begins_in_base64(first: [u8; SHORTEST], starts: &HashSet<[u8; SHORTEST]>) -> bool {
    (0..3).any(|shift| {
        let mut bytes = [0; SHORTEST + 2];
        bytes[shift..shift + SHORTEST].copy_from_slice(&first);
        [&STANDARD, &URL_SAFE].into_iter().any(|engine| {
            let mut letters = [0; 8];
            let encoded = engine.encode_slice(&bytes[..shift + SHORTEST], &mut letters).is_ok();
            let start = letters.get(first_letter(shift)..).and_then(|letters| letters.first_chunk());
            encoded && start.is_some_and(|start| starts.contains(start))
        })
    })
}

/// All forms of a text, each once.
pub(super) fn forms(text: &str) -> Vec<Form> {
    #[cfg(test)]
    COUNT.with(|count| count.set(count.get() + 1));
    let mut found = Vec::with_capacity(12);
    let mut add = |text: String, base64: bool| {
        let form = Form { text, base64 };
        if form.text.len() >= SHORTEST && !found.contains(&form) {
            found.push(form);
        }
    };
    add(text.to_owned(), false);
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        quoted(text).into_iter().for_each(|quoted| add(quoted, false));
    }
    for engine in [&STANDARD, &URL_SAFE] {
        add(engine.encode(text), true);
        for shift in 0..3 {
            let core = core(engine, text, shift);
            if core.len() >= CORE {
                add(core, true);
            }
        }
    }
    found
}

/// A text as it is quoted and escaped.
fn quoted(text: &str) -> Vec<String> {
    let mut found = Vec::with_capacity(24);
    let escaped =
        [json(text, false, false), json(text, true, false), json(text, true, true), go(text), single(text)];
    for escaped in escaped {
        // A message that quotes a message.
        found.push(json(&escaped, false, false));
        found.push(escaped);
    }
    found.push(text.replace('\'', "''"));
    for upper in [true, false] {
        for kept in [&b"-_.~"[..], b"-_.~$&+:=@", b"-_.*"] {
            let encoded = percent(text, kept, upper);
            found.push(encoded.replace("%20", "+"));
            found.push(encoded);
        }
    }
    found
}

/// As JSON writes it between quotes; `html`: and Go, which escapes what means something in HTML; `ascii`: and what is not
/// ASCII.
fn json(text: &str, html: bool, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || html && matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') => {
                unicode(c, &mut out);
            }
            c if ascii && !c.is_ascii() => unicode(c, &mut out),
            c => out.push(c),
        }
    }
    out
}

fn unicode(c: char, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing into a String does not fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// As Go's `%q` writes it between quotes.
fn go(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{b}' => out.push_str("\\v"),
            c if (c < ' ' || c == '\u{7f}') && !matches!(c, '\u{8}' | '\u{c}' | '\n' | '\r' | '\t') => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push_str(&json(c.encode_utf8(&mut [0; 4]), false, false)),
        }
    }
    out
}

/// As templates quote it, between single quotes.
fn single(text: &str) -> String {
    json(text, false, false).replace("\\\"", "\"").replace('\'', "\\'")
}

/// As it stands in a URL; letters, digits and `kept` stay.
fn percent(text: &str, kept: &[u8], upper: bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        let _ = match byte {
            _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => write!(out, "{}", char::from(byte)),
            _ if upper => write!(out, "%{byte:02X}"),
            _ => write!(out, "%{byte:02x}"),
        };
    }
    out
}

/// What base64 of anything longer has of it, with `shift` bytes before it in its group of three.
fn core(engine: &GeneralPurpose, text: &str, shift: usize) -> String {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(text.as_bytes());
    // The last letter holds bits of what comes behind it.
    let last = bytes.len() * 8 / 6;
    engine.encode(bytes).get(first_letter(shift)..last).unwrap_or_default().to_owned()
}

/// The letters before it hold bits of what is before the text.
fn first_letter(shift: usize) -> usize {
    (shift * 8).div_ceil(6)
}

/// A byte of base64 in either alphabet.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

#[cfg(test)]
std::thread_local! {
    /// Of how many texts forms were made on this thread.
    static COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(super) fn take_count() -> usize {
    COUNT.with(std::cell::Cell::take)
}

#[cfg(test)]
#[path = "forms_tests.rs"]
mod tests;
