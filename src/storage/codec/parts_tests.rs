use super::*;

#[test]
fn the_parent_label_is_the_published_key_or_a_hash_when_that_is_no_label() {
    let short = "sh.sherpack.release.v1.web.v7";
    assert_eq!(Stream::Release.parent(short), short);
    assert_eq!(Stream::Private.parent(short), "sh.sherpack.release.v1.web.v7.private");
    let long = format!("sh.sherpack.release.v1.{}.v7", "x".repeat(53));
    let labels: Vec<String> = Stream::ALL.into_iter().map(|stream| stream.parent(&long)).collect();
    for (at, label) in labels.iter().enumerate() {
        assert!(label.len() <= 63 && label.starts_with("sha256-"), "{label}");
        assert!(!labels[..at].contains(label));
    }
}

#[test]
fn a_part_is_known_by_its_name() {
    for (name, expected) in [
        ("sh.sherpack.release.v1.web.v7.chunk.0123456789abcdef.0", Some(("web", 7))),
        ("sh.sherpack.release.v1.web.v7.manifest.0123456789abcdef.12", Some(("web", 7))),
        ("sh.sherpack.release.v1.apps.web.v7.private.0123456789abcdef.0", Some(("apps.web", 7))),
        // As another tool names them, and a release of a confusing name.
        ("sh.sherpack.release.v1.web.v7.chunk.3", Some(("web", 7))),
        ("sh.sherpack.release.v1.chunk.v1.chunk.3", Some(("chunk", 1))),
        ("sh.sherpack.release.v1.web.v7", None),
        ("sh.sherpack.release.v1.chunk.v7", None),
        ("anything.chunk.0", None),
    ] {
        assert_eq!(part_of(name), expected, "{name}");
    }
}
