//! `now`, `uuidv4` and `generate_secret`.

use std::sync::Arc;

use serde_json::json;

use super::{all_give, failure, pack, run, run_with};
use crate::pack::Pack;
use crate::pack::render::{Lookup, NoCluster, Rendered, Secrets, Stop};

fn notes(template: &str) -> Pack {
    pack("", &[("templates/NOTES.txt", template)])
}

fn after(pack: &Pack, kept: &Secrets) -> Rendered {
    let none: Arc<dyn Lookup> = Arc::new(NoCluster);
    run_with(pack, &json!({}), &none, kept, &Stop::default()).unwrap()
}

#[test]
fn the_time_is_the_one_of_the_revision_in_whole_seconds() {
    all_give(&[(
        "{{ now() }} {{ now() == now() }} {{ now() | trunc(4) | int }}",
        "2026-03-01T12:30:15Z true 2026",
    )]);
}

#[test]
fn ids_are_valid_and_all_different_and_the_same_in_a_second_render() {
    let pack = pack(
        "",
        &[
            ("templates/a.yaml", "kind: A\nid: {{ uuidv4() }}\nother: {{ uuidv4() }}"),
            ("templates/b.yaml", "kind: B\nid: {{ uuidv4() }}\nother: {{ tpl('{{ uuidv4() }}') }}"),
        ],
    );
    let rendered = run(&pack, &json!({})).unwrap();
    let mut ids: Vec<&str> = rendered
        .objects
        .iter()
        .flat_map(|o| [&o["id"], &o["other"]])
        .map(|id| id.as_str().unwrap())
        .collect();
    let shape =
        regex::Regex::new("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$").unwrap();
    assert!(ids.iter().all(|id| shape.is_match(id)), "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(run(&pack, &json!({})).unwrap(), rendered);
}

#[test]
fn a_secret_has_the_length_and_letters_that_were_asked_for_and_one_value_everywhere() {
    let pack = pack(
        "",
        &[
            (
                "templates/a.yaml",
                "kind: A\na: {{ generate_secret('db', 24) }}\nb: '{{ generate_secret('pin', 6, 'digits') }}'",
            ),
            (
                "templates/b.yaml",
                "kind: B\na: {{ generate_secret('db', 24) }}\nc: {{ generate_secret('key', 4096, 'HEX') }}",
            ),
        ],
    );
    let rendered = run(&pack, &json!({})).unwrap();
    let text = |index: usize, key: &str| rendered.objects[index][key].as_str().unwrap().to_owned();
    assert_eq!(text(0, "a"), text(1, "a"));
    assert!(text(0, "a").len() == 24 && text(0, "a").chars().all(|c| c.is_ascii_alphanumeric()));
    assert!(text(0, "b").len() == 6 && text(0, "b").chars().all(|c| c.is_ascii_digit()));
    assert!(text(1, "c").len() == 4096 && text(1, "c").chars().all(|c| c.is_ascii_hexdigit()));
    let names: Vec<&str> = rendered.secrets.keys().map(String::as_str).collect();
    assert_eq!(names, ["db", "key", "pin"]);
    assert_eq!(rendered.secrets["db"].expose(), text(0, "a"));
}

#[test]
fn a_later_render_keeps_the_secrets_of_the_one_before() {
    let first = after(&notes("{{ generate_secret('a', 8) }}"), &Secrets::new());
    let second =
        after(&notes("{{ generate_secret('a', 99, 'hex') }} {{ generate_secret('b', 8) }}"), &first.secrets);
    let value = first.notes.unwrap();
    let both = second.notes.unwrap();
    assert_eq!(
        both.split(' ').next(),
        Some(value.as_str()),
        "length and charset of a later call do not count"
    );
    let third = after(&notes("nothing"), &second.secrets);
    assert_eq!(third.secrets, second.secrets, "a secret that is not asked for is kept");
    let shown = format!("{:?}", after(&notes("-"), &second.secrets).secrets);
    assert!(!shown.contains(&value), "{shown}");
}

#[test]
fn hostile_arguments_of_generated_values_are_errors() {
    for (template, part) in [
        ("{{ generate_secret('a', 0) }}", "from 1 to 4096, not 0"),
        ("{{ generate_secret('a', -1) }}", "from 1 to 4096"),
        ("{{ generate_secret('a', 4097) }}", "from 1 to 4096"),
        ("{{ generate_secret('a', 9223372036854775807) }}", "from 1 to 4096"),
        ("{{ generate_secret('a', 99999999999999999999) }}", "i64"),
        ("{{ generate_secret('', 5) }}", "a name has 1 to 253 bytes"),
        ("{{ generate_secret('ü' * 200, 5) }}", "a name has 1 to 253 bytes"),
        ("{{ generate_secret(values.name, 5) }}", "`values.name` is not set"),
        ("{{ generate_secret('a') }}", "missing argument"),
        ("{{ generate_secret('a', 'b') }}", "cannot convert string"),
        ("{{ generate_secret('a', 5, 'emoji') }}", "the charsets are"),
        ("{{ now(1) }}", "too many arguments"),
        ("{{ uuidv4(1) }}", "too many arguments"),
        (
            "{% for i in range(9999) %}{% set x = generate_secret('s' ~ i, 4096) %}{% endfor %}",
            "larger than 256 KiB",
        ),
        (
            "{% for i in range(99999) %}{% for j in range(999) %}{% set x = uuidv4() %}{% endfor %}{% endfor %}",
            "",
        ),
    ] {
        let error = failure(template).to_string();
        assert!(error.contains(part), "{template}: {error}");
    }
}
