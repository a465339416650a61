use serde_json::{Value, json};

use super::super::validate::tests::{DIR, NO_DIR, in_object, refusal, settings, spec};
use super::super::validate::validate;
use super::*;
use crate::api::reasons::INVALID_SPEC;

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

#[test]
fn an_artifact_is_named_by_digest_range_or_tag() {
    let hex = format!("sha256:{}", "0a".repeat(32));
    let of = |more: Value| {
        let mut oci = json!({"repository": "oci://r/a"});
        json_patch::merge(&mut oci, &more);
        json!({"pack": {"configMap": null, "oci": oci}})
    };
    for (more, which) in [
        (json!({}), WhichTag::Tag("latest".to_owned())),
        (json!({"tag": "1.0.0"}), WhichTag::Tag("1.0.0".to_owned())),
        (json!({"tag": "1.0.0", "semver": "1.x"}), WhichTag::Range("1.x".to_owned())),
        (json!({"semver": "1.x", "digest": hex}), WhichTag::Digest(hex)),
    ] {
        let PackFrom::Oci(from) = settings(of(more.clone())).pack else { panic!("no artifact: {more}") };
        assert_eq!((from.which, from.secret, from.insecure), (which, None, false), "{more}");
    }
    let all = of(json!({"secretRef": {"name": "login"}, "insecure": true}));
    let PackFrom::Oci(from) = settings(all).pack else { panic!("no artifact") };
    assert_eq!(
        (from.repository, from.secret, from.insecure),
        ("oci://r/a".to_owned(), Some("login".to_owned()), true)
    );
}

#[test]
fn an_artifact_that_cannot_be_is_refused_by_its_field() {
    let at = |repository: &str| json!({"repository": repository});
    for (oci, field) in [
        (at("https://r/a"), "repository"),
        (at("oci://r"), "repository"),
        (at("oci:///a"), "repository"),
        (at("oci://u:p@r/a"), "repository"),
        (at("oci://r/a:1.0"), "repository"),
        (at("oci://r:5000/a@sha256:00"), "repository"),
        (json!({"repository": "oci://r/a", "tag": "a b"}), "tag"),
        (json!({"repository": "oci://r/a", "tag": ""}), "tag"),
        (json!({"repository": "oci://r/a", "tag": ".a"}), "tag"),
        (json!({"repository": "oci://r/a", "digest": "sha256:00"}), "digest"),
        (json!({"repository": "oci://r/a", "secretRef": {"name": ""}}), "secretRef.name"),
    ] {
        let invalid = refusal(&spec(json!({"pack": {"configMap": null, "oci": oci}})), &NO_DIR);
        assert_eq!(invalid.field, format!("spec.pack.oci.{field}"), "{oci}");
        assert!(!invalid.to_string().contains("u:p"), "{invalid}");
    }
}

#[test]
fn a_flux_source_is_named_with_a_plain_path() {
    let of = |more: Value| {
        let mut artifact = json!({"kind": "GitRepository", "name": "app"});
        json_patch::merge(&mut artifact, &more);
        json!({"pack": {"configMap": null, "artifact": artifact}})
    };
    let (kind, name) = (ArtifactKind::GitRepository, "app".to_owned());
    let plain = FromArtifact { kind, name, namespace: None, path: None };
    assert_eq!(settings(of(json!({}))).pack, PackFrom::Artifact(plain.clone()));
    let (namespace, path) = (Some("flux-system".to_owned()), Some("packs/web".to_owned()));
    let all = settings(of(json!({"namespace": "flux-system", "path": "packs/web"})));
    assert_eq!(all.pack, PackFrom::Artifact(FromArtifact { namespace, path, ..plain }));
    for path in ["", "/a", "a/", "a/../b", "./a", "a\\b"] {
        assert_eq!(
            refusal(&spec(of(json!({"path": path}))), &NO_DIR).field,
            "spec.pack.artifact.path",
            "{path}"
        );
    }
    assert_eq!(refusal(&spec(of(json!({"name": ""}))), &NO_DIR).field, "spec.pack.artifact.name");
}

#[test]
fn a_signature_is_asked_of_a_source_whose_tool_makes_it() {
    let required = Policy { require_signatures: true, ..DIR };
    let by = |provider| Signatures::By { provider, secret: "signers".into() };
    let http = json!({"http": {"url": "https://example.com/web.tgz"}});
    let oci = json!({"oci": {"repository": "oci://r/web"}});
    let artifact = json!({"artifact": {"kind": "Bucket", "name": "b"}});
    let pack = |source: &Value, provider: Option<&str>| {
        let mut pack = source.clone();
        pack["configMap"] = json!(null);
        if let Some(provider) = provider {
            pack["verify"] = json!({"provider": provider, "secretRef": {"name": "signers"}});
        }
        spec(json!({"pack": pack}))
    };
    for (source, provider, policy, expected) in [
        (&http, None, &DIR, Ok(Signatures::Unasked)),
        (&http, None, &required, Ok(Signatures::Missing)),
        (&http, Some("minisign"), &DIR, Ok(by(SignatureProvider::Minisign))),
        (&http, Some("minisign"), &required, Ok(by(SignatureProvider::Minisign))),
        (&http, Some("cosign"), &DIR, Err("only packs of spec.pack.oci")),
        (&json!({"path": "web"}), Some("minisign"), &DIR, Ok(by(SignatureProvider::Minisign))),
        (&oci, Some("cosign"), &DIR, Ok(by(SignatureProvider::Cosign))),
        (&oci, Some("minisign"), &DIR, Err("signed by cosign")),
        (&artifact, None, &required, Ok(Signatures::Missing)),
        (&artifact, Some("cosign"), &DIR, Err("Flux verifies")),
        (&artifact, Some("minisign"), &DIR, Err("Flux verifies")),
    ] {
        match (validate(&pack(source, provider), policy), expected) {
            (Ok(settings), Ok(expected)) => {
                assert_eq!(settings.signatures, expected, "{source} {provider:?}");
            }
            (Err(invalid), Err(said)) => {
                assert_eq!(invalid.field, "spec.pack.verify.provider");
                assert!(invalid.message.contains(said), "{invalid}");
            }
            (found, expected) => panic!("{source} {provider:?}: {found:?}, not {expected:?}"),
        }
    }
    let mut unnamed = pack(&http, Some("minisign"));
    unnamed.spec.pack.as_mut().unwrap().verify.as_mut().unwrap().secret_ref.name.clear();
    assert_eq!(refusal(&unnamed, &DIR).field, "spec.pack.verify.secretRef.name");
}
