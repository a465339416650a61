use serde_json::json;

use super::*;
use crate::pack::tests::files;
use crate::pack::{from_files, write_archive};

fn definition(name: &str, version: &str, more: &str) -> String {
    format!("apiVersion: sherpack/v1\nmetadata: {{name: {name}, version: {version}}}\n{more}\n")
}

fn read(all: Files) -> Pack {
    from_files(all, &Limits::default()).unwrap()
}

/// A pack with these dependencies and `charts/redis` 1.2.0, `charts/db-2.0.0.tgz`.
fn pack(dependencies: &str) -> Pack {
    let mut all = files(&[
        ("Pack.yaml", &definition("web", "1.0.0", &format!("dependencies: [{dependencies}]"))),
        ("charts/redis/Pack.yaml", &definition("redis", "1.2.0", "")),
    ]);
    let db = write_archive(&files(&[("Pack.yaml", &definition("db", "2.0.0", ""))])).unwrap();
    all.insert("charts/db-2.0.0.tgz".to_owned(), db);
    read(all)
}

fn names(pack: &Pack, merged: &Value) -> Result<Vec<String>, Error> {
    enabled(pack, merged)
        .map(|found| found.iter().map(|one| format!("{}={}", one.name, one.pack.metadata.name)).collect())
}

#[test]
fn what_is_not_declared_takes_part_under_its_own_name() {
    assert_eq!(names(&pack(""), &json!({})).unwrap(), ["db=db", "redis=redis"]);
}

#[test]
fn conditions_and_tags_decide() {
    let on = |more: &str, values: Value| {
        let dependency = format!("{{name: redis, version: '1', repository: x, {more}}}");
        names(&pack(&dependency), &values).unwrap().contains(&"redis=redis".to_owned())
    };
    for (more, values, expected) in [
        ("", json!({}), true),
        ("enabled: false", json!({"redis": {"enabled": true}}), false),
        ("condition: redis.enabled", json!({"redis": {"enabled": true}}), true),
        ("condition: redis.enabled", json!({"redis": {"enabled": false}}), false),
        ("condition: redis.enabled", json!({}), false),
        ("condition: redis.enabled", json!({"redis": {"enabled": "false"}}), false),
        ("condition: redis.enabled", json!({"redis": {"enabled": "yes"}}), true),
        ("condition: 'a.on, b.on'", json!({"b": {"on": true}}), true),
        ("condition: 'a.on, b.on'", json!({"a": {"on": false}, "b": {"on": true}}), false),
        ("tags: [cache]", json!({}), true),
        ("tags: [cache]", json!({"tags": {"cache": false}}), false),
        ("tags: [cache, fast]", json!({"tags": {"cache": false, "fast": true}}), true),
        ("tags: [cache], condition: a.on", json!({"a": {"on": true}, "tags": {"cache": false}}), true),
        ("tags: [cache], condition: a.on", json!({"a": {"on": false}, "tags": {"cache": true}}), false),
        ("tags: [cache], condition: a.on", json!({"tags": {"cache": true}}), true),
        ("resolve: never", json!({}), true),
        ("resolve: always, condition: a.on", json!({"a": {"on": false}}), false),
    ] {
        assert_eq!(on(more, values.clone()), expected, "{more} {values}");
    }
}

#[test]
fn one_pack_may_be_used_twice_under_aliases() {
    let two = "{name: redis, version: ^1, repository: x, alias: cache}, {name: redis, version: ^1, repository: x, alias: queue}";
    assert_eq!(names(&pack(two), &json!({})).unwrap(), ["cache=redis", "db=db", "queue=redis"]);
    let same = "{name: redis, version: ^1, repository: x}, {name: redis, version: ^1, repository: x}";
    let error = names(&pack(same), &json!({})).unwrap_err();
    assert!(error.reason() == "DependencyInvalid" && error.to_string().contains("alias"), "{error}");
}

#[test]
fn a_directory_may_be_called_by_the_alias_and_an_archive_is_known_by_its_pack() {
    let all = files(&[
        (
            "Pack.yaml",
            &definition(
                "web",
                "1.0.0",
                "dependencies: [{name: redis, version: '>=1', repository: x, alias: cache}]",
            ),
        ),
        ("charts/cache/Pack.yaml", &definition("redis", "1.0.0", "")),
    ]);
    assert_eq!(names(&read(all), &json!({})).unwrap(), ["cache=redis"]);
    let db = "{name: db, version: 2.x, repository: x, alias: store}";
    assert_eq!(names(&pack(db), &json!({})).unwrap(), ["redis=redis", "store=db"]);
}

#[test]
fn of_several_versions_the_wanted_one_is_taken() {
    let archive =
        |version: &str| write_archive(&files(&[("Pack.yaml", &definition("db", version, ""))])).unwrap();
    let mut all = files(&[(
        "Pack.yaml",
        &definition("web", "1.0.0", "dependencies: [{name: db, version: ^2, repository: x}]"),
    )]);
    for version in ["1.0.0", "2.1.0", "3.0.0"] {
        all.insert(format!("charts/db-{version}.tgz"), archive(version));
    }
    let pack = read(all);
    assert_eq!(enabled(&pack, &json!({})).unwrap()[0].pack.metadata.version.to_string(), "2.1.0");
}

#[test]
fn what_is_needed_and_missing_broken_or_of_another_version_is_an_error() {
    let missing = "{name: kafka, version: '1', repository: x, condition: kafka.on}";
    let error = names(&pack(missing), &json!({"kafka": {"on": true}})).unwrap_err();
    assert_eq!(error.reason(), "DependencyMissing");
    assert!(error.to_string().contains("`kafka`"), "{error}");
    assert!(names(&pack(missing), &json!({})).is_ok());

    let old = "{name: redis, version: ^2, repository: x}";
    let error = names(&pack(old), &json!({})).unwrap_err();
    assert_eq!(error.reason(), "DependencyInvalid");
    assert!(error.to_string().contains("charts/redis is version 1.2.0, ^2 is wanted"), "{error}");
    let odd = "{name: redis, version: new, repository: x}";
    assert!(names(&pack(odd), &json!({})).unwrap_err().to_string().contains("`new` is not a range"));

    for (path, content) in
        [("charts/bad/Pack.yaml", "a: ["), ("charts/bad/x", ""), ("charts/bad-1.0.0.tgz", "garbage")]
    {
        let dependency = "dependencies: [{name: bad, version: '1', repository: x, condition: bad.on}]";
        let declared =
            read(files(&[("Pack.yaml", &definition("web", "1.0.0", dependency)), (path, content)]));
        let error = names(&declared, &json!({"bad": {"on": true}})).unwrap_err();
        assert!(error.reason() == "DependencyInvalid" && error.to_string().contains("charts/bad"), "{error}");
        assert_eq!(names(&declared, &json!({})).unwrap(), [""; 0], "switched off, it may be broken: {path}");
        let undeclared = read(files(&[("Pack.yaml", &definition("web", "1.0.0", "")), (path, content)]));
        assert_eq!(names(&undeclared, &json!({})).unwrap_err().reason(), "DependencyInvalid", "{path}");
    }
}

#[test]
fn a_manifest_inside_is_verified() {
    let inner = "sherpack-manifest-version: 1\n[files]\n[digest]\nsha256:00";
    let all = files(&[
        ("Pack.yaml", &definition("web", "1.0.0", "")),
        ("charts/redis/Pack.yaml", &definition("redis", "1.2.0", "")),
        ("charts/redis/MANIFEST", inner),
    ]);
    assert!(names(&read(all), &json!({})).unwrap_err().to_string().contains("MANIFEST disagrees"));
}

#[test]
fn files_beside_the_packs_are_only_warned_of() {
    let pack = read(files(&[("Pack.yaml", &definition("web", "1.0.0", "")), ("charts/README.md", "x")]));
    assert_eq!(names(&pack, &json!({})).unwrap(), [""; 0]);
    assert!(pack.warnings[0].contains("charts/README.md"));
}

#[test]
fn limits_count_everything_inside_together() {
    let inner =
        write_archive(&files(&[("Pack.yaml", &definition("db", "1.0.0", "")), ("big", &"x".repeat(30_000))]))
            .unwrap();
    let mut all = files(&[("Pack.yaml", &definition("web", "1.0.0", ""))]);
    for name in ["a", "b", "c"] {
        all.insert(format!("charts/{name}.tgz"), inner.clone());
    }
    assert!(from_files(all.clone(), &Limits::default()).is_ok());
    let tight = Limits { unpacked: 70_000, ..Limits::default() };
    let error = from_files(all.clone(), &tight).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 70_000, .. }), "{error}");
    let few = Limits { entries: 8, ..Limits::default() };
    assert_eq!(from_files(all, &few), Err(Error::TooManyEntries { limit: 8 }));
}

#[test]
fn a_bomb_inside_a_bomb_ends_at_the_limit() {
    let zeros = String::from_utf8(vec![b'0'; 20 << 20]).unwrap();
    let bomb =
        write_archive(&files(&[("Pack.yaml", &definition("b", "1.0.0", "")), ("zeros", &zeros)])).unwrap();
    assert!(bomb.len() < 1 << 20);
    let mut all = files(&[("Pack.yaml", &definition("web", "1.0.0", ""))]);
    for index in 0..4 {
        all.insert(format!("charts/b{index}.tgz"), bomb.clone());
    }
    assert_eq!(from_files(all, &Limits::default()).unwrap_err().reason(), "PackTooLarge");
}

#[test]
fn depth_and_number_are_bounded() {
    let deep = |depth: usize| {
        let all = (0..=depth).map(|level| {
            (format!("{}Pack.yaml", "charts/a/".repeat(level)), definition("a", "1.0.0", "").into_bytes())
        });
        from_files(all.collect(), &Limits { path: 1000, ..Limits::default() })
    };
    assert!(deep(10).is_ok());
    assert_eq!(deep(11), Err(Error::TooDeep { limit: 10 }));
    let many: Files = (0..300)
        .map(|index| (format!("charts/a{index}/Pack.yaml"), definition("a", "1.0.0", "").into_bytes()))
        .chain([("Pack.yaml".to_owned(), definition("web", "1.0.0", "").into_bytes())])
        .collect();
    assert_eq!(from_files(many, &Limits::default()), Err(Error::TooManyPacks { limit: 200 }));
    let values = format!("a: [{}]", "1,".repeat(40_000));
    let wide: Files = (0..10)
        .flat_map(|index| {
            [
                (format!("charts/a{index}/Pack.yaml"), definition("a", "1.0.0", "").into_bytes()),
                (format!("charts/a{index}/values.yaml"), values.clone().into_bytes()),
            ]
        })
        .chain([("Pack.yaml".to_owned(), definition("web", "1.0.0", "").into_bytes())])
        .collect();
    assert_eq!(from_files(wide, &Limits::default()), Err(Error::TooManyFields { limit: 300_000 }));
}
