//! What cosign 3.1.3 wrote; `fixtures/README.md` has the commands.

use super::stand::{changed, secret};
use super::{
    Keys, Refused, SignedPayload, check_bundle, check_legacy, in_bundle_manifest, in_legacy_manifest,
    in_referrers, verdict,
};
use crate::api::SignatureProvider;
use crate::manifest::digest_of;

macro_rules! fixture {
    ($($part:literal),+) => {
        include_bytes!(concat!("fixtures/cosign/", $($part),+)).as_slice()
    };
}

/// What was signed.
const MANIFEST: &[u8] = fixture!("manifest.json");

/// A key and what it made: a bundle; a manifest before version 3, and its payload.
struct Signer {
    key: &'static [u8],
    bundle: &'static [u8],
    manifest: &'static [u8],
    payload: &'static [u8],
}

macro_rules! signer {
    ($name:literal) => {
        Signer {
            key: fixture!($name, ".pub"),
            bundle: fixture!($name, "-bundle.json"),
            manifest: fixture!($name, "-legacy-manifest.json"),
            payload: fixture!($name, "-legacy-payload.json"),
        }
    };
}

const P256: Signer = signer!("p256");
const P384: Signer = signer!("p384");
const SIGNERS: [Signer; 2] = [P256, P384];
/// cosign signs with Ed25519ph, and `cosign verify` does not accept it.
const ED25519: &[u8] = fixture!("ed25519.pub");

impl Signer {
    fn keys(&self) -> Keys {
        keys(&[self.key])
    }

    fn signed(&self) -> SignedPayload {
        let mut found = in_legacy_manifest(self.manifest).unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }
}

fn keys(texts: &[&[u8]]) -> Keys {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    let named: Vec<_> =
        texts.iter().enumerate().map(|(at, bytes)| (format!("{at}.pub"), text(bytes))).collect();
    let data: Vec<_> = named.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    Keys::read(SignatureProvider::Cosign, &secret(&data)).unwrap()
}

#[test]
fn both_forms_are_accepted_with_each_kind_of_key() {
    let digest = digest_of(MANIFEST);
    let all = keys(&[P384.key, P256.key]);
    for signer in SIGNERS {
        for keys in [&signer.keys(), &all] {
            assert_eq!(check_bundle(keys, MANIFEST, signer.bundle), Ok(()));
            assert_eq!(check_legacy(keys, &digest, signer.payload, &signer.signed()), Ok(()));
        }
        let signed = signer.signed();
        assert_eq!((signed.digest, signed.size), (digest_of(signer.payload), signer.payload.len() as u64));
    }
}

#[test]
fn a_key_whose_signatures_cosign_itself_refuses_is_refused() {
    let data = secret(&[("ed25519.pub", std::str::from_utf8(ED25519).unwrap())]);
    let why = Keys::read(SignatureProvider::Cosign, &data).unwrap_err();
    assert!(why.contains("`ed25519.pub` is no key of a kind that is supported"), "{why}");
}

#[test]
fn bundles_made_in_other_ways_are_accepted() {
    for bundle in [fixture!("signing-config-bundle.json"), fixture!("message-bundle.json")] {
        assert_eq!(check_bundle(&P256.keys(), MANIFEST, bundle), Ok(()));
    }
}

#[test]
fn a_bundle_is_found_by_the_index_of_referrers() {
    let found = in_referrers(fixture!("referrers.json")).unwrap();
    let manifest = fixture!("p256-bundle-manifest.json");
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].blob.digest, found[0].blob.size), (&digest_of(manifest), manifest.len() as u64));
    let bundle = in_bundle_manifest(manifest).unwrap();
    assert_eq!((&bundle.digest, bundle.size), (&digest_of(P256.bundle), P256.bundle.len() as u64));
}

#[test]
fn keys_of_others_and_other_manifests_are_refused() {
    let (other, digest) = (b"{}".as_slice(), digest_of(MANIFEST));
    let elsewhere = Err(Refused::other_digest(&digest, &digest_of(other)));
    for (signer, stranger) in [(P256, P384), (P384, P256)] {
        assert_eq!(check_bundle(&stranger.keys(), MANIFEST, signer.bundle), Err(Refused::OtherKey));
        assert_eq!(check_bundle(&signer.keys(), other, signer.bundle), elsewhere);
        let legacy =
            |of: &Signer, digest: &str| check_legacy(&of.keys(), digest, signer.payload, &signer.signed());
        assert_eq!(legacy(&stranger, &digest), Err(Refused::OtherKey));
        assert_eq!(legacy(&signer, &digest_of(other)), elsewhere);
    }
    assert_eq!(check_bundle(&P256.keys(), other, fixture!("message-bundle.json")), elsewhere);
}

#[test]
fn an_attestation_by_the_same_key_is_no_signature() {
    let why =
        check_bundle(&P256.keys(), MANIFEST, fixture!("attestation-bundle.json")).unwrap_err().to_string();
    assert!(why.contains("it is an attestation"), "{why}");
}

#[test]
fn certificates_count_for_nothing() {
    let bundle = fixture!("certificate-bundle.json");
    let payload = fixture!("certificate-legacy-payload.json");
    let signed = in_legacy_manifest(fixture!("certificate-legacy-manifest.json")).unwrap();
    let [signed] = signed.as_slice() else { panic!("one signature") };
    let legacy = |key: &Signer| check_legacy(&key.keys(), &digest_of(MANIFEST), payload, signed);
    assert_eq!(
        check_bundle(&P384.keys(), MANIFEST, bundle),
        Err(Refused::keyless()),
        "the certificate is of this key"
    );
    assert_eq!(legacy(&P256), Err(Refused::keyless()));
    assert_eq!(legacy(&P384), Ok(()), "the key signs, whatever certificate is beside it");
}

#[test]
fn no_byte_of_a_payload_can_be_changed() {
    for signer in SIGNERS {
        let (keys, digest, signed) = (signer.keys(), digest_of(MANIFEST), signer.signed());
        for (at, changed) in changed(signer.payload) {
            // An attacker who changes the payload changes the manifest that names it, too.
            let named = signed.with_digest(&digest_of(&changed));
            assert_eq!(check_legacy(&keys, &digest, &changed, &named), Err(Refused::OtherKey), "byte {at}");
            assert!(check_legacy(&keys, &digest, &changed, &signed).is_err(), "byte {at}");
        }
    }
}

/// No key signs the manifest. What counts in it is the signature and the digest of the payload.
#[test]
fn no_byte_of_a_signature_in_a_manifest_can_be_changed() {
    for signer in SIGNERS {
        let (keys, digest, signed) = (signer.keys(), digest_of(MANIFEST), signer.signed());
        for (at, changed) in changed(signer.manifest) {
            let found = in_legacy_manifest(&changed).unwrap_or_default();
            let each = found.iter().map(|one| check_legacy(&keys, &digest, signer.payload, one));
            let same = found.iter().any(|one| one.with_size(0) == signed.with_size(0));
            assert_eq!(verdict(each).is_ok(), same, "byte {at}: {}", String::from_utf8_lossy(&changed));
        }
    }
}

/// What may be changed in a bundle is nothing that counts: the hint, and blanks and names of fields that are not read.
#[test]
fn no_byte_of_what_is_signed_in_a_bundle_can_be_changed() {
    let content = |bytes: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        let envelope = &value["dsseEnvelope"];
        let message = &value["messageSignature"]["signature"];
        Some(
            [&envelope["payload"], &envelope["payloadType"], &envelope["signatures"][0]["sig"], message]
                .map(Clone::clone),
        )
    };
    let of_others = (P256, fixture!("message-bundle.json"));
    let own = SIGNERS.map(|signer| {
        let bundle = signer.bundle;
        (signer, bundle)
    });
    for (signer, bundle) in own.into_iter().chain([of_others]) {
        let keys = signer.keys();
        let mut refused = 0;
        for (at, changed) in changed(bundle) {
            match check_bundle(&keys, MANIFEST, &changed) {
                Ok(()) => assert_eq!(
                    content(&changed),
                    content(bundle),
                    "byte {at}: {}",
                    String::from_utf8_lossy(&changed)
                ),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 2 * 100, "{refused}");
    }
}

#[test]
fn no_byte_of_a_key_can_be_changed() {
    for signer in SIGNERS {
        let read = |text: &[u8]| {
            Keys::read(SignatureProvider::Cosign, &secret(&[("a.pub", std::str::from_utf8(text).unwrap())]))
                .ok()
        };
        for (at, changed) in changed(signer.key) {
            let Some(keys) = read(&changed) else { continue };
            let same = keys.cosign()[0].hint() == signer.keys().cosign()[0].hint();
            let signed = check_legacy(&keys, &digest_of(MANIFEST), signer.payload, &signer.signed());
            assert_eq!(check_bundle(&keys, MANIFEST, signer.bundle).is_ok(), same, "byte {at}");
            assert_eq!(signed.is_ok(), same, "byte {at}");
        }
    }
}
