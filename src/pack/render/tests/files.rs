//! `files`: what templates may read of their pack.

use serde_json::json;

use super::{pack, run};
use crate::pack::render::Error;

fn with_files(template: &str) -> Result<String, Error> {
    let base = "apiVersion: sherpack/v1\nmetadata: {name: demo, version: 1.2.3}\n";
    let mut all: crate::pack::Files = [
        ("Pack.yaml", base),
        ("templates/NOTES.txt", template),
        ("config/app.yaml", "key: value\r\nother: ü\n"),
        ("config/db.yaml", "host: x"),
        ("config/sub/deep.yaml", "deep: true"),
        ("config/a[1].txt", "odd"),
        ("empty.txt", ""),
    ]
    .into_iter()
    .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
    .collect();
    all.insert("logo.png".to_owned(), vec![0x89, b'P', 0xff, 0]);
    let pack = crate::pack::from_files(all, &crate::pack::Limits::default()).unwrap();
    Ok(run(&pack, &json!({}))?.notes.unwrap_or_default())
}

#[test]
fn files_are_read_listed_and_encoded() {
    for (template, expected) in [
        ("{{ files.get('config/db.yaml') }}", "host: x"),
        ("{{ files.get('./config//sub/../db.yaml') }}", "host: x"),
        ("{{ files.get('config/db.yaml') | b64encode }}", "aG9zdDogeA=="),
        ("[{{ files.get('empty.txt') }}]", "[]"),
        ("{{ files.get_bytes('logo.png') | b64encode }}", "iVD/AA=="),
        ("{{ files.get_bytes('empty.txt') | b64encode }}|{{ files.get_bytes('logo.png') | length }}", "|4"),
        (
            "{{ files.get_bytes('logo.png') | sha256 }}",
            "54a16a64cb5ad98b99a3135b3f985be927426ef4ba9be2f22e3b51d7fb8e2042",
        ),
        (
            "{{ files.exists('logo.png') }} {{ files.exists('no') }} {{ files.exists('config') }}",
            "true false true",
        ),
        (
            "{{ files.exists('../demo/logo.png') }} {{ files.exists('/logo.png') }} {{ files.exists('conf') }}",
            "false false false",
        ),
        ("{{ files.lines('config/app.yaml') }}", r#"["key: value", "other: ü"]"#),
        ("{{ files.lines('empty.txt') }}", "[]"),
        (
            "{% for f in files.glob('config/*.yaml') %}{{ f.path }}={{ f.name }}:{{ f.size }}:{{ f.content | length }};{% endfor %}",
            "config/app.yaml=app.yaml:22:21;config/db.yaml=db.yaml:7:7;config/sub/deep.yaml=deep.yaml:10:10;",
        ),
        (
            "{{ files.glob('**/*.yaml') | map(attribute='name') | join(' ') }}",
            "Pack.yaml app.yaml db.yaml deep.yaml",
        ),
        ("{{ files.glob('config/**/deep.yaml') | map(attribute='name') | join(' ') }}", "deep.yaml"),
        ("{{ files.glob('config/**') | length }} {{ files.glob('**') | length }}", "4 8"),
        ("{{ files.glob('config/[a-c]?*.yaml') | map(attribute='name') | join(' ') }}", "app.yaml"),
        ("{{ files.glob('config/[!a]*.yaml') | map(attribute='name') | join(' ') }}", "db.yaml deep.yaml"),
        ("{{ files.glob('config/a[[]1[]].txt') | length }} {{ files.glob('zz*') }}", "1 []"),
        ("{{ files.glob('*.png')[0].content | length }} {{ files.glob('templates/*') | length }}", "4 1"),
        (
            "{% macro m() %}{{ files.get('config/db.yaml') }}{% endmacro %}{{ m() }} {{ tpl('{{ files.exists(\"x\") }}') }}",
            "host: x false",
        ),
    ] {
        match with_files(template) {
            Ok(text) => assert_eq!(text, expected, "{template}"),
            Err(error) => panic!("{template}: {error}"),
        }
    }
}

#[test]
fn what_is_not_in_the_pack_cannot_be_named() {
    for (template, part) in [
        ("{{ files.get('/etc/passwd') }}", "is absolute"),
        ("{{ files.get('../../etc/passwd') }}", "the pack has no file"),
        ("{{ files.get('config/../../x') }}", "the pack has no file"),
        ("{{ files.get('config') }}", "the pack has no file `config`"),
        ("{{ files.get('MANIFEST') }}", "the pack has no file"),
        ("{{ files.get('logo.png') }}", "use `files.get_bytes"),
        ("{{ files.lines('logo.png') }}", "use `files.get_bytes"),
        ("{{ files.get_bytes('nope') }}", "the pack has no file `nope`"),
        ("{{ files.get() }}", "files.get takes one path"),
        ("{{ files.get(5) }}", "takes a path, not a number"),
        ("{{ files.get(values.missing) }}", "`values.missing` is not set"),
        ("{{ files.glob('a**') }}", "a whole part of a path"),
        ("{{ files.glob('***') }}", "no pattern"),
        ("{{ files.glob('[a') }}", "is not closed"),
        ("{{ files.read('x') }}", "get, get_bytes, exists, glob and lines"),
        ("{{ files.glob('a' * 2000) }}", "longer than 1024 bytes"),
    ] {
        let error = with_files(template).unwrap_err().to_string();
        assert!(error.contains(part), "{template}: {error}");
    }
}

#[test]
fn reading_a_file_again_and_again_ends_at_the_limit() {
    let big = "x".repeat(4 << 20);
    for body in [
        "{% set a = files.get('big') %}",
        "{% set a = files.get_bytes('big') %}",
        "{% set a = files.glob('b*') %}",
        "{% set a = files.lines('big') %}",
        "{% set a = files.glob('*?' * 500) %}",
    ] {
        let template = format!("{{% for i in range(90000) %}}{body}{{% endfor %}}");
        let pack = pack("", &[("templates/NOTES.txt", &template), ("big", &big)]);
        assert_eq!(run(&pack, &json!({})).unwrap_err().reason(), "RenderLimit", "{body}");
    }
}
