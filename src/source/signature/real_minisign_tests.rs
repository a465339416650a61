//! What minisign 0.11 and the published Sherpack 0.4.0 wrote; `fixtures/README.md` has the commands.

use super::stand::{changed, secret};
use super::{Keys, Refused, check_minisig};
use crate::api::SignatureProvider;
use crate::pack::{Limits, read_archive};

const ARCHIVE: &[u8] = include_bytes!("fixtures/minisign/demo-1.0.0.tar.gz");
/// `minisign -S -s minisign.key -m demo-1.0.0.tar.gz -t 'sherpack:demo v1.0.0'`
const PREHASHED: &[u8] = include_bytes!("fixtures/minisign/prehashed.minisig");
/// The same with `-l`.
const LEGACY: &[u8] = include_bytes!("fixtures/minisign/legacy.minisig");
/// `minisign -G -W`
const KEY: &str = include_str!("fixtures/minisign/minisign.pub");
const OTHER: &str = include_str!("fixtures/minisign/other.pub");
/// `sherpack package demo`, `sherpack keygen --no-password`, `sherpack sign demo-1.0.0.tar.gz`
const SHERPACK: [&[u8]; 2] = [
    include_bytes!("fixtures/sherpack/demo-1.0.0.tar.gz"),
    include_bytes!("fixtures/sherpack/demo-1.0.0.tar.gz.minisig"),
];
const SHERPACK_KEY: &str = include_str!("fixtures/sherpack/sherpack.pub");

fn keys(texts: &[(&str, &str)]) -> Keys {
    Keys::read(SignatureProvider::Minisign, &secret(texts)).unwrap()
}

fn lines(bytes: &[u8]) -> Vec<&str> {
    std::str::from_utf8(bytes).unwrap().lines().collect()
}

#[test]
fn both_forms_of_minisign_are_accepted() {
    for signature in [PREHASHED, LEGACY] {
        assert_eq!(check_minisig(&keys(&[("a.pub", KEY)]), ARCHIVE, signature), Ok(()));
        assert_eq!(check_minisig(&keys(&[("a.pub", OTHER), ("b.pub", KEY)]), ARCHIVE, signature), Ok(()));
        assert_eq!(check_minisig(&keys(&[("a.pub", OTHER)]), ARCHIVE, signature), Err(Refused::OtherKey));
    }
    assert_eq!([&lines(PREHASHED)[1][..3], &lines(LEGACY)[1][..3]], ["RUR", "RWR"], "`ED` and `Ed`");
}

#[test]
fn what_the_published_sherpack_signs_is_accepted() {
    let [archive, signature] = SHERPACK;
    let all = keys(&[("minisign.pub", KEY), ("sherpack.pub", SHERPACK_KEY)]);
    assert_eq!(check_minisig(&all, archive, signature), Ok(()));
    assert_eq!(check_minisig(&all, ARCHIVE, signature), Err(Refused::changed()));
    assert_eq!(check_minisig(&keys(&[("minisign.pub", KEY)]), archive, signature), Err(Refused::OtherKey));
    let lines = lines(signature);
    assert!(
        lines[1].starts_with("RUR") && lines[2].starts_with("trusted comment: sherpack:demo v1.0.0 digest:")
    );
    let pack = read_archive(archive, &Limits::default()).unwrap();
    assert_eq!(pack.metadata.name, "demo");
}

#[test]
fn no_byte_of_a_signature_or_an_archive_can_be_changed() {
    let keys = keys(&[("minisign.pub", KEY), ("sherpack.pub", SHERPACK_KEY)]);
    for [archive, signature] in [[ARCHIVE, PREHASHED], [ARCHIVE, LEGACY], SHERPACK] {
        let untrusted = lines(signature)[0].len();
        for (at, changed) in changed(signature.trim_ascii_end()) {
            let accepted = check_minisig(&keys, archive, &changed).is_ok();
            assert_eq!(accepted, at < untrusted, "byte {at}: {:?}", String::from_utf8_lossy(&changed));
        }
        for (at, changed) in changed(archive) {
            assert_eq!(check_minisig(&keys, &changed, signature), Err(Refused::changed()), "byte {at}");
        }
    }
}

#[test]
fn the_trusted_comment_cannot_be_moved_to_another_signature() {
    let (one, two) = (lines(PREHASHED), lines(LEGACY));
    for mixed in
        [[one[0], one[1], two[2], one[3]], [one[0], one[1], two[2], two[3]], [one[0], two[1], one[2], one[3]]]
    {
        let refused = check_minisig(&keys(&[("a.pub", KEY)]), ARCHIVE, mixed.join("\n").as_bytes());
        assert_eq!(refused, Err(Refused::changed()));
    }
}
