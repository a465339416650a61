//! One row per filter and function.

use super::{all_give, failure};

#[test]
fn text_filters() {
    all_give(&[
        ("{{ values.text | quote }} {{ true | quote }}", r#""a: 'b'\n\nc \"d\" \\" "true""#),
        (r#"{{ "it's" | squote }} {{ 5 | squote }}"#, "'it''s' '5'"),
        ("{{ 'a\nb' | indent(2) }}|{{ 'a\n\nb\n' | nindent(2) }}", "  a\n  b|\n  a\n\n  b"),
        ("{{ 'äöü' | trunc(2) }}{{ 'abc' | trunc(0) }}", "äö"),
        ("{{ 'äöü' | substr(1, 2) }}{{ 'abc' | substr(5) }}{{ 'abc' | substr(1, 99999999999) }}", "öübc"),
        ("{{ 'v1.2' | trimprefix('v') }} {{ 'a-b-' | trimsuffix('-') }}", "1.2 a-b"),
        ("{{ 'abc' | hasprefix('ab') }} {{ 'abc' | hassuffix('x') }}", "true false"),
        (
            "{{ 'myHTTPServer-name 2' | snakecase }} {{ 'myHTTPServer' | kebabcase }}",
            "my_httpserver_name_2 my-httpserver",
        ),
        ("{{ 'my-app_name' | camelcase }} {{ 'my-app' | pascalcase }}", "myAppName MyApp"),
        ("{{ 'a-b-a' | replace('a', 'xx') }} {{ [1, none, 2] | join('-') }}", "xx-b-xx 1-none-2"),
        ("{{ values.list | join(', ') }} {{ 'ab' | repeat(3) }} {{ 'ab' * 2 }}", "b, a, b ababab abab"),
        ("{{ 'hé' | b64encode }} {{ 'aMOp' | b64decode }}", "aMOp hé"),
        ("{{ 'a' | sha256 }}", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        ("{{ ('a' | sha512)[:8] }} {{ '/a/b.txt' | basename }} {{ 7 | string ~ 1 }}", "1f40fc92 b.txt 71"),
        (
            "{{ 'a' | upper }} {{ ' a ' | trim }} {{ 'a,b' | split(',') }} {{ 'hello world' | title }}",
            r#"A a ["a", "b"] Hello World"#,
        ),
        ("{{ '%s-%03d' | format('a', 7) }} {{ '<b>' | escape }} {{ '<b>' | safe }}", "a-007 &lt;b&gt; <b>"),
    ]);
}

#[test]
fn number_filters() {
    all_give(&[
        (
            "{{ '42' | int }} {{ '4.9' | int }} {{ 4.9 | int }} {{ true | int }} {{ '1.5' | float }}",
            "42 4 4 1 1.5",
        ),
        ("{{ 1.2 | ceil }} {{ -1.2 | floor }} {{ 2.567 | round(1) }} {{ -3 | abs }}", "2 -2 2.6 3"),
        ("{{ toint('7') }} {{ tofloat('2.5') }} {{ tostring(7) ~ '!' }}", "7 2.5 7!"),
        ("{{ '1.33.1' | semver_match('>=1.30') }}", "true"),
        ("{{ capabilities.kubeVersion.version | semver_match('<1.30.0') }}", "false"),
    ]);
    assert!(failure("{{ 'x' | int }}").to_string().contains("this string cannot become an integer"));
    assert!(failure("{{ 1e30 | int }}").to_string().contains("cannot become an integer"));
}

#[test]
fn data_filters() {
    all_give(&[
        ("{{ values.map | toyaml }}", "a:\n  deep:\n  - 1\n  - x\nb: 2"),
        ("{{ values.map | tojson }} {{ none | tojson }}", r#"{"a":{"deep":[1,"x"]},"b":2} null"#),
        ("{{ [1] | tojson_pretty }}{{ [1] | tojson(indent=2) }}", "[\n  1\n][\n  1\n]"),
        (
            "{{ ('a: [1, 0644]' | fromyaml).a }} {{ ('{\"a\": 1}' | fromjson).a }} {{ fromyaml('x') }}",
            "[1, 420] 1 x",
        ),
        ("{{ fromjson('[true]') }}", "[true]"),
        ("{{ values.missing | empty }} {{ '' | empty }} {{ [] | empty }}", "true true true"),
        ("{{ 0 | empty }} {{ false | empty }} {{ values.name | empty }}", "false false false"),
        (
            "{{ values.map | haskey('a') }} {{ values.map | haskey('z') }} {{ values.name | haskey('a') }}",
            "true false false",
        ),
        ("{{ values.map | keys }} {{ {'a': 1, 'b': 2} | values }}", r#"["a", "b"] [1, 2]"#),
        (
            "{{ {'a': {'x': 1, 'y': 2}} | merge({'a': {'y': 3}, 'b': 4}) }}",
            r#"{"a": {"x": 1, "y": 3}, "b": 4}"#,
        ),
        ("{{ [1, none, 'a'] | tostrings(prefix='<', suffix='>') }}", r#"["<1>", "", "<a>"]"#),
        ("{{ ['', 'a'] | tostrings(skip_empty=true) }} {{ 1 | tostrings }}", r#"["a"] ["1"]"#),
        ("{{ {'a': 1, 'b': 2} | pick('a') }} {{ {'a': 1, 'b': 2} | omit('a') }}", r#"{"a": 1} {"b": 2}"#),
        ("{{ [1] | append(2) | prepend(0) | concat([3], [4]) }}", "[0, 1, 2, 3, 4]"),
        ("{{ [1, 2, 1] | without(1) }} {{ ['', 'a', none] | compact }}", r#"[2] ["a"]"#),
        ("{{ 'x' | required('m') }} {{ false | required('m') }} {{ 0 | required('m') }}", "x false 0"),
        ("{{ values.list | unique | sort }} {{ values.map | dictsort | first | first }}", r#"["a", "b"] a"#),
        ("{{ values.list | length }} {{ [3, 1] | min }} {{ [[1, 2], [3]] | map('length') }}", "3 1 [2, 1]"),
        (
            "{{ values.missing | default('x') }} {{ values.empty | default('y', true) }} {{ values.missing | d('z') }}",
            "x y z",
        ),
    ]);
    assert!(failure("{{ values.x | required('set x!') }}").to_string().contains("set x!"));
    assert!(failure("{{ '' | required }}").to_string().contains("required"));
    assert!(failure("{{ 'a: [' | fromyaml }}").to_string().contains("fromyaml:1"));
}

#[test]
fn functions_take_both_call_forms() {
    all_give(&[
        (
            "{{ dict('a', 1, 'b', 2) }} {{ dict(['a', 1]) }} {{ dict(a=1) }}",
            r#"{"a": 1, "b": 2} {"a": 1} {"a": 1}"#,
        ),
        (
            "{{ dict({'a': 1}, b=2) }} {{ dict() }} {{ dict('m', {'x': 1}) }}",
            r#"{"a": 1, "b": 2} {} {"m": {"x": 1}}"#,
        ),
        ("{{ list(1, 2) }} {{ list([1, 2]) }} {{ list() }}", "[1, 2] [1, 2] []"),
        (
            "{{ coalesce(values.missing, '', none, 'x') }} {{ coalesce(['', 0]) }} {{ coalesce([], 1) }}",
            "x 0 []",
        ),
        ("{{ printf('%s-%d', 'a', 1) }} {{ printf('%s-%d', ['a', 1]) }}", "a-1 a-1"),
        (
            "{{ printf('%05.1f|%-4s|%4s|%q|%t|%v%%|%+d', 3.14, 'a', 'b', 'c', true, [1], 5) }}",
            "003.1|a   |   b|c|true|[1]%|+5",
        ),
        (
            "{{ get(values.map, 'b') }} {{ get(values.map, 'z', 'd') }} {{ get(values.missing, 'z', 1) }}",
            "2 d 1",
        ),
        ("{{ set({'a': 1}, 'a', 2) }} {{ unset({'a': 1, 'b': 2}, 'a') }}", r#"{"a": 2} {"b": 2}"#),
        ("{{ dig(values.map, 'a', 'deep', 1, 'none') }} {{ dig(values, 'x', 'y', 'none') }}", "x none"),
        ("{{ ternary('a', 'b', values.yes) }} {{ ternary('a', 'b', false) }}", "a b"),
        (
            "{{ tpl('{{ release.name }}-{{ values.n }}') }} {{ tpl('{{ x }}', {'x': 1}) }} {{ tpl('plain') }}",
            "shop-3 1 plain",
        ),
    ]);
}

#[test]
fn a_function_that_cannot_work_says_why() {
    for (template, part) in [
        ("{{ dict('a') }}", "a value for each key"),
        ("{{ dict(1, 2) }}", "a key of a dict"),
        ("{{ printf('%s') }}", "fewer arguments"),
        ("{{ '%s' | format(1, 2) }}", "more arguments"),
        ("{{ printf('%9999s', 1) }}", "width up to 999"),
        ("{{ '%' | format }}", "ends inside a verb"),
        ("{{ '%y' | format(1) }}", "not known"),
        ("{{ fail('values.x is wrong') }}", "NOTES.txt:1: values.x is wrong"),
        ("{{ nope(1) }}", "nope is unknown"),
        ("{{ 1 | nope }}", "nope is unknown"),
        ("{{ 1 is nope }}", "nope is unknown"),
    ] {
        let error = failure(template).to_string();
        assert!(error.contains(part), "{template}: {error}");
    }
}
