//! Takes texts out of a message.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::forms::{Form, SHORTEST, begins, forms, is_base64};

/// What stands in its place.
const HIDDEN: &str = "(from a Secret)";
/// So many bytes of different texts are looked for in one message; where there are more, none of it is shown.
const LOOKED_FOR: usize = 256 << 10;
/// So many different texts.
const TEXTS: usize = 4096;
/// So many texts and lines are looked at, with those that occur again or are longer than the message.
const LINES: usize = 1 << 16;
/// So many bytes of the message are gone through, once for each form that may be in it.
const SEARCHED: usize = 16 << 20;
/// A longer message is not searched.
const LONGEST: usize = 1 << 20;
/// What is said instead.
const TOO_MANY: &str = "there is more text in the Secrets of this release than can be looked for in the message, so it is not shown";

/// The text without any form of any text or number of these values, whole or line by line; `None` when there is none in
/// it.
pub(super) fn hide(text: &str, secrets: &[Arc<Value>]) -> Option<String> {
    if secrets.is_empty() {
        return None;
    }
    if text.len() > LONGEST {
        return Some(TOO_MANY.to_owned());
    }
    let mut search = Search::new(text);
    if !secrets.iter().all(|secret| search.value(secret)) {
        return Some(TOO_MANY.to_owned());
    }
    let spans = merged(search.found.iter().flat_map(|form| places(text, form)).collect());
    (!spans.is_empty()).then(|| without(text, &spans))
}

struct Search<'t, 's> {
    text: &'t str,
    /// What begins anywhere in the text: most secrets are told not to be in it by the beginnings of their forms.
    starts: HashSet<[u8; SHORTEST]>,
    /// What was looked for: Secrets repeat lines, and a value is often in several of them.
    seen: HashSet<Cow<'s, str>>,
    lines: usize,
    bytes: usize,
    searched: usize,
    found: BTreeSet<Form>,
}

impl<'t, 's> Search<'t, 's> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            starts: starts(text),
            seen: HashSet::new(),
            lines: 0,
            bytes: 0,
            searched: 0,
            found: BTreeSet::new(),
        }
    }

    /// `false`: there is too much to look for.
    fn value(&mut self, value: &'s Value) -> bool {
        match value {
            Value::String(secret) => {
                let trimmed = secret.trim();
                self.one(Cow::Borrowed(secret))
                    && (trimmed.len() == secret.len() || self.one(Cow::Borrowed(trimmed)))
                    && (!secret.contains('\n')
                        || secret.lines().all(|line| self.one(Cow::Borrowed(line.trim()))))
            }
            Value::Number(number) => self.one(Cow::Owned(number.to_string())),
            Value::Array(items) => items.iter().all(|item| self.value(item)),
            Value::Object(fields) => fields.values().all(|field| self.value(field)),
            Value::Null | Value::Bool(_) => true,
        }
    }

    fn one(&mut self, secret: Cow<'s, str>) -> bool {
        self.lines += 1;
        // No form is shorter than the text itself, but for what is cut off base64.
        if secret.len() < SHORTEST || secret.len() > self.text.len() || self.seen.contains(&secret) {
            return self.lines <= LINES;
        }
        self.bytes += secret.len();
        if self.lines > LINES || self.seen.len() >= TEXTS || self.bytes > LOOKED_FOR {
            return false;
        }
        let forms = if begins(&secret, &self.starts) { forms(&secret) } else { Vec::new() };
        self.seen.insert(secret);
        forms.into_iter().all(|form| self.form(form))
    }

    fn form(&mut self, form: Form) -> bool {
        let starts = |start: &[u8; SHORTEST]| self.starts.contains(start);
        if !form.text.as_bytes().first_chunk().is_some_and(starts) {
            return true;
        }
        self.searched += self.text.len();
        if self.text.contains(&form.text) {
            self.found.insert(form);
        }
        self.searched <= SEARCHED
    }
}

fn starts(text: &str) -> HashSet<[u8; SHORTEST]> {
    text.as_bytes().array_windows().copied().collect()
}

/// Where a form stands, with the rest of the base64 that it is a part of.
fn places(text: &str, form: &Form) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut past = 0;
    let wider = |(start, found): (usize, &str)| {
        let (mut start, mut end) = (start, start + found.len());
        if end <= past {
            // It stands in the base64 of the place before it.
            return None;
        }
        if form.base64 {
            while start > 0 && is_base64(bytes[start - 1]) {
                start -= 1;
            }
            while end < bytes.len() && is_base64(bytes[end]) {
                end += 1;
            }
            while end < bytes.len() && bytes[end] == b'=' {
                end += 1;
            }
        }
        past = end;
        Some(start..end)
    };
    text.match_indices(&form.text).filter_map(wider).collect()
}

/// The same places without overlaps, in their order.
fn merged(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_by_key(|span| (span.start, span.end));
    let mut all: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => all.push(span),
        }
    }
    all
}

fn without(text: &str, spans: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        out.push_str(text.get(at..span.start).unwrap_or_default());
        out.push_str(HIDDEN);
        at = span.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
    use serde_json::json;

    use super::super::forms;
    use super::*;

    const SECRET: &str = r#"pa"ss\word1 x"#;

    fn hidden(text: &str, values: Value) -> String {
        hide(text, &[Arc::new(values)]).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn what_is_in_a_message_of_a_secret_is_replaced_whole() {
        let values = || {
            json!({
                "user": {"password": "hunter2hunter", "pin": 123_456}, "list": ["hunter2"], "short": "is",
                "key": "-----BEGIN KEY-----\n  MIIabc\n-----END KEY-----\n", "token": "tok3n",
            })
        };
        assert_eq!(
            hidden("`hunter2hunter` is not a number, hunter2 is neither", values()),
            "`(from a Secret)` is not a number, (from a Secret) is neither"
        );
        for text in ["a 123456 b", "a MIIabc b", "a tok3n b"] {
            assert_eq!(hidden(text, values()), "a (from a Secret) b");
        }
        assert_eq!(hide("nothing is in here", &[Arc::new(values())]), None);
        assert_eq!(hide("anything", &[]), None);
    }

    #[test]
    fn a_value_is_hidden_in_every_form_in_which_it_may_be_quoted() {
        let long = "user:".to_owned() + SECRET + "@host";
        for form in [
            SECRET.to_owned(),
            json!(SECRET).to_string(),
            json!(json!(SECRET).to_string()).to_string(),
            r#"map[string]interface {}{"a":"pa\"ss\\word1 x"}"#.to_owned(),
            "pa%22ss%5Cword1%20x".to_owned(),
            "https://host/?q=pa%22ss%5cword1+x&b=1".to_owned(),
            STANDARD.encode(SECRET),
            STANDARD_NO_PAD.encode(SECRET),
            URL_SAFE.encode(SECRET),
            STANDARD.encode(&long),
            URL_SAFE.encode(&long[1..]),
            STANDARD.encode(&long[2..]),
        ] {
            let text = format!("Invalid value: {form}: a label");
            let shown = hidden(&text, json!([SECRET]));
            assert!(shown.starts_with("Invalid value: ") && shown.ends_with(": a label"), "{shown}");
            assert!(shown.contains(HIDDEN), "{shown}");
            for part in ["ss", "word1", "cGEi", "c3Nc", "b3JkM", "pa%22"] {
                assert!(!shown.contains(part) || part == "ss", "{part} of {form}: {shown}");
            }
        }
    }

    #[test]
    fn other_characters_are_found_as_go_json_yaml_and_urls_write_them() {
        for (secret, form) in [
            ("it's one", "it''s one"),
            ("it's \"one\\", r#"it\'s "one\\"#),
            ("a<b>&c", r"a\u003cb\u003e\u0026c"),
            ("grün-ü", r"gr\u00fcn-\u00fc"),
            ("grün-ü", "gr%C3%BCn-%C3%BC"),
            ("bell\u{7}\u{1}x", r"bell\a\x01x"),
            ("tab\tx\u{1}", r"tab\tx\u0001"),
            ("a+b/c=d e", "a%2Bb%2Fc%3Dd%20e"),
            ("a+b/c=d e", "a+b%2Fc=d%20e"),
        ] {
            assert_eq!(hidden(&format!("x {form} y"), json!([secret])), "x (from a Secret) y", "{secret}");
        }
    }

    #[test]
    fn whole_and_in_lines_and_over_each_other() {
        let key = "first-line\nsecond-line\n";
        let shown = hidden(&json!(key).to_string(), json!([key]));
        assert!(!shown.contains("first") && !shown.contains("second"), "{shown}");
        let encoded = STANDARD.encode(key);
        assert_eq!(hidden(&format!("a {encoded} b"), json!([key])), "a (from a Secret) b");
        assert_eq!(hidden("abcdefgh", json!(["abcdef", "cdefgh"])), "(from a Secret)");
        assert_eq!(hidden("ümlaut-ü", json!(["mlau"])), "ü(from a Secret)t-ü");
    }

    #[test]
    fn where_there_is_too_much_to_look_for_nothing_is_shown() {
        let text = "x".repeat(100);
        let numbered = |count: usize| (0..count).map(|number| format!("{number:064}")).collect::<Vec<_>>();
        for too_many in [json!(numbered(TEXTS + 1)), json!("\n".repeat(LINES)), json!("same\n".repeat(LINES))]
        {
            assert_eq!(hidden(&text, too_many), TOO_MANY);
        }
        let long: Vec<String> = (0..9).map(|number| number.to_string().repeat(LOOKED_FOR / 8)).collect();
        assert_eq!(hidden(&"x".repeat(LOOKED_FOR), json!(long)), TOO_MANY);
        let cut: Vec<String> = (0..TEXTS).map(|number| format!("xxxx{number}")).collect();
        assert_eq!(hidden(&"x".repeat(LOOKED_FOR), json!(cut)), TOO_MANY, "each may be in it");
        assert_eq!(hidden(&"y".repeat(LONGEST + 1), json!(["secret"])), TOO_MANY);
        // What is longer than the message is not in it.
        assert_eq!(hide("short text", &[Arc::new(json!(["y".repeat(8 << 20)]))]), None);
        assert_eq!(hide("short text", &[Arc::new(json!(numbered(TEXTS)))]), None);
    }

    #[test]
    fn what_is_said_twice_is_looked_for_once_and_forms_are_made_only_of_what_may_be_there() {
        let lines: Vec<String> = (0..1000).map(|number| format!("key-{number:060}")).collect();
        let text = format!("the value {} is refused, and so is what is said about it", lines[7]);
        let pem = json!([lines.join("\n"), lines.join("\n"), lines]);
        let mut search = Search::new(&text);
        forms::take_count();
        assert!(search.value(&pem));
        assert_eq!(search.seen.len(), 1000);
        assert_eq!(forms::take_count(), 1000, "each begins like one that is in the message");
        assert!(search.searched < 10_000 * text.len(), "{}", search.searched);

        let mut search =
            Search::new("this message has nothing of it, however long it may be: 0123456789 0123456789");
        assert!(search.value(&pem));
        assert_eq!((search.seen.len(), forms::take_count(), search.searched), (1000, 0, 0));
    }

    #[test]
    fn no_form_is_missed_by_its_beginning() {
        let secrets = [
            SECRET,
            "it's",
            "a<b>&c",
            "grün-ü",
            "\u{7}\u{1}x ",
            "a+b/c=d e",
            "0123",
            "ab\"cdefghijkl",
            "üüüü/'\\",
        ];
        for secret in secrets {
            for form in forms(secret) {
                let starts = starts(&form.text);
                assert!(begins(secret, &starts), "{form:?} of {secret}");
            }
        }
    }

    #[test]
    fn a_long_run_of_base64_is_one_place() {
        let form = Form { text: "QUFBQUFB".to_owned(), base64: true };
        let run = "QUFB".repeat(1000);
        assert_eq!(places(&format!("a {run} b {run}"), &form), [2..4002, 4005..8005]);
    }
}
