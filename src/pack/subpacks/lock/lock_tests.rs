use serde_json::json;

use super::*;
use crate::pack::tests::files;
use crate::pack::{Limits, Pack, from_files};

const URL: &str = "https://charts.example.com";

fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn locked(name: &str, version: &str, constraint: &str) -> Locked {
    Locked {
        name: name.to_owned(),
        alias: None,
        version: version.to_owned(),
        repository: URL.to_owned(),
        constraint: constraint.to_owned(),
        digest: digest('1'),
    }
}

fn definition(name: &str, version: &str, dependencies: &str) -> String {
    format!(
        "apiVersion: sherpack/v1\nmetadata: {{name: {name}, version: {version}}}\ndependencies: [{dependencies}]\n"
    )
}

fn pack(name: &str, version: &str, dependencies: &str, more: &[(&str, &str)]) -> Pack {
    let definition = definition(name, version, dependencies);
    let all = [&[("Pack.yaml", definition.as_str())], more].concat();
    from_files(files(&all), &Limits::default()).unwrap()
}

fn needs(name: &str, range: &str, more: &str) -> String {
    format!("{{name: {name}, version: '{range}', repository: '{URL}'{more}}}")
}

fn names(pack: &Pack, user: &serde_json::Value) -> Vec<String> {
    let found = missing(pack, user).unwrap();
    found.into_iter().map(|one| [one.within, vec![one.locked.name]].concat().join(" ")).collect()
}

#[test]
fn a_lock_is_read_as_it_was_written() {
    let mut other = locked("db", "2.0.0+a", "2.x");
    other.alias = Some("store".to_owned());
    let lock = Lock::of(vec![locked("redis", "7.2.1", "^7"), other]).unwrap();
    let text = lock.text();
    assert!(text.starts_with("# Written by"), "{text}");
    assert_eq!(Lock::read(&files(&[(FILE, &text)])), Ok(Some(lock.clone())));
    assert_eq!(lock.text(), text, "the same gives the same bytes");
    assert_eq!(Lock::read(&files(&[])), Ok(None));
}

#[test]
fn what_is_no_lock_is_refused() {
    let of = |dependencies: &str| format!("apiVersion: sherpack/v1\ndependencies: {dependencies}");
    let entry = |more: &str| {
        format!(
            "{{name: a, version: 1.0.0, repository: x, constraint: '1', digest: '{}'{more}}}",
            digest('1')
        )
    };
    let twice = format!("[{}, {}]", entry(""), entry(""));
    let many =
        format!("[{}]", (0..201).map(|n| entry(&format!(", alias: a{n}"))).collect::<Vec<_>>().join(","));
    let cut = entry("").replace(&digest('1'), "sha256:11");
    for (text, said) in [
        ("a: [", "Pack.lock:1"),
        ("[]", "not an object"),
        ("apiVersion: v2\ndependencies: []", "not `sherpack/v1`"),
        ("apiVersion: sherpack/v1", "dependencies"),
        (&of(&format!("[{}]", entry(", more: 1"))), "more"),
        (&of(&twice), "both called `a`"),
        (&of(&many), "more than 200"),
        (&of(&format!("[{cut}]")), "dependencies[0].digest"),
        (&" ".repeat(MAX_BYTES + 1), "larger"),
    ] {
        let error = Lock::read(&files(&[(FILE, text)])).unwrap_err();
        assert_eq!(error.reason(), "DependencyLockInvalid", "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

#[test]
fn a_lock_of_another_pack_yaml_is_stale() {
    let entry = |yaml: &str, locked: Locked| {
        let pack = pack("web", "1.0.0", yaml, &[]);
        Lock::of(vec![locked]).unwrap().entry(&pack.dependencies[0]).map(|found| found.version.clone())
    };
    let good = || locked("redis", "7.2.1", "^7");
    assert_eq!(entry(&needs("redis", "^7", ""), good()), Ok("7.2.1".to_owned()));
    let aliased = Locked { alias: Some("cache".to_owned()), ..good() };
    assert!(entry(&needs("redis", "^7", ", alias: cache"), aliased.clone()).is_ok());
    for (yaml, locked, said) in [
        (needs("redis", "^8", ""), good(), "version `^8`"),
        (needs("redis", "^7", ""), Locked { repository: "https://other".to_owned(), ..good() }, "repository"),
        (needs("redis", "^7", ""), Locked { version: "8.0.0".to_owned(), ..good() }, "not in `^7`"),
        (needs("redis", "^7", ""), Locked { version: "new".to_owned(), ..good() }, "not a version"),
        (needs("redis", "^7", ", alias: cache"), good(), "does not have it"),
        (needs("valkey", "^7", ", alias: cache"), aliased, "name `valkey`"),
        (needs("db", "^7", ""), good(), "does not have it"),
    ] {
        let error = entry(&yaml, locked).unwrap_err();
        assert_eq!(error.reason(), "DependencyLockStale", "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

#[test]
fn a_repository_is_a_url_or_a_registry_or_not_there() {
    let of = |repository| Origin::of("redis", repository);
    assert_eq!(of(None), Ok(Origin::Local));
    assert_eq!(of(Some("https://a/b/")), Ok(Origin::Repository("https://a/b".to_owned())));
    assert_eq!(of(Some("oci://r/team")), Ok(Origin::Oci("oci://r/team/redis".to_owned())));
    for other in ["file://../redis", "../redis", "@stable"] {
        assert!(of(Some(other)).unwrap_err().to_string().contains("charts/"), "{other}");
    }
}

#[test]
fn only_what_is_switched_on_and_not_vendored_is_missing() {
    let lock = Lock::of(vec![locked("redis", "7.2.1", "^7"), locked("db", "2.0.0", "2.x")]).unwrap().text();
    let both = format!(
        "{}, {}",
        needs("redis", "^7", ", condition: redis.on"),
        needs("db", "2.x", ", tags: [data]")
    );
    let web = pack("web", "1.0.0", &both, &[(FILE, &lock), ("values.yaml", "redis: {on: true}\n")]);
    assert_eq!(names(&web, &json!({})), ["redis", "db"]);
    assert_eq!(names(&web, &json!({"redis": {"on": false}})), ["db"]);
    assert_eq!(names(&web, &json!({"tags": {"data": false}})), ["redis"]);

    // Even if it is of another version: a render says so.
    let redis = definition("redis", "6.0.0", "");
    let vendored =
        [("charts/redis/Pack.yaml", redis.as_str()), (FILE, &lock), ("values.yaml", "redis: {on: true}\n")];
    assert_eq!(names(&pack("web", "1.0.0", &both, &vendored), &json!({})), ["db"]);

    // Without a lock, and where it shall never be fetched, a render says what is missing.
    assert_eq!(names(&pack("web", "1.0.0", &both, &[]), &json!({})), [""; 0]);
    let never = needs("redis", "^7", ", resolve: never");
    assert_eq!(names(&pack("web", "1.0.0", &never, &[(FILE, &lock)]), &json!({})), [""; 0]);
    let local = "{name: redis, version: ^7}";
    assert_eq!(names(&pack("web", "1.0.0", local, &[(FILE, &lock)]), &json!({})), [""; 0]);
    // And what is switched off may be stale, or the whole lock broken.
    let off = needs("redis", "^9", ", enabled: false");
    for lock in [&lock, "a: ["] {
        assert_eq!(names(&pack("web", "1.0.0", &off, &[(FILE, lock)]), &json!({})), [""; 0]);
    }
}

#[test]
fn what_was_fetched_may_need_more_by_a_lock_of_its_own() {
    let lock = |of: Locked| Lock::of(vec![of]).unwrap().text();
    let outer = lock(Locked { alias: Some("backend".to_owned()), ..locked("api", "1.0.0", "1.x") });
    let mut web = pack("web", "1.0.0", &needs("api", "1.x", ", alias: backend"), &[(FILE, &outer)]);
    let inner = lock(locked("redis", "7.2.1", "^7"));
    let api = pack("api", "1.0.0", &needs("redis", "^7", ", condition: redis.on"), &[(FILE, &inner)]);
    let on = json!({"backend": {"redis": {"on": true}}});
    let first = missing(&web, &on).unwrap();
    assert_eq!(first.len(), 1);
    vendor(&mut web, &first[0], &api, &Limits::default()).unwrap();
    assert_eq!(names(&web, &json!({})), [""; 0], "its condition is not met");
    assert_eq!(names(&web, &on), ["charts/api-1.0.0.tgz redis"]);
    let second = missing(&web, &on).unwrap();
    let redis = pack("redis", "7.2.1", "", &[]);
    vendor(&mut web, &second[0], &redis, &Limits::default()).unwrap();
    assert_eq!(names(&web, &on), [""; 0]);
    let found = subpacks_of(&web);
    assert_eq!(found, ["charts/api-1.0.0.tgz", "charts/redis-7.2.1.tgz"]);
}

fn subpacks_of(pack: &Pack) -> Vec<String> {
    let inside = |subpack: &crate::pack::Subpack| {
        let more = subpack.content.as_ref().map(subpacks_of).unwrap_or_default();
        [vec![subpack.path.clone()], more].concat()
    };
    pack.subpacks.iter().flat_map(inside).collect()
}

#[test]
fn an_archive_with_another_pack_and_one_that_needs_itself_are_refused() {
    let lock = Lock::of(vec![locked("api", "1.0.0", "1.x")]).unwrap().text();
    let mut web = pack("web", "1.0.0", &needs("api", "1.x", ""), &[(FILE, &lock)]);
    let wanted = missing(&web, &json!({})).unwrap().remove(0);
    for other in [pack("api", "1.0.1", "", &[]), pack("apis", "1.0.0", "", &[])] {
        let error = vendor(&mut web, &wanted, &other, &Limits::default()).unwrap_err();
        assert_eq!(error.reason(), "DependencyInvalid");
    }
    let itself = pack("api", "1.0.0", &needs("api", "1.x", ""), &[(FILE, &lock)]);
    vendor(&mut web, &wanted, &itself, &Limits::default()).unwrap();
    let error = missing(&web, &json!({})).unwrap_err();
    assert!(error.to_string().contains("api > api"), "{error}");

    // What each of many packs names together is bounded before anything is fetched.
    let each = |outer: usize| {
        let names: Vec<String> = (0..150).map(|inner| format!("d{outer}-{inner}")).collect();
        let needed: Vec<String> = names.iter().map(|name| needs(name, "1.x", "")).collect();
        let lock = Lock::of(names.iter().map(|name| locked(name, "1.0.0", "1.x")).collect()).unwrap().text();
        (definition(&format!("p{outer}"), "1.0.0", &needed.join(", ")), lock)
    };
    let (first, second) = (each(1), each(2));
    let many = [
        ("charts/p1/Pack.yaml", &*first.0),
        ("charts/p1/Pack.lock", &*first.1),
        ("charts/p2/Pack.yaml", &*second.0),
        ("charts/p2/Pack.lock", &*second.1),
    ];
    let error = missing(&pack("web", "1.0.0", "", &many), &json!({})).unwrap_err();
    assert_eq!(error.reason(), "PackTooLarge");

    // The limits are those of the whole.
    let mut web = pack("web", "1.0.0", &needs("api", "1.x", ""), &[(FILE, &lock)]);
    let large = pack("api", "1.0.0", "", &[("big", &"x".repeat(2000))]);
    let small = Limits { unpacked: 2000, ..Limits::default() };
    assert_eq!(vendor(&mut web, &wanted, &large, &small).unwrap_err().reason(), "PackTooLarge");
}
