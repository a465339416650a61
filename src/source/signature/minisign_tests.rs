use super::super::stand::{Pair, secret};
use super::*;
use crate::api::SignatureProvider;

/// From the tests of minisign-verify.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\nRUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\ntrusted comment: timestamp:1556193335\tfile:test\ny/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==";

fn keys() -> Keys {
    Keys::read(SignatureProvider::Minisign, &secret(&[("minisign.pub", KEY)])).unwrap()
}

#[test]
fn a_signature_counts_with_any_ends_of_lines() {
    for text in [SIGNATURE.to_owned(), format!("{SIGNATURE}\n"), SIGNATURE.replace('\n', "\r\n") + "\r\n"] {
        assert_eq!(check_minisig(&keys(), b"test", text.as_bytes()), Ok(()));
        assert_eq!(check_minisig(&keys(), b"Test", text.as_bytes()), Err(Refused::changed()));
        assert_eq!(check_minisig(&Pair::p256().keys(), b"test", text.as_bytes()), Err(Refused::OtherKey));
    }
}

#[test]
fn what_is_no_signature_is_damaged() {
    let lines: Vec<&str> = SIGNATURE.lines().collect();
    let without = |gone: usize| {
        let rest = lines.iter().enumerate().filter(|&(number, _)| number != gone).map(|(_, line)| *line);
        rest.collect::<Vec<_>>().join("\n")
    };
    let mut all: Vec<String> = (0..4).map(without).collect();
    all.extend([
        String::new(),
        "\n\n\n\n".to_owned(),
        SIGNATURE.replace("RUQf", "XXQf"),
        SIGNATURE.replace("RUQf", "RUQ"),
        SIGNATURE.replace("trusted comment: timestamp", "timestamp"),
        SIGNATURE.replace("y/rUw2y8", "y/rU"),
    ]);
    for text in all {
        let why = check_minisig(&keys(), b"test", text.as_bytes()).unwrap_err().to_string();
        assert!(why.contains("is not what minisign writes"), "{text}: {why}");
    }
    let why = check_minisig(&keys(), b"test", &[0xff]).unwrap_err().to_string();
    assert!(why.contains("is no text"), "{why}");
    let large = [SIGNATURE.as_bytes(), &vec![b'\n'; MAX_MINISIG_BYTES]].concat();
    let why = check_minisig(&keys(), b"test", &large).unwrap_err().to_string();
    assert!(why.contains("larger than 16384"), "{why}");
}
