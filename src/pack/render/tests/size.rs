//! Sources that are too long, too deep or too many for the engine, and data that is too much for memory.

use std::sync::Arc;

use serde_json::json;

use super::{failure, pack, run, run_with, text_of};
use crate::pack::render::{Lookup, NoCluster, Secrets, Stop};

/// What can be repeated without end: before, the part, the middle, what closes the part, behind.
type Form = (&'static str, &'static str, &'static str, &'static str, &'static str);

const FORMS: &[Form] = &[
    ("{{ ", "-", "1", "", " }}"),
    ("{{ ", "not ", "1", "", " }}"),
    ("{{ ", "1 if 1 else ", "1", "", " }}"),
    ("{{ 1", " if 1", "", "", " }}"),
    ("{{ 1", " ** 1", "", "", " }}"),
    ("{{ a", ".b", "", "", " }}"),
    ("{{ a", "[0]", "", "", " }}"),
    ("{{ a", "()", "", "", " }}"),
    ("{{ a", "|string", "", "", " }}"),
    ("{{ a", " is defined", "", "", " }}"),
    ("{{ 1", " and 1", "", "", " }}"),
    ("{{ 1", " or 1", "", "", " }}"),
    ("{{ 1", " + 1", "", "", " }}"),
    ("{{ 1", " - 1", "", "", " }}"),
    ("{{ 1", " // 1", "", "", " }}"),
    ("{{ 1", " ~ 1", "", "", " }}"),
    ("{{ 1", " == 1", "", "", " }}"),
    ("{{ 1", " not in 1", "", "", " }}"),
    ("{{ [1", ", 1", "", "", "] }}"),
    ("{{ 'a'", " 'a'", "", "", " }}"),
    ("{{ ", "(", "1", ")", " }}"),
    ("{{ ", "[", "1", "]", " }}"),
    ("{{ ", "{'a':", "1", "}", " }}"),
    ("{{ ", "f(", "1", ")", " }}"),
    ("{% if 1 %}", "{% elif 0 %}", "", "", "{% endif %}"),
    ("", "{% if 1 %}", "", "{% endif %}", ""),
    ("", "{% if 1 %}{% elif 0 %}", "", "{% endif %}", ""),
    ("", "{% for a in [] %}", "", "{% endfor %}", ""),
    ("{% set x", "|string", "", "", " %}{% endset %}"),
    ("{% filter string", "|string", "", "", " %}{% endfilter %}"),
    ("{% set ", "a.", "b", "", " = 1 %}"),
    ("{% include ", "['a'] + ", "['b']", "", " %}"),
    ("{% macro m(", "a,", "b", "", ") %}{% endmacro %}"),
    ("", "{{ 1 }}", "", "", ""),
    ("", "{# a #}", "", "", ""),
    ("", "{% set a = 'x' %}", "", "", ""),
];

fn repeated((before, part, middle, close, after): Form, count: usize) -> String {
    format!("{before}{}{middle}{}{after}", part.repeat(count), close.repeat(count))
}

#[test]
fn endless_chains_end_in_an_error_and_not_in_the_end_of_the_stack() {
    for form in FORMS {
        let fits = ((1 << 20) - 100) / (form.1.len() + form.3.len());
        for count in [600, 1_900, 5_100, 20_000, fits, 1_000_000] {
            let source = repeated(*form, count);
            let result = text_of(&source, &json!({}));
            let reason = result.as_ref().map_or_else(|error| error.reason(), |_| "");
            assert_ne!(reason, "RenderAborted", "{count} of {form:?}");
            assert!(result.is_err() || count < 200_000, "{count} of {form:?}");
        }
        let nested = text_of("{{ tpl(values.t) }}", &json!({"t": repeated(*form, fits)}));
        assert_ne!(nested.map_or_else(|error| error.reason(), |_| ""), "RenderAborted", "tpl of {form:?}");
    }
    let doubled = failure(r#"{{ tpl("{{ " ~ "-" * 400000 ~ "1 }}") }}"#);
    assert!(doubled.to_string().contains("one tag is longer"), "{doubled}");
}

#[test]
fn the_longest_chains_that_are_let_through_are_far_from_the_end_of_the_stack() {
    let elifs = format!("{{% if 0 %}}{}{{% else %}}end{{% endif %}}", "{% elif 0 %}".repeat(4_900));
    assert_eq!(text_of(&elifs, &json!({})).unwrap(), "end");
    let open = "{% for i in [1] %}".repeat(60);
    let close = "{% endfor %}".repeat(60);
    let long = format!("{open}{{{{ {}true }}}}{close}", "not not ".repeat(950));
    assert_eq!(text_of(&long, &json!({})).unwrap(), "true");
    // Branches of blocks inside each other stand on one stack.
    let nested = format!("{{% if 1 %}}{}", "{% elif 0 %}".repeat(3_000)).repeat(2);
    let error = failure(&format!("{nested}{}", "{% endif %}".repeat(2)));
    assert!(error.to_string().contains("`elif`"), "{error}");
    let after_each_other = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(3_000)).repeat(3);
    assert_eq!(text_of(&after_each_other, &json!({})).unwrap(), "");
}

#[test]
fn the_source_of_a_pack_is_bounded_and_the_file_is_named() {
    let just = "x".repeat((1 << 20) - 10);
    for (files, name, part) in [
        (vec![("templates/a.yaml", "x".repeat((1 << 20) + 1))], "templates/a.yaml", "larger than 1 MiB"),
        (
            ["templates/_a", "templates/_b", "templates/_c", "templates/_d", "templates/_e"]
                .map(|name| (name, just.clone()))
                .to_vec(),
            "templates/_e",
            "together are larger than 4 MiB",
        ),
        (
            vec![
                ("templates/a.yaml", "{{1}}".repeat(209_000)),
                ("templates/b.yaml", "{{1}}".repeat(209_000)),
            ],
            "templates/b.yaml",
            "too many tags",
        ),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let error = run(&pack("", &files), &json!({})).unwrap_err();
        assert_eq!(error.reason(), "RenderLimit");
        assert!(error.to_string().contains(name) && error.to_string().contains(part), "{error}");
    }
    assert_eq!(text_of(&just, &json!({})).unwrap().len(), just.len());
}

#[test]
fn data_that_takes_far_more_memory_than_its_text_is_refused() {
    for template in [
        "{% set a = ('[' ~ '{\"b\":1},' * 60000 ~ '1]') | fromjson %}",
        "{% set a = ('[' ~ '{b: 1},' * 30000 ~ '1]') | fromyaml %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(40) %}{% set ns.l = ns.l + ['[1,2,3,4]' | fromjson] * 9000 %}{% endfor %}",
    ] {
        let reason = failure(template).reason();
        assert!(matches!(reason, "RenderLimit" | "RenderFailed"), "{template}: {reason}");
    }
    let error = text_of("a", &json!({"a": vec![json!({"b": 1}); 80_000]})).unwrap_err();
    assert_eq!(error.reason(), "RenderLimit", "{error}");
    let many = "a: [{{ '1,' * 60000 }}]";
    let files = [("templates/a.yaml", many), ("templates/b.yaml", many), ("templates/c.yaml", many)];
    let error = run(&pack("", &files), &json!({})).unwrap_err();
    assert_eq!(error.reason(), "RenderLimit");
    assert!(error.to_string().contains("templates/c.yaml"), "{error}");
}

#[test]
fn every_text_that_is_worked_through_is_paid_for() {
    for body in [
        "{% set y = '' | hasprefix(f) %}",
        "{% set y = '' | hassuffix(f) %}",
        "{% set y = '' | trimprefix(f) %}",
        "{% set y = '' | replace(f, '') %}",
        "{% set y = '' | replace('a', f) %}",
        "{% set y = f | semver_match('1') is defined %}",
        "{% set y = [] | join(f) %}",
        "{% set y = printf('%' ~ f ~ '%') %}",
        "{% do tpl(f) %}",
        "{% for c in f %}{% break %}{% endfor %}",
        "{% include f ignore missing %}",
        "{% include [f] ignore missing %}",
    ] {
        let error = failure(&format!(
            "{{% set f = '0' * 4000000 %}}{{% for i in range(99999) %}}{body}{{% endfor %}}"
        ));
        let expected = if body.contains("semver") { "RenderFailed" } else { "RenderLimit" };
        assert_eq!(error.reason(), expected, "{body}: {error}");
    }
    let range = "{{ '1.2.3' | semver_match('1.x || ' * 200 ~ '1.x') }}";
    assert!(failure(range).to_string().contains("longer than 1024 bytes"));
    let loops = "{% set r = '1.x || ' * 140 ~ '1.x' %}{% for i in range(99999) %}{% set y = '1.2.3' | semver_match(r) %}{% endfor %}";
    assert_eq!(failure(loops).reason(), "RenderLimit");
}

#[test]
fn a_render_ends_when_it_is_asked_to() {
    let pack = pack("", &[("templates/a.yaml", "a: {{ 'b' | upper }}")]);
    let none: Arc<dyn Lookup> = Arc::new(NoCluster);
    let stop = Stop::default();
    let go = || run_with(&pack, &json!({}), &none, &Secrets::new(), &stop);
    assert!(go().is_ok());
    stop.now();
    let error = go().unwrap_err();
    assert_eq!(error.reason(), "RenderLimit");
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn a_release_has_at_most_five_thousand_objects_also_when_they_come_in_lists() {
    let one = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let loops =
        |count: usize| format!("{{% for i in range({count}) %}}---\n{}{{% endfor %}}", one("c{{ i }}"));
    let item = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"l{{ i }}\"}},";
    let list = |count: usize| {
        let items = format!("{{% for i in range({count}) %}}{item}{{% endfor %}}");
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{items}]}}")
    };
    let made = |first: &str, second: &str| {
        run(&pack("", &[("templates/a.yaml", first), ("templates/b.yaml", second)]), &json!({}))
    };
    assert_eq!(made(&loops(2_500), &list(2_500)).unwrap().objects.len(), 5_000);
    for second in [loops(2_501), list(2_501)] {
        let error = made(&loops(2_500), &second).unwrap_err();
        assert_eq!(error.reason(), "RenderLimit");
        let told = error.to_string();
        assert!(told.contains("templates/b.yaml") && told.contains("more than 5000 objects"), "{told}");
    }
}
