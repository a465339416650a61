//! `toyaml`: data as YAML in the style that packs expect, because it often becomes a text in a ConfigMap.
//!
//! Strings stand bare where they can, single-quoted where a reader would take them for something else, as a literal
//! block when they have several lines, and double-quoted when nothing else will do. What only a reader of YAML 1.1
//! misreads (`yes`, `1_000`) is quoted too.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::manifest::yaml;

/// Longest key that stands before its colon on one line.
const KEY: usize = 128;

/// Without the newline at the end.
pub(super) fn of(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => map(&mut out, fields, 0),
        Value::Array(items) if !items.is_empty() => list(&mut out, items, 0),
        leaf => scalar(&mut out, leaf, 2),
    }
    out.truncate(out.trim_end().len());
    out
}

fn map(out: &mut String, fields: &Map<String, Value>, indent: usize) {
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            pad(out, indent);
        }
        if key.len() > KEY || key.contains('\n') {
            out.push_str("? ");
            scalar(out, &Value::from(key.as_str()), indent + 2);
            out.push('\n');
            pad(out, indent);
        } else {
            text(out, key, is_misread_key(key));
        }
        out.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                pad(out, indent + 2);
                map(out, inner, indent + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(out, indent);
                list(out, items, indent);
            }
            leaf => {
                out.push(' ');
                scalar(out, leaf, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn list(out: &mut String, items: &[Value], indent: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            pad(out, indent);
        }
        out.push_str("- ");
        match item {
            Value::Object(inner) if !inner.is_empty() => map(out, inner, indent + 2),
            Value::Array(inner) if !inner.is_empty() => list(out, inner, indent + 2),
            leaf => {
                scalar(out, leaf, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Writing to a String cannot fail.
            Some(float) => _ = write!(out, "{float:?}"),
            None => _ = write!(out, "{number}"),
        },
        Value::String(lines) if lines.contains('\n') && Shape::of(lines).block => block(out, lines, indent),
        Value::String(line) => text(out, line, is_misread(line)),
        // Only empty ones come here.
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn block(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        // How deep the lines are cannot be seen from the first one.
        out.push('2');
    }
    let body = match text.strip_suffix('\n') {
        Some(body) if body.is_empty() || body.ends_with('\n') => {
            out.push('+');
            body
        }
        Some(body) => body,
        None => {
            out.push('-');
            text
        }
    };
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

fn text(out: &mut String, text: &str, misread: bool) {
    let shape = Shape::of(text);
    if shape.plain && !misread {
        out.push_str(text);
    } else if shape.single {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    } else {
        double(out, text);
    }
}

fn double(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            c if is_printable(c) => out.push(c),
            // Writing to a String cannot fail.
            c if u32::from(c) <= 0xff => _ = write!(out, "\\x{:02X}", u32::from(c)),
            c if u32::from(c) <= 0xffff => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => _ = write!(out, "\\U{:08X}", u32::from(c)),
        }
    }
    out.push('"');
}

/// In which ways a string can stand.
struct Shape {
    plain: bool,
    single: bool,
    block: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let edge = |c: Option<char>| matches!(c, Some(' ' | '\n'));
        let edges = edge(text.chars().next()) || edge(text.chars().next_back());
        let mut special = false;
        let (mut break_space, mut space_break) = (false, false);
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        let mut before = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let ends = chars.peek().is_none_or(|next| is_blank(*next));
            indicator |= match (before, c) {
                (
                    None,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                    | '`',
                ) => true,
                (None, '-' | '?') | (_, ':') => ends,
                (Some(before), '#') => is_blank(before),
                _ => false,
            };
            special |= c != '\n' && !is_printable(c);
            break_space |= before == Some('\n') && c == ' ';
            space_break |= before == Some(' ') && c == '\n';
            before = Some(c);
        }
        let lines = text.contains('\n');
        Self {
            plain: !(text.is_empty() || edges || special || lines || indicator),
            single: !(break_space || space_break || special || lines),
            block: !(text.ends_with(' ') || space_break || special),
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

/// A key is a text whatever it looks like; only those that look like it in every version of YAML are quoted.
fn is_misread_key(key: &str) -> bool {
    is_misread(key) && !["y", "n", "yes", "no", "on", "off"].iter().any(|word| key.eq_ignore_ascii_case(word))
        || key == "<<"
}

/// Whether a bare text would be read as something else than this text.
fn is_misread(text: &str) -> bool {
    const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"];
    let odd = text.starts_with(|c: char| !c.is_alphabetic()) && text.len() < 100;
    odd && yaml::parse_value(text, "").ok() != Some(Value::from(text))
        || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~é\u{2028}\t\r\n#:'\"-]{0,12}",
            "[a-z \n]{0,10}",
            proptest::sample::select(vec![
                "yes",
                "1_000",
                "1:30",
                "0644",
                "=",
                "<<",
                ".5",
                "---",
                "- a",
                "2020-01-01",
                "~"
            ])
            .prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1.0e30..1.0e30).prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in data()) {
            // A newline at the very end is not part of what the filter gives.
            let wrapped = serde_json::json!({"a": value, "z": 1});
            let text = of(&wrapped);
            let read = yaml::parse_value(&text, "t");
            prop_assert_eq!(read.as_ref(), Ok(&wrapped), "{}", text);
        }
    }
}
