//! How mistakes are told: file, line, expression, and what to set; never a value.

use serde_json::json;

use super::{pack, run, text_of};

#[track_caller]
fn told(template: &str) -> (String, String) {
    let error =
        text_of(template, &json!({"secret": "hunter2", "list": [{"a": 1}], "number": 1.5})).unwrap_err();
    (error.to_string(), error.excerpt().map(ToString::to_string).unwrap_or_default())
}

#[test]
fn a_value_that_is_not_set_is_named_with_its_path_and_underlined() {
    let (message, excerpt) = told("a: 1\nb: \"{{ values.image.tag | quote }}\"");
    assert_eq!(message, "templates/NOTES.txt:2: `values.image` is not set (in `values.image.tag | quote`)");
    assert_eq!(excerpt.lines().nth(1), Some("2 | b: \"{{ values.image.tag | quote }}\""));
    assert!(excerpt.lines().nth(2).unwrap().contains("^^^^"), "{excerpt}");
    for (template, part) in [
        ("{{ values.tag }}", "`values.tag` is not set"),
        ("{{ values['a']['b'] ~ 'x' }}", "is not set"),
        ("{% for i in values.list %}{{ i.b }}{% endfor %}", "`i.b` is not set"),
        ("{% set x = values.tag %}\n{{ x }}", "`values.tag` is not set (from line 1)"),
        ("{% macro m(v) %}{{ v }}{% endmacro %}{{ m(values.tag) }}", "`values.tag` is not set"),
        ("{{ tpl('{{ values.tag }}') }}", "in the text given to `tpl`, line 1: `values.tag` is not set"),
        ("{{ vaules.tag }}", "`vaules` is not set"),
    ] {
        let (message, _) = told(template);
        assert!(
            message.starts_with("templates/NOTES.txt:") && message.contains(part),
            "{template}: {message}"
        );
    }
}

#[test]
fn the_carets_stand_below_the_expression_as_it_was_written() {
    for (line, expression) in [
        ("x: {{ [1, 2] ~ (values.number | b64decode) }}", "b64decode"),
        ("x: {{ 'a' ~ values.tag ~ 'b' }} y", "'a' ~ values.tag"),
        ("{{ 'ü' ~ [1][0] ~ (1 / 0) }}", "1 / 0"),
        ("{% if values.list[0].a ~ 'x' == fail('stop') %}{% endif %}", "fail('stop')"),
    ] {
        let (message, excerpt) = told(&format!("first\n{line}\nlast"));
        assert!(message.starts_with("templates/NOTES.txt:2: "), "{message}");
        let lines: Vec<&str> = excerpt.lines().collect();
        assert_eq!(lines.get(1), Some(&format!("2 | {line}").as_str()), "{line}: {message}");
        let start = lines[2].find('^').unwrap();
        let carets = lines[2].matches('^').count();
        let below: String = lines[1].chars().skip(start).take(carets).collect();
        assert!(below.contains(expression), "{line}: `{below}` is underlined");
    }
}

#[test]
fn no_message_shows_a_value_or_a_guard() {
    for template in [
        "{{ values.secret | int }}",
        "{{ values.secret | float }}",
        "{{ values.secret | b64decode }}",
        "{{ values.secret | fromjson }}",
        "{{ (values.secret ~ ': [') | fromyaml }}",
        "{{ values.secret | append(1) }}",
        "{{ values.secret | keys }}",
        "{{ values.secret | round }}",
        "{{ values.secret + 1 }}",
        "{{ values.secret * 'x' }}",
        "{{ values.secret.x.y | upper }}",
        "{{ values.secret | semver_match('>=1') }}",
        "{{ '1.2.3' | semver_match(values.secret ~ '!!') }}",
        "{{ 'x' | regex_match(values.secret ~ '(') }}",
        "{{ printf('%' ~ values.secret, 1) | int }}",
        "{{ generate_secret('a', 5, values.secret) }}",
        "{{ dict(values.secret) }}",
        "{{ range(values.secret) }}",
        "{{ tpl('{{ ' ~ values.secret ~ ' + }}') }}",
        "{{ values.list | sum(attribute='a') | fromjson | keys }}",
        "{{ [values.secret] | sort(attribute='x') | first | abs }}",
        "{{ lookup(values.secret) }}",
    ] {
        let (message, excerpt) = told(template);
        assert!(!message.contains("hunter2") && !excerpt.contains("hunter2"), "{template}: {message}");
        assert!(
            !message.contains("__guard") && !excerpt.contains("__guard"),
            "{template}: {message}\n{excerpt}"
        );
    }
}

#[test]
fn a_text_that_renders_itself_ends_in_one_clear_error() {
    for call in ["tpl", "tpl_ctx"] {
        let me = format!("{{{{ {call}(values.me) }}}}");
        let error = text_of(&format!("a\n{me}"), &json!({"me": me})).unwrap_err();
        assert_eq!(error.reason(), "RenderLimit");
        let message = error.to_string();
        assert!(message.starts_with("templates/NOTES.txt:2: "), "{message}");
        assert!(message.contains("more than 10 levels deep"), "{message}");
        assert_eq!(message.matches("in the text given to").count(), 1, "{message}");
    }
    // Side by side is not inside each other.
    let text = text_of("{% for i in range(50) %}{{ tpl('{{ 1 }}') }}{% endfor %}", &json!({})).unwrap();
    assert_eq!(text, "1".repeat(50));
}

#[test]
fn a_mistake_in_an_included_file_is_told_where_it_is() {
    let files = [
        ("templates/_part.txt", "\n\n{{ values.deep.er | upper }}"),
        ("templates/a.yaml", "{% include '_part.txt' %}"),
    ];
    let error = run(&pack("", &files), &json!({})).unwrap_err();
    assert!(error.to_string().starts_with("templates/_part.txt:3: `values.deep` is not set"), "{error}");
    assert!(error.excerpt().unwrap().to_string().contains("3 | {{ values.deep.er | upper }}"));
}

#[test]
fn a_syntax_error_has_its_line_and_place() {
    let (message, excerpt) = told("a\nb: {{ values. }}\n");
    assert!(message.starts_with("templates/NOTES.txt:2: syntax error"), "{message}");
    assert!(excerpt.is_empty() || excerpt.contains("2 | b: {{ values. }}"), "{excerpt}");
}
