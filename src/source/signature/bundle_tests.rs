use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::stand::Pair;
use super::*;

const MANIFEST: &[u8] = b"{\"schemaVersion\": 2}";

fn statement(digest: &str) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": digest.strip_prefix("sha256:").unwrap_or(digest)}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {},
    })
}

fn bundle(pair: &Pair, content: &Value) -> Value {
    let hint = STANDARD.encode(Sha256::digest(pair.der()));
    let mut bundle = json!({
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
    });
    for (key, value) in content.as_object().unwrap() {
        bundle[key] = value.clone();
    }
    bundle
}

fn enveloped(pair: &Pair, statement: &[u8]) -> Value {
    let sig = STANDARD.encode(pair.sign(&pre_authentication(STATEMENT, statement)));
    let payload = STANDARD.encode(statement);
    let envelope =
        json!({"payload": payload, "payloadType": STATEMENT, "signatures": [{"sig": sig, "keyid": ""}]});
    bundle(pair, &json!({"dsseEnvelope": envelope}))
}

fn message(pair: &Pair, message: &[u8]) -> Value {
    let digest = json!({"algorithm": SHA256, "digest": STANDARD.encode(Sha256::digest(message))});
    let signature = STANDARD.encode(pair.sign(message));
    bundle(pair, &json!({"messageSignature": {"messageDigest": digest, "signature": signature}}))
}

fn check(pair: &Pair, bundle: &Value) -> Result<(), Refused> {
    check_bundle(&pair.keys(), MANIFEST, bundle.to_string().as_bytes())
}

#[test]
fn both_forms_count_with_each_kind_of_key() {
    for pair in [Pair::p256(), Pair::p384()] {
        let stated = enveloped(&pair, statement(&digest_of(MANIFEST)).to_string().as_bytes());
        for good in [stated, message(&pair, MANIFEST)] {
            assert_eq!(check(&pair, &good), Ok(()));
            assert_eq!(check(&Pair::p256(), &good), Err(Refused::OtherKey));
            let other = check_bundle(&pair.keys(), b"{}", good.to_string().as_bytes());
            assert_eq!(other, Err(Refused::other_digest(&digest_of(MANIFEST), &digest_of(b"{}"))));
        }
    }
}

#[test]
fn what_is_stated_has_to_be_a_signature_of_this_manifest() {
    let (pair, digest) = (Pair::p256(), digest_of(MANIFEST));
    let with = |path: &str, value: Value| {
        let mut statement = statement(&digest);
        *statement.pointer_mut(path).unwrap() = value;
        statement.to_string()
    };
    let other = "2".repeat(64);
    for (statement, said) in [
        (
            with("/predicateType", json!("https://cosign.sigstore.dev/attestation/vuln/v1")),
            "it is an attestation",
        ),
        (with("/_type", json!("x")), "it is an attestation"),
        (with("/subject", json!([])), "no SHA-256 digest"),
        (with("/subject/0/digest", json!({"sha512": other})), "no SHA-256 digest"),
        (with("/subject/0/digest/sha256", json!(other)), &*format!("names sha256:{other}")),
        (with("/subject/0/digest/sha256", json!(digest)), "no SHA-256 digest"),
        (with("/subject", json!(1)), "cannot be read"),
        (format!("{{\"_type\": \"x\", {}", &statement(&digest).to_string()[1..]), "duplicate field"),
        (String::new(), "cannot be read"),
        (format!("\"{}\"", "a".repeat(MAX_STATEMENT_BYTES)), "larger than 65536"),
    ] {
        let why = check(&pair, &enveloped(&pair, statement.as_bytes())).unwrap_err().to_string();
        assert!(why.contains(said), "{said}: {why}");
    }
    let several =
        with("/subject", json!([{"digest": {"sha256": other}}, {"digest": {"sha256": &digest[7..]}}, {}]));
    assert_eq!(check(&pair, &enveloped(&pair, several.as_bytes())), Ok(()), "one of several subjects");
}

#[test]
fn a_bundle_that_is_no_signature_by_a_key_is_refused() {
    let pair = Pair::p256();
    let good = enveloped(&pair, statement(&digest_of(MANIFEST)).to_string().as_bytes());
    let with = |path: &str, key: &str, value: Value| {
        let mut bundle = good.clone();
        bundle.pointer_mut(path).unwrap()[key] = value;
        bundle
    };
    let certificate = json!({"rawBytes": "QQ=="});
    let chain = json!({"certificates": [certificate]});
    let (sig, text) =
        (good["dsseEnvelope"]["signatures"][0].clone(), message(&pair, MANIFEST)["messageSignature"].clone());
    for (bundle, said) in [
        (
            with("", "mediaType", json!("application/vnd.dev.sigstore.bundle+json;version=0.1")),
            "another media type",
        ),
        (with("/verificationMaterial", "certificate", certificate), "keyless"),
        (with("/verificationMaterial", "x509CertificateChain", chain), "keyless"),
        (with("", "messageSignature", text), "signatures of two kinds"),
        (with("", "dsseEnvelope", Value::Null), "has no signature"),
        (with("", "verificationMaterial", Value::Null), "cannot be read"),
        (with("/dsseEnvelope", "payloadType", json!("text/plain")), "has another type"),
        (with("/dsseEnvelope", "payload", json!("*")), "what is signed is no base64"),
        (with("/dsseEnvelope", "signatures", json!([])), "not just one signature"),
        (with("/dsseEnvelope", "signatures", json!([sig, sig])), "not just one signature"),
        (with("/dsseEnvelope/signatures/0", "sig", json!("*")), "its signature is no base64"),
        (with("/dsseEnvelope/signatures/0", "sig", json!("QQ==")), "was changed"),
        (with("/verificationMaterial/publicKey", "hint", json!(1)), "cannot be read"),
        (json!([]), "cannot be read"),
    ] {
        let why = check(&pair, &bundle).unwrap_err().to_string();
        assert!(why.contains(said), "{said}: {why}");
    }
    let large = vec![b' '; usize::try_from(MAX_BUNDLE_BYTES).unwrap() + 1];
    let why = check_bundle(&pair.keys(), MANIFEST, &large).unwrap_err().to_string();
    assert!(why.contains("larger than 262144"), "{why}");
    let unhinted = with("/verificationMaterial", "publicKey", Value::Null);
    assert_eq!(check(&pair, &unhinted), Ok(()), "the hint proves nothing");
}

#[test]
fn a_message_that_was_changed_is_told_from_one_by_a_stranger() {
    let pair = Pair::p256();
    let mut changed = message(&pair, MANIFEST);
    changed["messageSignature"]["signature"] = json!("QQ==");
    assert_eq!(check(&pair, &changed), Err(Refused::changed()));
    changed["messageSignature"]["messageDigest"]["digest"] = json!("*");
    assert_eq!(check(&pair, &changed), Err(Refused::changed()));
    changed["verificationMaterial"]["publicKey"]["hint"] = json!("");
    assert_eq!(check(&pair, &changed), Err(Refused::OtherKey));
    let mut lies = message(&pair, MANIFEST);
    lies["messageSignature"]["messageDigest"]["digest"] = json!("QQ==");
    assert_eq!(check(&pair, &lies), Ok(()), "only the signature proves anything");
}

/// DSSE signs the lengths: two texts cannot be cut elsewhere and mean the same.
#[test]
fn what_is_signed_has_its_lengths() {
    assert_eq!(
        pre_authentication("http://example.com/HelloWorld", b"hello world"),
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
    let pair = Pair::p256();
    let text = statement(&digest_of(MANIFEST)).to_string();
    let mut bare = enveloped(&pair, text.as_bytes());
    bare["dsseEnvelope"]["signatures"][0]["sig"] = json!(STANDARD.encode(pair.sign(text.as_bytes())));
    assert_eq!(check(&pair, &bare), Err(Refused::changed()));
}

proptest! {
    #[test]
    fn whatever_the_bytes_are_there_is_a_verdict(bytes: Vec<u8>) {
        let keys = Pair::p256().keys();
        prop_assert!(check_bundle(&keys, MANIFEST, &bytes).is_err());
        prop_assert!(super::super::check_minisig(&keys, MANIFEST, &bytes).is_err());
        let _ = super::super::in_legacy_manifest(&bytes);
        let _ = super::super::in_referrers(&bytes);
    }
}
