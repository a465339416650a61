use super::*;
use crate::source::repository::parse;

fn index(packs: &[(&str, &[&str])]) -> Index {
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for (name, versions) in packs {
        text.push_str(&format!("  {name}:\n"));
        for version in *versions {
            let url = format!("charts/{name}-{version}.tgz");
            text.push_str(&format!("  - {{name: {name}, version: {version}, urls: ['{url}']}}\n"));
        }
    }
    parse(text.as_bytes()).unwrap()
}

#[test]
fn a_pack_is_found_by_name_and_range() {
    let index = index(&[("web", &["1.0.0", "1.10.0", "2.0.0-rc.1", "v1.9.0"]), ("db", &["0.1.0"])]);
    for (name, range, url) in [
        ("web", None, "charts/web-1.10.0.tgz"),
        ("web", Some("1.9"), "charts/web-v1.9.0.tgz"),
        ("web", Some("1.0.0"), "charts/web-1.0.0.tgz"),
        ("web", Some(">=2.0.0-0"), "charts/web-2.0.0-rc.1.tgz"),
        ("db", Some("*"), "charts/db-0.1.0.tgz"),
    ] {
        assert_eq!(&*index.find(name, range).unwrap().url, url, "{name} {range:?}");
    }
    assert_eq!(index.names().collect::<Vec<_>>(), ["db", "web"]);
    assert_eq!((index.versions(), index.skipped()), (5, 0));
    assert!((200..2000).contains(&index.weight()), "{}", index.weight());
}

#[test]
fn of_two_entries_with_one_version_the_first_counts() {
    let text = "apiVersion: v1\nentries:\n  a:\n  - {name: a, version: 1.0.0, urls: [first]}\n  - {name: a, version: 1.0.0, urls: [second]}\n";
    assert_eq!(&*parse(text.as_bytes()).unwrap().find("a", None).unwrap().url, "first");
}

#[test]
fn what_is_not_found_says_what_there_is() {
    let few = index(&[("web", &["1.0.0"]), ("db", &["1.0.0"])]);
    let many = index(&[
        ("a", &["1.0.0"]),
        ("b", &["1.0.0"]),
        ("c", &["1.0.0"]),
        ("my-nginx", &["1.0.0"]),
        ("nginx-ingress", &["1.0.0"]),
        ("Nginy", &["1.0.0"]),
        ("ngrok", &["1.0.0"]),
    ]);
    let broken = parse(b"apiVersion: v1\nentries: {web: [{name: web}]}\n").unwrap();
    for (index, name, range, expected) in [
        (&few, "webb", None, "the index has no pack `webb`: it has web, db"),
        (
            &many,
            "nginx",
            None,
            "the index has no pack `nginx`: of its 7 packs these are most like it: nginx-ingress, my-nginx, Nginy, ngrok, a",
        ),
        (
            &broken,
            "web",
            None,
            "the index has no pack `web`: it has no packs at all; 1 of its entries cannot be used, for want of a name, a version or a URL",
        ),
        (
            &few,
            "web",
            Some("2.x"),
            "pack `web` of the index: no version matches `2.x`: the only one is 1.0.0",
        ),
        (&few, "a\u{1b}[2J", None, "the index has no pack `a\\u{1b}[2J`: it has db, web"),
    ] {
        assert_eq!(index.find(name, range).unwrap_err().to_string(), expected);
    }
    let error = few.find("web", Some("new")).unwrap_err().to_string();
    assert!(error.starts_with("pack `web` of the index: `new` is not a range of versions"), "{error}");
}

#[test]
fn a_digest_is_sha256_or_nothing_that_is_trusted() {
    let lower = "0123456789abcdef".repeat(4);
    let normal = format!("sha256:{lower}");
    let upper = lower.to_uppercase();
    for (text, expected) in [
        ("", Ok(None)),
        (lower.as_str(), Ok(Some(normal.as_str()))),
        (normal.as_str(), Ok(Some(normal.as_str()))),
        (upper.as_str(), Ok(Some(normal.as_str()))),
        (&lower[1..], Err(())),
        (format!("sha512:{lower}{lower}").as_str(), Err(())),
        (format!("sha256:{normal}").as_str(), Err(())),
        (format!("{lower} ").as_str(), Err(())),
        (format!("g{}", &lower[1..]).as_str(), Err(())),
        ("é".repeat(32).as_str(), Err(())),
        ("sha256:", Err(())),
        ("md5", Err(())),
    ] {
        let found = Digest::parse(text).text();
        assert_eq!(found.as_ref().map(Option::as_deref).map_err(|_| ()), expected, "{text}");
    }
    assert!(Digest::Invalid.text().unwrap_err().contains("names a digest that is no SHA-256"));
}

#[test]
fn the_url_of_an_entry_is_relative_to_the_repository() {
    for (base, entry, expected) in [
        ("https://h/charts", "web-1.tgz", "https://h/charts/web-1.tgz"),
        ("https://h/charts/", "web-1.tgz", "https://h/charts/web-1.tgz"),
        ("https://h", "web-1.tgz", "https://h/web-1.tgz"),
        ("https://h:8443/a/b", "./c/web-1.0.0+b.tgz", "https://h:8443/a/b/c/web-1.0.0+b.tgz"),
        ("https://h/a/b", "../web.tgz", "https://h/a/web.tgz"),
        ("https://h/a/b", "/web.tgz", "https://h/web.tgz"),
        ("https://h/a/b", "https://cdn/web.tgz?sig=1", "https://cdn/web.tgz?sig=1"),
        ("https://h/a/b", " http://cdn/web.tgz ", "http://cdn/web.tgz"),
        ("https://h/a/b", "//cdn/web.tgz", "https://cdn/web.tgz"),
        ("https://h/a/b", "index.yaml", "https://h/a/b/index.yaml"),
        // The query may hold the credentials.
        ("https://h/a?token=s", "web.tgz", "https://h/a/web.tgz?token=s"),
        ("https://h/a/?token=s", "/web.tgz?x=1", "https://h/web.tgz?token=s"),
        ("https://h/a", "web.tgz?x=1", "https://h/a/web.tgz?x=1"),
        ("https://h/a?token=s", "//cdn/web.tgz", "https://cdn/web.tgz"),
        ("https://h/a?token=s", "https://h/web.tgz", "https://h/web.tgz"),
    ] {
        let found = resolve(&Url::parse(base).unwrap(), entry);
        assert_eq!(found, Ok(Url::parse(expected).unwrap()), "{base} {entry}");
    }
}

#[test]
fn a_url_that_cannot_be_fetched_is_refused_and_not_shown() {
    let base = Url::parse("https://h/charts?token=s3cret").unwrap();
    for (entry, why) in [
        ("oci://registry/packs/web:1.0.0", "name that in spec.pack.oci"),
        ("OCI://registry/packs/web", "name that in spec.pack.oci"),
        ("ftp://h/web.tgz", "its scheme is `ftp`"),
        ("file:///etc/s3cret", "cannot be fetched"),
        ("https://user:s3cret@h/web.tgz", "it holds credentials"),
        ("//user:s3cret@h/web.tgz", "it holds credentials"),
        ("a b.tgz", "it is no URL"),
    ] {
        let error = resolve(&base, entry).unwrap_err();
        assert!(error.contains(why) && !error.contains("s3cret"), "{entry}: {error}");
    }
}
