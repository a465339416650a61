use serde_json::{Value, json};

use super::*;

fn blob(media_type: &str, digit: char, size: u64) -> Value {
    json!({"mediaType": media_type, "digest": digest(digit), "size": size})
}

fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn referrer(artifact_type: &str, digit: char, predicate: Option<&str>) -> Value {
    let mut of = blob("application/vnd.oci.image.manifest.v1+json", digit, 7);
    of["artifactType"] = json!(artifact_type);
    if let Some(predicate) = predicate {
        of["annotations"] = json!({"dev.sigstore.bundle.predicateType": predicate});
    }
    of
}

fn index(manifests: &[Value]) -> Vec<u8> {
    json!({"schemaVersion": 2, "manifests": manifests}).to_string().into_bytes()
}

fn manifest(layers: &[Value]) -> Vec<u8> {
    let config = blob("application/vnd.oci.empty.v1+json", '0', 2);
    json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string().into_bytes()
}

#[test]
fn tags_are_made_of_the_digest() {
    assert_eq!(legacy_tag("sha256:00ff"), "sha256-00ff.sig");
    assert_eq!(referrers_tag("sha256:00ff"), "sha256-00ff");
}

#[test]
fn only_what_may_be_a_signature_is_taken_of_the_referrers() {
    let bytes = index(&[
        referrer("application/vnd.cncf.notary.signature", '1', None),
        referrer(MEDIA_TYPE, '2', Some("https://sigstore.dev/cosign/sign/v1")),
        referrer(MEDIA_TYPE, '3', Some("https://spdx.dev/Document")),
        referrer(MEDIA_TYPE, '4', None),
        blob("application/vnd.oci.image.manifest.v1+json", '5', 7),
    ]);
    let found: Vec<String> =
        in_referrers(&bytes).unwrap().into_iter().map(|referrer| referrer.blob.digest).collect();
    assert_eq!(found, [digest('2'), digest('4')]);
    assert_eq!(in_referrers(&index(&[])), Ok(vec![]));
}

#[test]
fn the_newest_signatures_are_looked_at_and_the_bytes_are_bounded() {
    let made = |digit, made: &str| {
        let mut of = referrer(MEDIA_TYPE, digit, None);
        of["annotations"] = json!({"org.opencontainers.image.created": made});
        of
    };
    let mut all = vec![referrer(MEDIA_TYPE, '1', None); MAX_SIGNATURES];
    all.push(made('2', "2026-01-02T00:00:00Z"));
    all.push(made('3', "2026-03-04T00:00:00Z"));
    let found = newest(in_referrers(&index(&all)).unwrap());
    assert_eq!(found.len(), MAX_SIGNATURES);
    let digests: Vec<&str> = found.iter().take(3).map(|blob| blob.digest.as_str()).collect();
    assert_eq!(digests, [&*digest('3'), &*digest('2'), &*digest('1')]);
    let large = vec![b' '; usize::try_from(MAX_MANIFEST_BYTES).unwrap() + 1];
    assert!(in_referrers(&large).unwrap_err().contains("larger"));
    assert!(in_bundle_manifest(&large).unwrap_err().contains("larger"));
    for damaged in [&b""[..], b"[]", b"{}", b"{\"manifests\": 1}"] {
        assert!(in_referrers(damaged).unwrap_err().contains("damaged"));
        assert!(in_bundle_manifest(damaged).unwrap_err().contains("damaged"));
    }
}

#[test]
fn a_manifest_has_one_bundle() {
    let (one, other) = (blob(MEDIA_TYPE, '1', 9), blob("x/y", '2', 9));
    assert_eq!(
        in_bundle_manifest(&manifest(&[other.clone(), one.clone()])),
        Ok(Blob { digest: digest('1'), size: 9 })
    );
    for (layers, said) in [
        (vec![other], "no layer of the media type"),
        (vec![one.clone(), one], "several"),
        (vec![blob(MEDIA_TYPE, '1', MAX_BUNDLE_BYTES + 1)], "larger"),
    ] {
        let why = in_bundle_manifest(&manifest(&layers)).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn bundles_are_asked_for_as_a_url_has_their_media_type() {
    assert_eq!(of_bundles(), "artifactType=application%2Fvnd.dev.sigstore.bundle.v0.3%2Bjson");
}
