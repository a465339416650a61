//! The bytes under the data key `private`: `{"mac","private","version"}` as canonical JSON.
//!
//! Owns the MAC. Invariant: [`open`] gives a private part as ours only if a holder of a key sealed exactly these bytes
//! for exactly this Secret and this record. An older state of the same record is sealed as well: the number of writes in
//! it tells them apart.
//!
//! Format 2 names the key in the private part, and counts its writes. Format 1 did neither; it is read and not written.

use hmac::{Hmac, Mac};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use sha2::Sha256;

use super::mac_key::{MacKey, lowercase_hex};
use super::ring::KeyRing;
use super::{Because, Unproved};
use crate::manifest::{digest_of, hex};
use crate::release::{Owner, PRIVATE_VERSION, Private};

/// Says what the MAC is about, so that no other use of the key can ever be mistaken for it.
const DOMAIN: &[u8] = b"sherpack-operator/record/v1";
/// Where a private part names its key.
const KEY_FIELD: &str = "key";
/// The oldest format that is read.
const OLDEST_VERSION: u32 = 1;

#[derive(Serialize)]
struct Envelope<'a> {
    mac: &'a str,
    private: &'a Value,
    version: u32,
}

pub(super) fn seal(
    namespace: &str,
    name: &str,
    release: &[u8],
    manifest: Option<&[u8]>,
    private: &Private,
    key: &MacKey,
) -> Result<Vec<u8>, serde_json::Error> {
    // Through a Value: its maps are sorted, so the text is the same whichever program serialises it.
    let mut private = serde_json::to_value(private)?;
    private["version"] = PRIVATE_VERSION.into();
    private[KEY_FIELD] = key.id().into();
    let text = serde_json::to_vec(&private)?;
    let tag = mac(namespace, name, release, manifest, &text, key).finalize().into_bytes();
    serde_json::to_vec(&Envelope { mac: &hex(&tag), private: &private, version: PRIVATE_VERSION })
}

/// What a private part turned out to be.
#[derive(Debug, PartialEq)]
pub(super) enum Opened {
    /// Sealed by us. With the digest by which people speak of exactly this state of the record.
    Ours(Box<Private>, String),
    Unproved(Because, Box<Unproved>),
}

/// Opens a private part with the keys that there are.
///
/// # Errors
/// The seal is right and the content is of a newer operator: to take such a record for another tool's would let it
/// be superseded.
pub(super) fn open(
    namespace: &str,
    name: &str,
    release: &[u8],
    manifest: Option<&[u8]>,
    sealed: &[u8],
    ring: &KeyRing,
) -> Result<Opened, String> {
    let Verified { private, text, tag } = match verified(namespace, name, release, manifest, sealed, ring) {
        Ok(verified) => verified,
        Err((because, private)) => {
            let digest = digest_of(&framed(&[release, sealed, manifest.unwrap_or_default()]));
            return Ok(Opened::Unproved(because, Box::new(unproved(private.as_ref(), digest))));
        }
    };
    let version = private.get("version").and_then(Value::as_u64);
    let known = |version: u64| (u64::from(OLDEST_VERSION)..=u64::from(PRIVATE_VERSION)).contains(&version);
    if !version.is_some_and(known) {
        let found = version.map_or_else(|| "unknown".to_owned(), |v| v.to_string());
        return Err(format!(
            "its private part has format {found}, this operator knows {PRIVATE_VERSION}: run the newer version"
        ));
    }
    drop(private);
    let private = serde_json::from_slice::<Private>(&text).map_err(|e| {
        format!(
            "its private part is sealed with our key but not understood ({e}): run the version that wrote it"
        )
    })?;
    Ok(Opened::Ours(Box::new(Private { version: PRIVATE_VERSION, ..private }), format!("hmac:{}", hex(&tag))))
}

/// What a private part says that no seal proves.
fn unproved(private: Option<&Value>, digest: String) -> Unproved {
    let owner = private.and_then(|private| Owner::deserialize(private.get("owner")?).ok());
    let private = private.and_then(|private| Private::deserialize(private).ok());
    let private = private.map(|private| Private { version: PRIVATE_VERSION, ..private });
    Unproved { owner, digest, understood: private.is_some(), private }
}

struct Verified {
    private: Value,
    text: Vec<u8>,
    tag: [u8; 32],
}

fn verified(
    namespace: &str,
    name: &str,
    release: &[u8],
    manifest: Option<&[u8]>,
    sealed: &[u8],
    ring: &KeyRing,
) -> Result<Verified, (Because, Option<Value>)> {
    let broken = |private: Option<Value>| (Because::BrokenSeal, private);
    let mut envelope: Value = serde_json::from_slice(sealed).map_err(|_| broken(None))?;
    // Exactly the bytes that were written: two spellings of one content would be one too many.
    let exact = serde_json::to_vec(&envelope).is_ok_and(|text| text == sealed);
    let Some(fields) = envelope.as_object_mut() else { return Err(broken(None)) };
    let private = fields.remove("private");
    let tag = fields.remove("mac").as_ref().and_then(Value::as_str).and_then(lowercase_hex);
    let version = fields.remove("version");
    // The outer version repeats the one under the seal, for readers without the key.
    let whole = exact && fields.is_empty() && version.is_some();
    let (Some(private), Some(tag), true) = (&private, tag, whole) else { return Err(broken(private)) };
    let text = serde_json::to_vec(private).ok().filter(|_| private.get("version") == version.as_ref());
    let Some(text) = text else { return Err(broken(Some(private.clone()))) };
    let named = private.get(KEY_FIELD).and_then(Value::as_str);
    let mut known = false;
    for key in ring.keys().filter(|key| named.is_none_or(|id| id == key.id())) {
        known = true;
        // `verify_slice` compares in constant time.
        if mac(namespace, name, release, manifest, &text, key).verify_slice(&tag).is_ok() {
            return Ok(Verified { private: private.clone(), text, tag });
        }
    }
    let because = if known { Because::BrokenSeal } else { Because::UnknownKey };
    Err((because, Some(private.clone())))
}

fn mac(
    namespace: &str,
    name: &str,
    release: &[u8],
    manifest: Option<&[u8]>,
    private: &[u8],
    key: &MacKey,
) -> Hmac<Sha256> {
    let mut mac = key.hmac();
    // A manifest that stands apart comes last: what is sealed without one is sealed as ever.
    let parts = [DOMAIN, namespace.as_bytes(), name.as_bytes(), release, private];
    for part in parts.into_iter().chain(manifest) {
        // Lengths first: no byte can move from one part to the next unnoticed.
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

/// Parts with their lengths before them.
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let frame = |part: &&[u8]| [&(part.len() as u64).to_be_bytes()[..], part].concat();
    parts.iter().flat_map(frame).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::{codec::tests::KEY, samples::private};

    /// Seals any JSON, as an operator of another version would.
    fn sealed(private: &Value, key: &MacKey) -> Vec<u8> {
        let text = serde_json::to_vec(private).unwrap();
        let tag = mac("apps", "name", b"blob", None, &text, key).finalize().into_bytes();
        let mac: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        serde_json::to_vec(&json!({"mac": mac, "private": private, "version": private["version"]})).unwrap()
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", MacKey::new([7; 32])), "MacKey(redacted)");
    }

    fn ring() -> KeyRing {
        KeyRing::of(KEY.clone())
    }

    fn read(namespace: &str, name: &str, release: &[u8], text: &[u8], ring: &KeyRing) -> Option<Private> {
        match open(namespace, name, release, None, text, ring).unwrap() {
            Opened::Ours(private, _) => Some(*private),
            Opened::Unproved(..) => None,
        }
    }

    #[test]
    fn a_seal_holds_only_for_its_key_and_its_secret_and_its_record() {
        let text = seal("apps", "name", b"blob", None, &private(1), &KEY).unwrap();
        let ring = ring();
        assert_eq!(read("apps", "name", b"blob", &text, &ring), Some(private(1)));
        assert_eq!(read("apps", "name", b"blob", &text, &KeyRing::of(MacKey::new([8; 32]))), None);
        assert_eq!(read("other", "name", b"blob", &text, &ring), None);
        assert_eq!(read("apps", "eman", b"blob", &text, &ring), None);
        assert_eq!(read("apps", "name", b"blub", &text, &ring), None);
        let with = open("apps", "name", b"blob", Some(b""), &text, &ring).unwrap();
        assert!(matches!(with, Opened::Unproved(Because::BrokenSeal, _)));
        // The same bytes, cut at another place.
        assert_eq!(read("appsn", "ame", b"blob", &text, &ring), None);
    }

    #[test]
    fn any_key_of_the_ring_opens_and_an_unknown_one_is_told_from_a_broken_seal() {
        let text = seal("apps", "name", b"blob", None, &private(1), &KEY).unwrap();
        let new = KeyRing::of(MacKey::new([8; 32]));
        assert_eq!(read("apps", "name", b"blob", &text, &new.clone().and(KEY.clone())), Some(private(1)));
        let Opened::Unproved(because, unproved) = open("apps", "name", b"blob", None, &text, &new).unwrap()
        else {
            panic!("it was opened");
        };
        assert_eq!(because, Because::UnknownKey);
        assert_eq!(
            (unproved.owner.as_ref(), unproved.private.as_ref()),
            (Some(&private(1).owner), Some(&private(1)))
        );
        // Any other byte is another state, and has another digest.
        let Opened::Unproved(_, other) = open("apps", "name", b"blub", None, &text, &new).unwrap() else {
            panic!("it was opened");
        };
        assert_ne!(other.digest, unproved.digest);
        assert!(matches!(
            open("apps", "name", b"blub", None, &text, &ring()),
            Ok(Opened::Unproved(Because::BrokenSeal, _))
        ));
    }

    #[test]
    fn the_format_before_is_read_with_any_key() {
        let mut old = serde_json::to_value(private(1)).unwrap();
        old["version"] = json!(1);
        old.as_object_mut().unwrap().remove("writes");
        let expected = Some(Private { writes: 0, ..private(1) });
        assert_eq!(read("apps", "name", b"blob", &sealed(&old, &KEY), &ring()), expected);
        let other = KeyRing::of(MacKey::new([8; 32])).and(KEY.clone());
        assert_eq!(read("apps", "name", b"blob", &sealed(&old, &KEY), &other), expected);
    }

    #[test]
    fn what_cannot_be_read_at_all_names_nobody() {
        let Opened::Unproved(_, damaged) = open("apps", "name", b"blob", None, b"{\"mac", &ring()).unwrap()
        else {
            panic!("it was opened");
        };
        assert_eq!((damaged.owner, damaged.private), (None, None));
    }

    #[test]
    fn a_version_that_knows_only_the_format_before_finds_the_seal_right_and_the_format_too_new() {
        // What such a version does: the same envelope, the same input of the MAC, and then it looks at the version.
        let text = seal("apps", "name", b"blob", None, &private(1), &KEY).unwrap();
        let envelope: Value = serde_json::from_slice(&text).unwrap();
        let fields: Vec<&String> = envelope.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["mac", "private", "version"]);
        assert_eq!((&envelope["version"], &envelope["private"]["version"]), (&json!(2), &json!(2)));
        let inner = serde_json::to_vec(&envelope["private"]).unwrap();
        let tag = mac("apps", "name", b"blob", None, &inner, &KEY).finalize().into_bytes();
        assert_eq!(envelope["mac"], hex(&tag));
    }

    #[test]
    fn an_id_names_a_key_and_is_not_it() {
        assert_eq!(KEY.id(), KEY.clone().id());
        assert_ne!(KEY.id(), MacKey::new([8; 32]).id());
        assert!(KEY.id().len() == 16 && !KEY.to_hex().contains(&KEY.id()));
    }

    #[test]
    fn the_mac_is_the_published_function_of_the_documented_input() {
        // Computed with Python's hmac module over the same length-prefixed parts.
        let text = sealed(&json!({"version": 1}), &MacKey::new([7; 32]));
        let envelope: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(envelope["mac"], "b5232c2f0e39cc74d5bd384e6f43436be5603729474610969260a7612811fde0");
    }

    #[test]
    fn another_spelling_of_the_same_content_is_not_ours() {
        let text =
            String::from_utf8(seal("apps", "name", b"blob", None, &private(1), &KEY).unwrap()).unwrap();
        for other in [text.replacen(':', ": ", 1), format!("{text}\n"), text.to_uppercase()] {
            assert_eq!(read("apps", "name", b"blob", other.as_bytes(), &ring()), None, "{other}");
        }
    }

    #[test]
    fn a_newer_private_part_is_refused_and_not_taken_for_another_tools() {
        let newer = sealed(&json!({"version": 3, "shape": "unknown"}), &KEY);
        assert!(open("apps", "name", b"blob", None, &newer, &ring()).unwrap_err().contains("format 3"));
        let strange = sealed(&json!({"version": 1, "owner": 5}), &KEY);
        assert!(
            open("apps", "name", b"blob", None, &strange, &ring()).unwrap_err().contains("not understood")
        );
    }

    #[test]
    fn a_field_that_a_newer_version_added_does_not_break_the_seal() {
        let mut newer = serde_json::to_value(private(1)).unwrap();
        newer["added"] = json!(true);
        assert_eq!(read("apps", "name", b"blob", &sealed(&newer, &KEY), &ring()), Some(private(1)));
    }
}
