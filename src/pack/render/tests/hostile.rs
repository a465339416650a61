//! Packs that want to hurt: each must end in an error, quickly, without a panic.

use serde_json::json;

use super::{failure, pack, run, text_of};

#[track_caller]
fn is_limited(template: &str) {
    let error = failure(template);
    assert_eq!(error.reason(), "RenderLimit", "{}: {error}", template.chars().take(300).collect::<String>());
}

/// The reason of the error, or an empty text.
fn reason(template: &str) -> &'static str {
    text_of(template, &json!({})).map_or_else(|error| error.reason(), |_| "")
}

/// A loop whose body runs often, with a namespace to carry things from round to round.
fn rounds(count: u32, start: &str, body: &str) -> String {
    format!("{{% set ns = namespace(x={start}) %}}{{% for i in range({count}) %}}{body}{{% endfor %}}done")
}

#[test]
fn endless_loops_run_out_of_fuel() {
    is_limited(&rounds(100_000, "1", "{% for j in range(100000) %}{% endfor %}"));
    is_limited("{% macro m() %}{% for i in range(1000) %}{{ m() }}{% endfor %}{% endmacro %}{{ m() }}");
}

#[test]
fn doubling_a_text_ends_at_the_limit() {
    for body in [
        "{% set ns.x = ns.x ~ ns.x %}",
        "{% set ns.x = ns.x + ns.x %}",
        "{% set ns.x = ns.x * 2 %}",
        "{% set ns.x = [ns.x, ns.x] | join %}",
        "{% set ns.x = ns.x | replace('a', 'aa') %}",
        "{% set ns.x = printf('%s%s', ns.x, ns.x) %}",
        "{% set ns.x = '%s%s' | format(ns.x, ns.x) %}",
        "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}",
        "{% set ns.x = tpl('{{ a }}{{ a }}', {'a': ns.x}) %}",
        "{% set ns.x = ns.x | escape ~ '<<<<' ~ ns.x %}",
        "{% set ns.x = [ns.x, ns.x] | tojson %}",
        "{% set ns.x = ns.x | b64encode %}",
    ] {
        is_limited(&rounds(300, "'aaaa'", body));
    }
    is_limited(&("{% set a = 'aaaa' %}".to_owned() + &"{% set a = a ~ a %}".repeat(64)));
    is_limited(
        "{% macro f(s, n) %}{% if n %}{{ f(s ~ s, n - 1) }}{% endif %}{% endmacro %}{{ f('aaaa', 64) }}",
    );
}

#[test]
fn what_a_nested_text_is_given_stands_in_for_no_guard() {
    let body = rounds(60, "'aaaa'", "{% set ns.x = ns.x + ns.x %}");
    let stand_ins = ["", "__guard_sum", "__guard_hold", "__guard_call", "__guard_end", "__guard_raw"];
    let stand_ins: Vec<String> = stand_ins.iter().map(|name| format!("'{name}': coalesce")).collect();
    is_limited(&format!("{{{{ tpl(\"{body}\", {{ {} }}) }}}}", stand_ins.join(", ")));
}

#[test]
fn huge_texts_are_refused_before_they_are_made() {
    for template in [
        "{{ 'a' * 1073741824 }}",
        "{{ 1073741824 * 'a' }}",
        "{{ 'a' | repeat(1073741824) }}",
        "{{ 'a' | repeat(18446744073709551615) }}",
        "{{ 'a' | indent(1000000000) }}",
        "{{ 'a' | nindent(1000000000) }}",
        "{{ [1] * 1000000000 }}",
        "{{ (1,) * 100000000 }}",
        "{{ ('a' * 10000000) | replace('', 'aaaa') }}",
        "{{ (['a'] * 100000) | join('a' * 10000) }}",
        "{% set a = 'a' * 5000000 %}{% for i in range(1000) %}{% set b = a | upper %}{% endfor %}",
        "{% for i in range(1000) %}{{ 'a' * 100000 }}{% endfor %}",
    ] {
        is_limited(template);
    }
    for template in [
        "{{ '%1000000000d' | format(1) }}",
        "{{ '%*d' | format(1000000000, 1) }}",
        "{{ [1] | slice(1000000000) }}",
        "{{ [1] | batch(1000000000, 0) }}",
        "{{ range(1000000000) }}",
    ] {
        assert_eq!(reason(template), "RenderFailed", "{template}");
    }
    assert_eq!(reason("{{ '' | repeat(18446744073709551615) }}{{ '' | indent(18446744073709551615) }}"), "");
}

#[test]
fn work_on_large_values_is_counted_as_work() {
    for body in [
        "{% set b = a == a ~ '' %}",
        "{% if 'x' in a %}{% endif %}",
        "{% if l == m %}{% endif %}",
        "{% if a is eq a %}{% endif %}",
        "{% set b = {'k': 1}[a] is defined %}",
        "{% set b = {a: 1} %}",
        "{% set b = a | sha256 %}",
        "{% set b = get({}, a, 1) %}",
        "{% set b = l | without(m) %}",
        "{% set b = l | unique %}",
    ] {
        let setup = "{% set a = 'ab' * 2000000 %}{% set l = [['x' * 50] * 90] * 90 %}{% set m = [['x' * 50] * 90] * 90 %}";
        is_limited(&format!("{setup}{}", rounds(100_000, "1", body)));
    }
    for template in [
        "{{ ('a' * 8000000) | list }}",
        "{{ ('a' * 8000000) | split('') }}",
        "{{ ('a' * 8000000) | map('upper') }}",
    ] {
        is_limited(template);
    }
    assert_eq!(reason("{{ ('a' * 1000) | trim('b' * 1000) }}"), "RenderFailed");
}

#[test]
fn constants_are_not_multiplied_while_compiling() {
    is_limited(&"{% set a = 'a' * 90000000 %}".repeat(200));
}

#[test]
fn literal_text_in_a_variable_is_counted() {
    let raw = "x".repeat(200_000);
    is_limited(&format!("{{% set s %}}{{% for i in range(100000) %}}{raw}{{% endfor %}}{{% endset %}}"));
    is_limited(&format!(
        "{{% macro m() %}}{raw}{{% endmacro %}}{{% for i in range(9999) %}}{{% set x = m() %}}{{% endfor %}}"
    ));
    let files = [
        ("templates/_big", raw.as_str()),
        (
            "templates/NOTES.txt",
            "{% set s %}{% for i in range(100000) %}{% include '_big' %}{% endfor %}{% endset %}",
        ),
    ];
    assert_eq!(run(&pack("", &files), &json!({})).unwrap_err().reason(), "RenderLimit");
}

#[test]
fn output_is_capped_for_one_file_and_for_all() {
    let five = "{{ 'a' * 5000000 }}";
    assert_eq!(text_of(five, &json!({})).unwrap().len(), 5_000_000);
    is_limited(&five.repeat(2));
    let six = "a: {{ 'a' * 6000000 }}";
    let files = [("templates/a.yaml", six), ("templates/b.yaml", six), ("templates/c.yaml", six)];
    assert_eq!(run(&pack("", &files), &json!({})).unwrap_err().reason(), "RenderLimit");
}

#[test]
fn deep_and_shared_data_is_refused() {
    for body in [
        "{% set ns.x = [ns.x] %}",
        "{% set ns.x = {'a': ns.x} %}",
        "{% set ns.x = (ns.x,) %}",
        "{% set ns.x = ns.x, %}",
        "{% set ns.x = [ns.x, ns.x] %}",
        "{% set ns.x = dict('a', ns.x) %}",
        "{% set ns.x = dict(a=ns.x) %}",
        "{% set ns.x = list(ns.x, 1) %}",
        "{% set ns.x = set({}, 'a', ns.x) %}",
        "{% set ns.x = [] | append(ns.x) %}",
        "{% set ns.x = [ns.x] | zip([1]) %}",
    ] {
        is_limited(&rounds(100_000, "1", body));
    }
    is_limited(
        &rounds(200, "'[]'", "{% set ns.x = '[' ~ ns.x ~ ']' %}")
            .replace("done", "{{ ns.x | fromjson }}")
            .replace("200", "110"),
    );
}

#[test]
fn lazy_sequences_do_not_become_chains() {
    for body in [
        "{% set ns.x = ns.x[0:] %}",
        "{% set ns.x = ns.x | reverse %}",
        "{% set ns.x = ns.x | chain([1]) %}",
        "{% set ns.x = ns.x + [1] %}",
    ] {
        let found = reason(&rounds(3000, "[1]", body));
        assert!(matches!(found, "" | "RenderLimit"), "{body}: {found}");
    }
    assert_eq!(reason(&rounds(1000, "[]", "{% set ns.x = ns.x + [{'name': 'a', 'value': i}] %}")), "");
}

#[test]
fn a_namespace_cannot_contain_itself() {
    for template in [
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns == ns }}",
        "{% set ns = namespace() %}{% set ns.me = {'a': ns} %}",
        "{% set ns = namespace() %}{% set ns.me = ns if true else 1 %}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}",
        "{% set ns = namespace() %}{% set ns.me = dict(a=ns) %}",
        "{% set ns = namespace() %}{% set ns.a, ns.b = ns, 1 %}",
        "{% set ns = namespace() %}{% set ns.l = [1] | append(ns) %}",
    ] {
        assert!(failure(template).to_string().contains("a namespace cannot"), "{template}");
    }
}

#[test]
fn templates_inside_templates_end() {
    let values = json!({"me": "{{ tpl(values.me) }}", "two": "{{ tpl(values.two) }}{{ tpl(values.two) }}"});
    for template in ["{{ tpl(values.me) }}", "{{ tpl(values.two) }}"] {
        let error = text_of(template, &values).unwrap_err();
        assert!(error.to_string().contains("levels deep"), "{error}");
    }
    is_limited(&rounds(100_000, "1", "{{ tpl('{% for i in range(50000) %}{% endfor %}') }}"));
    let files = [("templates/_a", "{% include '_a' %}"), ("templates/NOTES.txt", "{% include '_a' %}")];
    assert_eq!(run(&pack("", &files), &json!({})).unwrap_err().reason(), "RenderLimit");
    let files = [("templates/_a", "{% extends '_a' %}"), ("templates/NOTES.txt", "{% extends '_a' %}")];
    assert_eq!(run(&pack("", &files), &json!({})).unwrap_err().reason(), "RenderFailed");
    is_limited("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
}

#[test]
fn odd_arguments_are_errors_and_not_panics() {
    for template in [
        "{{ 'aé' | trunc(-1) }}",
        "{{ 1 / 0 }}",
        "{{ 1 // 0 }}",
        "{{ 1 % 0 }}",
        "{{ [1] | slice(0) }}",
        "{{ [1] | batch(0) }}",
        "{{ 'a' | indent('b') }}",
        "{{ 9223372036854775807 ** 9223372036854775807 }}",
        "{{ 170141183460469231731687303715884105727 * 2 }}",
        "{{ [1][::0] }}",
        "{{ 'abc' | b64decode }}",
        "{{ '/w==' | b64decode }}",
        "{{ '{' | fromjson }}",
        "{{ 1 | keys }}",
        "{{ values | append(1) }}",
        "{{ '1.2' | semver_match('>>') }}",
    ] {
        assert_eq!(reason(template), "RenderFailed", "{template}");
    }
    // Whatever these give, they give it without a panic.
    for template in [
        "{{ -9223372036854775808 | abs }}",
        "{{ 1.5 | round(400) }}",
        "{{ [3, 'a', none, [1]] | sort }}",
        "{{ 'a'[5:1:-1] }}",
        "{{ [1][9223372036854775807:-9223372036854775807:-9223372036854775807] }}",
        "{{ [1, 2, 3][5:0:-2] }}",
        "{{ 'ab'[9223372036854775807:-9223372036854775807] }}",
        "{{ range(0, 9223372036854775807, 9223372036854775807) }}",
        "{{ 'é' | substr(1, 0) }}",
    ] {
        assert_ne!(reason(template), "RenderAborted", "{template}");
    }
}

/// Parts of the language, to be put together at random.
const PIECES: &[&str] = &[
    "values",
    ".a",
    "['a']",
    "[1]",
    "[:1]",
    "[::2]",
    "1",
    "2.5",
    "'s'",
    "\"t\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    " + ",
    " - ",
    " * ",
    " / ",
    " // ",
    " % ",
    " ** ",
    " ~ ",
    " == ",
    " < ",
    " in ",
    " not in ",
    " not ",
    " and ",
    " or ",
    " if ",
    " else ",
    " is ",
    "defined",
    "divisibleby",
    " | ",
    "upper",
    "default",
    "length",
    "list",
    "join",
    "x=",
    "range",
    "dict",
    " ",
];

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 1000, ..Default::default() })]

    #[test]
    fn random_expressions_are_understood_or_refused_by_the_engine_itself(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..12)
    ) {
        let source = format!("{{{{ {} }}}}", pieces.concat());
        if let Err(error) = text_of(&source, &json!({"a": 1})) {
            proptest::prop_assert_ne!(error.reason(), "RenderAborted", "{}: {}", source, error);
            proptest::prop_assert!(!error.to_string().contains("not understood"), "{}: {}", source, error);
        }
    }
}
