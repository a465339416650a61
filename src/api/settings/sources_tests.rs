use serde_json::{Value, json};

use super::super::unsupported::asked_for;
use super::super::validate::tests::{DIR, NO_DIR, in_object, refusal, release, settings, spec};
use super::super::validate::validate;
use super::*;
use crate::api::Class;
use crate::api::reasons::{INVALID_SPEC, NOT_SUPPORTED};

#[test]
fn what_is_not_built_yet_is_refused_by_its_path() {
    let source = |source: Value| {
        let mut pack = json!({"configMap": null});
        json_patch::merge(&mut pack, &source);
        json!({ "pack": pack })
    };
    let cases = [
        ("spec.pack.repository", source(json!({"repository": {"url": "https://x", "name": "p"}}))),
        ("spec.pack.oci", source(json!({"oci": {"repository": "oci://x"}}))),
        ("spec.pack.artifact", source(json!({"artifact": {"kind": "Bucket", "name": "p"}}))),
    ];
    for (field, patch) in cases {
        let invalid = refusal(&spec(patch.clone()), &NO_DIR);
        assert_eq!((invalid.reason, invalid.field.as_str()), (NOT_SUPPORTED, field), "{patch}");
    }
}

#[test]
fn all_that_is_not_built_yet_is_named_at_once() {
    let mut release = release(json!({}));
    let (oci, repository) = (json!({"repository": "oci://x"}), json!({"url": "https://x", "name": "p"}));
    let asks = json!({"oci": oci, "repository": repository});
    release.spec.pack = serde_json::from_value(asks).expect("a pack");
    let asked = asked_for(&release, &NO_DIR);
    assert_eq!(asked, ["spec.pack.repository", "spec.pack.oci"]);
    release.spec.pack = serde_json::from_value(json!({"oci": oci})).expect("a pack");
    let invalid = validate(&release, &NO_DIR).expect_err("it is refused");
    assert_eq!((invalid.class(), invalid.reason()), (Class::FixSpec, NOT_SUPPORTED));
}

#[test]
fn a_pack_may_be_in_a_secret() {
    let settings = settings(json!({"pack": {"configMap": null, "secret": {"name": "web", "key": "k"}}}));
    assert_eq!(settings.pack, in_object(ReferenceKind::Secret, "web", Some("k")));
}

#[test]
fn a_pack_path_needs_the_flag_and_stays_below_the_directory() {
    let at = |path: &str| spec(json!({"pack": {"configMap": null, "path": path}}));
    let refused = refusal(&at("podinfo"), &NO_DIR);
    assert_eq!((refused.reason, refused.field.as_str()), (INVALID_SPEC, "spec.pack.path"));
    assert!(refused.message.contains("--pack-dir"), "{refused}");
    for path in ["podinfo", "a/b/podinfo-1.0.0.tgz", "..a", "a..b"] {
        assert_eq!(validate(&at(path), &DIR).map(|s| s.pack), Ok(PackFrom::Path(FromPath(path.into()))));
    }
    for path in ["", "/etc", "..", "../x", "a/../../x", "a//b", "a/", "./a", "a\\b", "a\0b"] {
        assert_eq!(refusal(&at(path), &DIR).field, "spec.pack.path", "{path:?}");
    }
}

#[test]
fn a_url_is_taken_over_with_its_digest_and_the_name_of_its_secret() {
    let http = |http: Value| spec(json!({"pack": {"configMap": null, "http": http}}));
    let digest = format!("sha256:{}", "0a".repeat(32));
    let whole =
        json!({"url": "https://example.com/web.tgz", "digest": digest, "secretRef": {"name": "login"}});
    let expected = PackFrom::Http(FromHttp {
        url: "https://example.com/web.tgz".into(),
        digest: Some(digest),
        secret: Some("login".into()),
    });
    assert_eq!(validate(&http(whole), &NO_DIR).map(|settings| settings.pack), Ok(expected));
    for (wrong, field) in [
        (json!({"url": "ftp://example.com/a"}), "spec.pack.http.url"),
        (json!({"url": "https:///a"}), "spec.pack.http.url"),
        (json!({"url": "https://user:s3cret@example.com/a"}), "spec.pack.http.url"),
        (json!({"url": "https://x", "digest": "sha256:abc"}), "spec.pack.http.digest"),
        (
            json!({"url": "https://x", "digest": format!("sha512:{}", "0".repeat(64))}),
            "spec.pack.http.digest",
        ),
        (json!({"url": "https://x", "secretRef": {"name": ""}}), "spec.pack.http.secretRef.name"),
    ] {
        let invalid = refusal(&http(wrong), &NO_DIR);
        assert_eq!((invalid.reason, invalid.field.as_str()), (INVALID_SPEC, field));
        assert!(!invalid.message.contains("s3cret"), "{invalid}");
    }
}
