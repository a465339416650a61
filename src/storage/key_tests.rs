use super::*;

fn key(byte: u8) -> MacKey {
    MacKey::new([byte; KEY_BYTES])
}

fn found(first: Option<Secret>, all: Option<Secret>) -> Found {
    Found { first, all }
}

#[test]
fn a_key_of_another_length_is_refused_without_showing_it() {
    let mut secret = first_secret("op", &KeyRing::of(key(b'k')));
    assert!(parse_first(&secret, "op").is_ok());
    secret.data = Some(BTreeMap::from([("key".to_owned(), ByteString(b"kkkk".to_vec()))]));
    let error = parse_first(&secret, "op").unwrap_err();
    assert_eq!(error.reason(), "RecordKeyInvalid");
    assert!(
        error.to_string().contains("op/sherpack-operator-record-key") && !error.to_string().contains("kkkk")
    );
    secret.data = None;
    assert_eq!(parse_first(&secret, "op").unwrap_err().reason(), "RecordKeyInvalid");
}

#[test]
fn the_key_secrets_are_not_taken_for_records() {
    let ring = KeyRing::of(key(1)).and(key(2));
    for secret in [first_secret("op", &ring), all_secret("op", &ring, None)] {
        assert!(!secret.metadata.labels.unwrap().contains_key(names::MANAGED_BY));
    }
    assert_eq!(first_secret("op", &KeyRing::of(key(1))).immutable, Some(true));
}

#[test]
fn both_secrets_together_are_the_ring() {
    let (one, two) = (KeyRing::of(key(1)), KeyRing::of(key(1)).and(key(2)));
    let first = || Some(first_secret("op", &KeyRing::of(key(1))));
    let moved = || Some(first_secret("op", &KeyRing::of(key(1)).and(key(2))));
    let all = || Some(all_secret("op", &KeyRing::of(key(1)).and(key(2)), None));
    assert!(found(None, None).ring("op").unwrap().is_none());
    assert!(found(first(), None).ring("op").unwrap().unwrap().is(&one));
    for first in [None, first(), moved()] {
        assert!(found(first, all()).ring("op").unwrap().unwrap().is(&two));
    }
    let lost = found(moved(), None);
    assert!(lost.lacks_all() && lost.ring("op").unwrap_err().to_string().contains(RECORD_KEYS_SECRET));
}

#[test]
fn the_first_secret_holds_no_key_once_there_are_several() {
    let moved = first_secret("op", &KeyRing::of(key(1)).and(key(2)));
    assert!(!moved.data.unwrap().contains_key(RECORD_KEY_DATA), "an older version would read it and go on");
}

#[test]
fn a_ring_that_lies_about_its_keys_is_refused() {
    let mut secret = all_secret("op", &KeyRing::of(key(1)).and(key(2)), None);
    let data = secret.data.as_mut().unwrap();
    data.insert(key(2).id(), ByteString(vec![3; KEY_BYTES]));
    assert!(parse_all(&secret, "op").unwrap_err().to_string().contains("another key"));
    secret.data.as_mut().unwrap().remove(CURRENT_DATA);
    assert!(parse_all(&secret, "op").is_err());
}
