//! In which forms a secret is found, one row for each way to quote or encode it.

use super::*;

fn texts(text: &str) -> Vec<String> {
    forms(text).into_iter().map(|form| form.text).collect()
}

#[test]
fn a_text_is_known_again_in_what_quotes_or_encodes_it() {
    for (text, form) in [
        ("hunter22", "hunter22"),
        ("a\"b\\c", r#"a\"b\\c"#),
        // A message that quotes a message.
        ("a\"b\\c", r#"a\\\"b\\\\c"#),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("a\u{8}b\u{c}c", r"a\bb\fc"),
        ("a\u{1}bc", r"a\u0001bc"),
        // As Go writes JSON, and as it writes %q.
        ("a<b>&c", r"a\u003cb\u003e\u0026c"),
        ("pä\u{1f600}ss", r"p\u00e4\ud83d\ude00ss"),
        ("a\u{7}b\u{b}c\u{7f}", r"a\ab\vc\x7f"),
        // As templates and YAML quote it.
        ("it's \"it\"", r#"it\'s "it""#),
        ("it's it", "it''s it"),
        // In a URL: a path, a query, a form.
        ("a b/c?d", "a%20b%2Fc%3Fd"),
        ("a b/c?d", "a%20b%2fc%3fd"),
        ("a b/c?d", "a+b%2Fc%3Fd"),
        ("a$b&c d", "a$b&c%20d"),
        ("a~b*c d", "a~b%2Ac%20d"),
        ("a~b*c d", "a%7Eb*c+d"),
        // Alone in base64, of either alphabet.
        ("hunter22", "aHVudGVyMjI"),
        ("~~~???>>>", "fn5+Pz8/Pj4+"),
        ("~~~???>>>", "fn5-Pz8_Pj4-"),
    ] {
        assert!(texts(text).iter().any(|found| found == form), "{form} of {text}: {:?}", texts(text));
    }
}

#[test]
fn a_text_is_found_in_base64_whatever_stands_around_it() {
    let secret = "correct horse";
    let found = forms(secret);
    for before in ["", "a", "ab", "abc", "password="] {
        for after in ["", "z", "yz", "\nuser: x"] {
            for engine in [&STANDARD, &URL_SAFE] {
                let encoded = engine.encode(format!("{before}{secret}{after}"));
                let known = found.iter().any(|form| form.base64 && encoded.contains(&form.text));
                assert!(known, "{before:?} and {after:?}: {encoded}");
            }
        }
    }
}

#[test]
fn each_form_is_there_once_and_none_is_too_short() {
    for text in ["", "abc", "abcd", "a\"bc", "hunter22", "p\u{e4}ssword", "''''", "%%%%"] {
        let mut found = forms(text);
        assert!(found.iter().all(|form| form.text.len() >= SHORTEST), "{text}: {found:?}");
        let count = found.len();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), count, "{text}");
        assert_eq!(found.iter().any(|form| form.text == text), text.len() >= SHORTEST, "{text}");
    }
    assert!(
        forms("abcd").iter().all(|form| form.base64 || form.text == "abcd"),
        "no way to quote changes it"
    );
}

#[test]
fn a_text_of_which_no_form_can_begin_so_is_passed_over_without_making_its_forms() {
    for text in ["hunter22", "a\"b\\c", "it's it", "a b/c?d", "p\u{e4}ss", "~~~???>>>", "<a>&\u{7f}", "\nabc"]
    {
        for form in forms(text) {
            let start = *form.text.as_bytes().first_chunk::<SHORTEST>().unwrap();
            assert!(begins(text, &[start].into()), "{} of {text}", form.text);
        }
        assert!(!begins(text, &[*b"\0\0\0\0"].into()), "{text}");
        assert!(!begins(text, &HashSet::new()), "{text}");
    }
    assert!(!begins("abc", &[*b"abc\0"].into()), "it is too short for a secret");
}

#[test]
fn letters_of_both_alphabets_of_base64_are_told_from_others() {
    for (letters, is) in [("azAZ09+/-_", true), ("=.,: \"\n\u{7f}", false)] {
        for byte in letters.bytes() {
            assert_eq!(is_base64(byte), is, "{}", char::from(byte));
        }
    }
}
