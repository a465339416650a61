//! In which forms a text may stand in a message: as it is, quoted, escaped or encoded by whoever quotes it.

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

/// All forms of a text, each once.
pub(super) fn forms(text: &str) -> Vec<Form> {
    let mut found = Vec::with_capacity(12);
    let mut add = |text: String, base64: bool| {
        let form = Form { text, base64 };
        if form.text.len() >= SHORTEST && !found.contains(&form) {
            found.push(form);
        }
    };
    add(text.to_owned(), false);
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let quoted = [
            json(text, false, false),
            json(text, true, false),
            json(text, true, true),
            go(text),
            single(text),
        ];
        for escaped in quoted {
            // A message that quotes a message.
            add(json(&escaped, false, false), false);
            add(escaped, false);
        }
        add(text.replace('\'', "''"), false);
        for upper in [true, false] {
            for kept in [&b"-_.~"[..], b"-_.~$&+:=@", b"-_.*"] {
                let encoded = percent(text, kept, upper);
                add(encoded.replace("%20", "+"), false);
                add(encoded, false);
            }
        }
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
    // The first letters hold bits of what is before it, the last one of what comes behind it.
    let first = (shift * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    engine.encode(bytes).get(first..last).unwrap_or_default().to_owned()
}

/// A byte of base64 in either alphabet.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}
