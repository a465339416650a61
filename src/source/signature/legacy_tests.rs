use serde_json::{Value, json};

use super::super::stand::{Pair, secret};
use super::*;
use crate::api::SignatureProvider;

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn payload(digest: &str) -> Value {
    json!({
        "critical": {
            "identity": {"docker-reference": "r/a"},
            "image": {"docker-manifest-digest": digest},
            "type": TYPE,
        },
        "optional": null,
    })
}

fn signed(pair: &Pair, payload: &[u8]) -> SignedPayload {
    SignedPayload {
        digest: digest_of(payload),
        size: 1,
        signature: STANDARD.encode(pair.sign(payload)),
        has_certificate: false,
    }
}

fn layer(media_type: &str, size: u64, annotations: &Value) -> Value {
    json!({"mediaType": media_type, "digest": DIGEST, "size": size, "annotations": annotations})
}

fn manifest(layers: &[Value]) -> Vec<u8> {
    let config = json!({"mediaType": "x/y", "digest": DIGEST, "size": 2});
    json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string().into_bytes()
}

#[test]
fn the_layers_with_a_signature_are_found() {
    let bytes = manifest(&[
        layer(MEDIA_TYPE, 5, &json!({SIGNATURE: "QQ=="})),
        layer("x/y", 5, &json!({SIGNATURE: "QQ=="})),
        layer(MEDIA_TYPE, 5, &json!({})),
        layer(MEDIA_TYPE, 6, &json!({SIGNATURE: "*", CERTIFICATE: "-----"})),
        json!({"mediaType": MEDIA_TYPE, "digest": DIGEST, "size": 1}),
    ]);
    let found = in_legacy_manifest(&bytes).unwrap();
    let of = |signature: &str, size, has_certificate| SignedPayload {
        digest: DIGEST.to_owned(),
        size,
        signature: signature.to_owned(),
        has_certificate,
    };
    assert_eq!(found, [of("*", 6, true), of("QQ==", 5, false)], "the last ones first");
    assert_eq!(in_legacy_manifest(&manifest(&[])), Ok(vec![]));
}

#[test]
fn a_manifest_is_bounded() {
    let one = layer(MEDIA_TYPE, MAX_PAYLOAD_BYTES, &json!({SIGNATURE: "QQ=="}));
    let last = layer(MEDIA_TYPE, 7, &json!({SIGNATURE: "QQ=="}));
    let all = [vec![one.clone(); 16], vec![last]].concat();
    let sizes: Vec<u64> =
        in_legacy_manifest(&manifest(&all)).unwrap().into_iter().map(|one| one.size).collect();
    assert_eq!((sizes.len(), sizes[0]), (16, 7), "the last ones are looked at");
    let larger = layer(MEDIA_TYPE, MAX_PAYLOAD_BYTES + 1, &json!({SIGNATURE: "QQ=="}));
    assert_eq!(in_legacy_manifest(&manifest(&[larger.clone(), one])).unwrap().len(), 1, "it is left out");
    for (bytes, said) in [
        (manifest(&[larger]), "larger than 65536 bytes"),
        (b"{}".to_vec(), "damaged"),
        (vec![b' '; 2 << 20], "larger"),
    ] {
        let why = in_legacy_manifest(&bytes).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn a_payload_counts_if_a_key_has_signed_it_and_it_names_the_digest() {
    for pair in [Pair::p256(), Pair::p384()] {
        let bytes = payload(DIGEST).to_string().into_bytes();
        assert_eq!(check_legacy(&pair.keys(), DIGEST, &bytes, &signed(&pair, &bytes)), Ok(()));
        let stranger = Pair::p256().keys();
        assert_eq!(check_legacy(&stranger, DIGEST, &bytes, &signed(&pair, &bytes)), Err(Refused::OtherKey));
    }
}

#[test]
fn one_of_several_keys_is_enough() {
    let (one, two) = (Pair::p256(), Pair::p384());
    let keys =
        Keys::read(SignatureProvider::Cosign, &secret(&[("a.pub", &one.pem()), ("b.pub", &two.pem())]))
            .unwrap();
    let bytes = payload(DIGEST).to_string().into_bytes();
    for pair in [one, two] {
        assert_eq!(check_legacy(&keys, DIGEST, &bytes, &signed(&pair, &bytes)), Ok(()));
    }
}

#[test]
fn what_is_signed_has_to_be_about_this_manifest() {
    let pair = Pair::p256();
    let other = DIGEST.replace('1', "2");
    let mut typed = payload(DIGEST);
    typed["critical"]["type"] = json!("atomic container signature");
    let twice = format!(
        "{{\"critical\": {}, \"critical\": {}}}",
        payload(&other)["critical"],
        payload(DIGEST)["critical"]
    );
    for (bytes, said) in [
        (payload(&other).to_string(), &*format!("names {other}, and the digest is {DIGEST}")),
        (payload("evil\ntext").to_string(), "names no SHA-256 digest, and"),
        (payload("").to_string(), "names no SHA-256 digest, and"),
        (payload(&DIGEST["sha256:".len()..]).to_string(), "names no SHA-256 digest, and"),
        (typed.to_string(), "of another type"),
        (twice, "duplicate field"),
        ("{}".to_owned(), "not cosign's"),
        (String::new(), "not cosign's"),
        ("[".repeat(10_000), "not cosign's"),
    ] {
        let bytes = bytes.into_bytes();
        let why = check_legacy(&pair.keys(), DIGEST, &bytes, &signed(&pair, &bytes)).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn what_cannot_be_checked_is_told_apart() {
    let (pair, bytes) = (Pair::p256(), payload(DIGEST).to_string().into_bytes());
    let good = signed(&pair, &bytes);
    let keyless = SignedPayload { has_certificate: true, ..good.clone() };
    assert_eq!(check_legacy(&Pair::p256().keys(), DIGEST, &bytes, &keyless), Err(Refused::keyless()));
    assert_eq!(
        check_legacy(&pair.keys(), DIGEST, &bytes, &keyless),
        Ok(()),
        "the key counts, not the certificate"
    );
    for (one, said) in [
        (SignedPayload { signature: "*".to_owned(), ..good.clone() }, "no base64"),
        (
            SignedPayload { digest: DIGEST.to_owned(), ..good.clone() },
            "another digest than its manifest says",
        ),
    ] {
        let why = check_legacy(&pair.keys(), DIGEST, &bytes, &one).unwrap_err().to_string();
        assert!(why.contains("damaged") && why.contains(said), "{why}");
    }
    let large = vec![b' '; usize::try_from(MAX_PAYLOAD_BYTES).unwrap() + 1];
    let why = check_legacy(&pair.keys(), DIGEST, &large, &signed(&pair, &large)).unwrap_err().to_string();
    assert!(why.contains("larger"), "{why}");
    let minisign = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    let minisign = Keys::read(SignatureProvider::Minisign, &secret(&[("a.pub", minisign)])).unwrap();
    assert_eq!(check_legacy(&minisign, DIGEST, &bytes, &good), Err(Refused::OtherKey));
}
