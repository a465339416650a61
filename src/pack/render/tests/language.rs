//! What templates can say, and how mistakes are reported.

use serde_json::json;

use super::{all_give, failure, pack, run};
use crate::pack::render::Error;

#[test]
fn values_print_as_yaml_would_read_them() {
    all_give(&[
        (
            "{{ values.name }} {{ values.n }} {{ values.f }} {{ values.yes }} {{ values.big }}",
            "shop 3 1.5 true 9007199254740993",
        ),
        ("[{{ none }}]", "[none]"),
        (
            "{{ values.list }} {{ values.map }} {{ [none, true] }}",
            r#"["b", "a", "b"] {"a": {"deep": [1, "x"]}, "b": 2} [none, true]"#,
        ),
        (
            "{{ 1.0 }} {{ 7 // 2 }} {{ 2 * 3 }} {{ 2 * 1.5 }} {{ -3 * 2 }} {{ 2 ** 10 }}",
            "1.0 3 6 3.0 -6 1024",
        ),
        ("<a href=\"{{ '<&>' }}\">", "<a href=\"<&>\">"),
    ]);
}

#[test]
fn the_context_is_complete() {
    all_give(&[
        ("{{ release.name }} {{ release.namespace }} {{ release.revision }}", "shop apps 3"),
        ("{{ release.isInstall }} {{ release.isUpgrade }} {{ release.service }}", "false true Sherpack"),
        ("{{ pack.name }} {{ pack.version }} {{ pack.appVersion }}", "demo 1.2.3 4"),
        ("{{ capabilities.kubeVersion.version }}", "v1.33.2"),
        ("{{ capabilities.kubeVersion.major }}.{{ capabilities.kubeVersion.minor }}", "1.33"),
        ("{{ 'apps/v1' in capabilities.apiVersions }}", "true"),
        ("{{ template.name }} {{ template.basePath }}", "demo/templates/NOTES.txt demo/templates"),
    ]);
}

#[test]
fn guarded_expressions_mean_the_same() {
    all_give(&[
        (
            "{{ 1 + 2 - 3 + 4 * 2 + 1 }} {{ 4 ~ 'a' ~ 2 * 3 if true else 'x' ~ 'y' }} {{ 'a' ~ 'b' + 'c' }}",
            "9 4a6 abc",
        ),
        ("{{ 'a' ~ (1 + 2) * 2 }} {{ (('x')) ~ (('y')) }} {{ -2 * 3 }} {{ 2 * -3 }}", "a6 xy -6 -6"),
        (
            "{{ not 1 + 1 == 3 }} {{ 1 < 2 < 3 }} {{ 2 not in [1] }} {{ 'a' ~ 'b' in 'cab' }}",
            "true true true true",
        ),
        (
            "{{ values.map.a.deep[0] + 1 }} {{ values['na' ~ 'me'] }} {{ values.list[1:] }}",
            r#"2 shop ["a", "b"]"#,
        ),
        (
            "{{ values.list[::-1] }} {{ 'abc'[:2] }} {{ values.map.a['deep'][1:][0] }}",
            r#"["b", "a", "b"] ab x"#,
        ),
        (
            "{{ 'abcdef'[1:5:2] }} {{ 'abcdef'[-2:] }} {{ 'abcdef'[4:1:-1] }} {{ 'abc'[::-1] }} {{ 'äöü'[1] }}",
            "bd ef edc cba ö",
        ),
        (
            "{{ [1, 2, 3][:-1] }} {{ [1, 2][5:] }} {{ [{'a': 'x' ~ 'y'}][0:1][0]['a'][1:][:1] }} {{ 'ab'[{'k': 0}['k']:] }}",
            "[1, 2] [] y ab",
        ),
        (
            "{{ [1, [2, (3, 4)], {'a': [5], 6: (7,)}] }} {{ () }} {{ (1) }} {{ [] }} {{ {} }}",
            r#"[1, [2, [3, 4]], {6: [7], "a": [5]}] [] 1 [] {}"#,
        ),
        ("{{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 4 is not even }}", "true false false"),
        ("{{ values.z is defined }} {{ 'a' is eq 'a' and (1 + 1) is eq 2 }}", "false true"),
        (
            "{{ values.list | map('upper') | join }} {{ [{'a': 1}, {'a': 2}] | map(attribute='a') | sum }}",
            "BAB 3",
        ),
    ]);
}

#[test]
fn guarded_statements_mean_the_same() {
    all_give(&[
        (
            "{% set a, b = 1, 2 %}{{ a + b }} {% set t = 1, %}{{ t }}{% set x | upper %}q{% endset %}{{ x }}",
            "3 [1]Q",
        ),
        (
            "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "6",
        ),
        ("{% with a = 1 + 1, b = [2] + [3] %}{{ a ~ b }}{% endwith %}", "2[2, 3]"),
        ("{% macro m(a, b=1 + 1) %}{{ a ~ b }}{% endmacro %}{{ m('x') }}{{ m('x', b='y' ~ 'z') }}", "x2xyz"),
        ("{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(1) %}-c{% endcall %}", "1-c"),
        (
            "{% macro e(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(v) e([1, 2]) %}<{{ v + 1 }}>{% endcall %}",
            "<2><3>",
        ),
        (
            "{% for k, v in values.map | items if k != 'b' %}{{ k }}{{ loop.index }}{% else %}-{% endfor %}",
            "a1",
        ),
        (
            "{% for x in [] %}a{% else %}none{% endfor %}{% for x in ['a', 'b', 'c'] %}{% if x == 'b' %}{% continue %}{% endif %}{{ x }}{% endfor %}",
            "noneac",
        ),
        (
            "{% filter upper | replace('A', 'b' ~ 'c') %}a{% endfilter %}{% autoescape true %}{{ '<' }}{% endautoescape %}",
            "bc&lt;",
        ),
        ("{%- if values.n > 1 + 1 -%}  yes  {%- elif 1 -%} no {%- endif -%}\n  end", "yesend"),
        (
            "{% raw %}{{ a ~ b }}{% endraw %}{# a ~ b #}{{ '{{' ~ \"}}\" }}{{ 'a' 'b' ~ 'c' }}",
            "{{ a ~ b }}{{}}abc",
        ),
        (
            "{{ dict(**{'a': 1}) }} {{ list(*[1, 2]) }} {% do namespace(a=1) %}{{ 'x' if false }}",
            "{\"a\": 1} [1, 2] ",
        ),
    ]);
}

#[test]
fn strict_packs_report_missing_values_and_name_them() {
    for template in [
        "{{ values.port }}",
        "{{ values.port ~ 'x' }}",
        "{{ 'x' ~ values.port }}",
        "{% for p in values.port %}{% endfor %}",
        "{{ values.port.number }}",
        "{{ values.port * 2 }}",
        "{{ values.port | quote }}",
        "{{ values.port | toyaml }}",
        "{{ values.port | b64encode }}",
        "{{ values.port | upper }}",
        "{{ values.port == 80 }}",
        "{{ 1 in values.port }}",
        "{{ 'a' | replace('a', values.port) }}",
        "{{ printf('%s', values.port) }}",
        "{{ values.port.of.web | default(values.port.of.web) }}",
        "{{ values.port + 1 }}",
        "{{ values.port[0] }}",
        "{{ tpl(values.port) }}",
    ] {
        let error = failure(template).to_string();
        assert!(
            error.contains("templates/NOTES.txt:1") && error.contains("`values.port`"),
            "{template}: {error}"
        );
    }
    all_give(&[
        ("{% if values.port %}a{% else %}b{% endif %}", "b"),
        ("{% if not values.port and values.name %}a{% endif %}", "a"),
        (
            "{{ values.port or 80 }} {{ values.port | default(81) }} {{ values.port is defined }}",
            "80 81 false",
        ),
        // A field of what is missing is only missing.
        (
            "{{ values.a.b.c | default('x') }} {{ values.a.b or 'y' }} {{ values.a['b'][0] is defined }}",
            "x y false",
        ),
        ("{% if values.a.b.c %}a{% else %}b{% endif %}{{ 'c' if values.a.b }}", "b"),
        (
            "{{ dig(values, 'a', 'b', 'd') }} {{ coalesce(values.a.b, 'e') }} {{ values.a.b | empty }}",
            "d e true",
        ),
    ]);
}

#[test]
fn lenient_packs_print_nothing_at_any_depth() {
    let text =
        "[{{ values.a.b.c }}{{ 'x' ~ values.d }}{% for x in values.e %}{% endfor %}{{ values.f | quote }}]";
    let pack = pack("engine: {strict: false}\n", &[("templates/NOTES.txt", text)]);
    assert_eq!(run(&pack, &json!({})).unwrap().notes.unwrap(), "[x\"\"]");
}

#[test]
fn an_error_names_the_file_and_line_where_it_happened() {
    let pack = pack(
        "",
        &[
            ("templates/_helpers.tpl", "{% macro name(values) %}\n\n{{ values.missing }}\n{% endmacro %}"),
            (
                "templates/a.yaml",
                "{% import '_helpers.tpl' as h %}\nkind: A\n---\nname: {{ h.name(values) }}\n",
            ),
        ],
    );
    let Error::Template { file, line, message, excerpt } = run(&pack, &json!({})).unwrap_err() else {
        panic!()
    };
    assert_eq!((file.as_str(), line), ("templates/_helpers.tpl", 3));
    assert_eq!(message, "`values.missing` is not set");
    assert_eq!(excerpt.unwrap().to_string(), "  |\n3 | {{ values.missing }}\n  |    ^^^^^^^^^^^^^^");
}

#[test]
fn a_mistake_in_the_source_is_reported_in_plain_words() {
    for (template, part) in [
        ("a\n{{ 1 + }}", "NOTES.txt:2: syntax error"),
        ("{% if x %}", "unexpected end of input"),
        ("a\n{% for x in y recursive %}{% endfor %}", "NOTES.txt:2: recursive loops are not supported"),
        ("{{ __guard_cat(1, 2) }}", "reserved"),
        ("{% set __guard_hold = 1 %}", "reserved"),
        ("{% nope %}", "unknown statement"),
    ] {
        let error = failure(template).to_string();
        assert!(error.contains(part), "{template}: {error}");
    }
}

#[test]
fn only_templates_are_rendered_and_only_notes_are_notes() {
    let pack = pack(
        "",
        &[
            ("templates/b.yml", "kind: B\nname: {{ template.name }}"),
            ("templates/a.yaml.j2", "{% include 'sub/_part.txt' %}"),
            ("templates/sub/_part.txt", "kind: A"),
            ("templates/release-notes.yaml", "kind: M"),
            ("templates/sub/notes.txt", "hello"),
            ("templates/empty.yaml", "{% if false %}kind: X{% endif %}"),
            ("templates/logo.svg", "{{ broken"),
            ("templates/README.md", "{{ broken"),
            ("other/c.yaml", "{{ broken"),
            (
                "templates/list.json",
                r#"{"kind": "List", "apiVersion": "v1", "items": [{"kind": "I"}, {"kind": "J"}]}"#,
            ),
        ],
    );
    let rendered = run(&pack, &json!({})).unwrap();
    let kinds: Vec<&str> = rendered.objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["A", "B", "I", "J", "M"]);
    assert_eq!(rendered.notes.as_deref(), Some("hello"));
    assert_eq!(rendered.objects[1]["name"], "demo/templates/b.yml");
}

#[test]
fn output_that_is_no_manifest_is_an_error_with_its_file() {
    for (text, place) in [("kind: A\nb: [", "templates/a.yaml:2"), ("just text", "templates/a.yaml")] {
        let error = run(&pack("", &[("templates/a.yaml", text)]), &json!({})).unwrap_err();
        assert!(error.to_string().contains(place), "{error}");
    }
}

#[test]
fn a_library_and_a_wrong_cluster_are_refused() {
    let library = run(&pack("kind: library\n", &[]), &json!({})).unwrap_err();
    assert_eq!(library.reason(), "PackIsLibrary");
    let mut future = pack("", &[]);
    future.metadata.kube_version = Some(">=1.99".to_owned());
    assert_eq!(run(&future, &json!({})).unwrap_err().reason(), "KubernetesVersion");
    future.metadata.kube_version = Some("new".to_owned());
    assert_eq!(run(&future, &json!({})).unwrap_err().reason(), "PackInvalid");
}

#[test]
fn values_are_laid_on_the_defaults() {
    let pack =
        pack("", &[("values.yaml", "a: {b: 1, c: 2}\nd: 1\n"), ("templates/NOTES.txt", "{{ values }}")]);
    let rendered = run(&pack, &json!({"a": {"b": 5}, "d": null})).unwrap();
    assert_eq!(rendered.notes.unwrap(), r#"{"a": {"b": 5, "c": 2}}"#);
    assert_eq!(rendered.values, json!({"a": {"b": 5, "c": 2}}));
}

#[test]
fn a_definition_in_a_file_named_like_a_helper_is_rendered() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: '{{ release.name }}.b'}\n";
    let files = |files: &[(&str, &str)]| {
        let rendered = run(&pack("", files), &json!({})).unwrap();
        rendered.origins
    };
    assert_eq!(files(&[("templates/_crd.yaml", crd)]), ["templates/_crd.yaml"]);
    assert_eq!(files(&[("templates/deep/_crd.yml", crd)]), ["templates/deep/_crd.yml"]);
    // Another template has a use for it, or it is no YAML, or it defines nothing.
    let include = ("templates/crd.yaml", "{% include '_crd.yaml' %}");
    assert_eq!(files(&[("templates/_crd.yaml", crd), include]), ["templates/crd.yaml"]);
    assert_eq!(files(&[("templates/_crd.tpl", crd)]), [""; 0]);
    let other = crd.replace("CustomResourceDefinition", "ConfigMap");
    assert_eq!(files(&[("templates/_crd.yaml", &other)]), [""; 0]);
    // Macros give nothing by themselves.
    let helper = format!("{{% macro crd() %}}\n{crd}{{% endmacro %}}\n");
    assert_eq!(files(&[("templates/_crd.yaml", &helper)]), [""; 0]);
}
