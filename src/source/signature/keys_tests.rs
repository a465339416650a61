use super::super::stand::{Pair, pem, secret};
use super::*;

/// As `minisign -G` writes it.
const MINISIGN: &str = "untrusted comment: minisign public key 67E7B8CD3DC1B1E0\nRWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
/// RSA with 1024 bits, from `openssl rsa -pubout`.
const RSA: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDmMRU3e7uuUFLxby048eUUmkpo
+PULVum2lHg2jbgYY5ZOsyUfdYNDP5hEEtYQHoW6p+bwNfYME+FmKRGtSDOET+7K
MugRDMAgLeECoRtmPOQN8WCwtZoBYqiOzS53t1hWMQ+7OrSaf57b7PvYrvQ4sagZ
qfMYPpF1ToqE1hk9iwIDAQAB
-----END PUBLIC KEY-----
";

fn read(provider: SignatureProvider, data: &[(&str, &str)]) -> Result<Keys, String> {
    Keys::read(provider, &secret(data))
}

#[test]
fn every_key_of_a_secret_that_ends_in_pub_is_read() {
    let (one, two) = (Pair::p256().pem(), Pair::p384().pem());
    let data =
        [("cosign.pub", &*one), ("old.pub", &*two), ("cosign.key", "-----BEGIN"), ("cosign.password", "x")];
    let keys = read(SignatureProvider::Cosign, &data).unwrap();
    assert_eq!((keys.cosign().len(), keys.minisign().len()), (2, 0));

    let bare = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    let data = [
        ("a.pub", MINISIGN),
        ("b.pub", bare),
        ("c.pub", &format!("\r\n {bare} \r\n")),
        ("minisign.key", "x"),
    ];
    let keys = read(SignatureProvider::Minisign, &data).unwrap();
    assert_eq!((keys.cosign().len(), keys.minisign().len()), (0, 3));
}

#[test]
fn each_kind_of_key_knows_its_own_signatures() {
    for pair in [Pair::p256(), Pair::p384()] {
        let signature = pair.sign(b"content");
        for (key, by, message) in [
            (pair.keys(), true, b"content"),
            (pair.keys(), false, b"Content"),
            (Pair::p256().keys(), false, b"content"),
            (Pair::p384().keys(), false, b"content"),
        ] {
            assert_eq!(key.cosign()[0].has_signed(message, &signature), by);
        }
        for damaged in
            [&signature[1..], &signature[..signature.len() - 1], &[], &[signature.clone(), vec![0]].concat()]
        {
            assert!(!pair.keys().cosign()[0].has_signed(b"content", damaged));
        }
    }
}

/// `openssl dgst -sha256 -sign p384.pem`, as older versions of cosign sign with such a key.
#[test]
fn a_key_with_p384_may_have_signed_with_sha_256() {
    let key = include_str!("fixtures/cosign/p384.pub");
    let signature = "MGUCMQDYEGyVmtk2+/wH6EpadJ76YlYTBdVXAT76uITR75OAMyjAXRarWSOXj3ZUCkA5FHwCMEzrBapjbwOJRzsGHIh8+6SvIR8a2eeuv4iAMY0RO6K5izA98MDkJ3fMoTHvZOWCLA==";
    let keys = read(SignatureProvider::Cosign, &[("p384.pub", key)]).unwrap();
    assert!(keys.cosign()[0].has_signed(b"content", &STANDARD.decode(signature).unwrap()));
}

#[test]
fn what_is_no_public_key_is_refused_by_its_name() {
    let good = Pair::p256();
    let compressed = [&good.der()[..26], &[2], &good.der()[27..]].concat();
    let longer = pem(&[good.der(), vec![0]].concat());
    let shorter = pem(&good.der()[..90]);
    let (compressed, twice) = (pem(&compressed), good.pem() + &good.pem());
    let private = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nSECRET\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----";
    let both = format!("{private}\n{}", good.pem());
    let huge = format!("{}{}", "#\n".repeat(MAX_KEY_BYTES / 2), good.pem());
    for (provider, text, said) in [
        (SignatureProvider::Cosign, "", "no public key in PEM"),
        (SignatureProvider::Cosign, MINISIGN, "no public key in PEM"),
        (
            SignatureProvider::Cosign,
            "-----BEGIN PUBLIC KEY-----\n*\n-----END PUBLIC KEY-----\n",
            "damaged PEM",
        ),
        (SignatureProvider::Cosign, "-----BEGIN PUBLIC KEY-----\nMFkw", "damaged PEM"),
        (SignatureProvider::Cosign, RSA, "no key of a kind"),
        (SignatureProvider::Cosign, &longer, "no key of a kind"),
        (SignatureProvider::Cosign, &shorter, "no key of a kind"),
        (SignatureProvider::Cosign, &compressed, "no key of a kind"),
        (SignatureProvider::Cosign, &twice, "more than one"),
        (SignatureProvider::Cosign, private, "private key"),
        (SignatureProvider::Cosign, &both, "private key"),
        (SignatureProvider::Cosign, &huge, "longer than"),
        (SignatureProvider::Minisign, "", "no public key of minisign"),
        (SignatureProvider::Minisign, "untrusted comment: x", "no public key of minisign"),
        (SignatureProvider::Minisign, &good.pem(), "lines after"),
        (SignatureProvider::Minisign, "RWQf6LRCGA9i", "no public key of minisign"),
        (SignatureProvider::Minisign, &MINISIGN.repeat(2), "lines after"),
    ] {
        let why = read(provider, &[("my.pub", text), ("z.pub", "SECRET")]).unwrap_err();
        assert!(
            why.starts_with("`my.pub` ") && why.contains(said) && !why.contains("SECRET"),
            "{text}: {why}"
        );
    }
    let bytes = BTreeMap::from([("b.pub".to_owned(), ByteString(vec![0xff, 0xfe]))]);
    assert_eq!(Keys::read(SignatureProvider::Cosign, &bytes).unwrap_err(), "`b.pub` is no text");
}

#[test]
fn a_secret_has_at_least_one_key_and_not_too_many() {
    for provider in [SignatureProvider::Cosign, SignatureProvider::Minisign] {
        let why = read(provider, &[("cosign.key", "SECRET")]).unwrap_err();
        assert!(why.contains("no key that ends in `.pub`"), "{why}");
        let pem = Pair::p256().pem();
        let text = if provider == SignatureProvider::Cosign { &*pem } else { MINISIGN };
        let some = |count: usize| {
            (0..count).map(|i| (format!("{i}.pub"), ByteString(text.as_bytes().to_vec()))).collect()
        };
        assert!(Keys::read(provider, &some(MAX_SIGNATURES)).is_ok());
        assert!(Keys::read(provider, &some(MAX_SIGNATURES + 1)).unwrap_err().contains("more than"));
    }
}

#[test]
fn one_text_stands_for_the_keys_whatever_else_a_secret_holds() {
    let (one, two) = (Pair::p256().pem(), Pair::p384().pem());
    let digest = |data: &[(&str, &str)]| Keys::digest(SignatureProvider::Cosign, &secret(data));
    let alone = digest(&[("a.pub", &one)]);
    assert_eq!(digest(&[("a.pub", &one), ("password", "x")]), alone);
    assert_eq!(digest(&[("renamed.pub", &one)]), alone);
    let others = [
        digest(&[("a.pub", &two)]),
        digest(&[("a.pub", &one), ("b.pub", &two)]),
        digest(&[("a.pub", &(one.clone() + &two))]),
        Keys::digest(SignatureProvider::Minisign, &secret(&[("a.pub", &one)])),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(*other, alone);
        assert!(!others[..at].contains(other));
    }
}
