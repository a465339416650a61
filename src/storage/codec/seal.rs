//! The bytes under the data key `private`: `{"mac","private","version"}` as canonical JSON.
//!
//! Owns the MAC. Invariant: [`open`] gives a private part only if a holder of the key sealed exactly these bytes for
//! exactly this Secret and this record. What it cannot do: tell a record from an older state of the same record that
//! somebody with write access put back.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde_json::Value;
use sha2::Sha256;

use crate::manifest::hex;
use crate::release::{PRIVATE_VERSION, Private};

/// Length of a [`MacKey`].
pub const KEY_BYTES: usize = 32;

/// Says what the MAC is about, so that no other use of the key can ever be mistaken for it.
const DOMAIN: &[u8] = b"sherpack-operator/record/v1";

/// The key that seals private parts. `Debug` does not show it.
#[derive(Clone)]
pub struct MacKey([u8; KEY_BYTES]);

impl MacKey {
    /// A key of random bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    pub(in crate::storage) fn bytes(&self) -> [u8; KEY_BYTES] {
        self.0
    }

    /// For the file of an export, and nothing else.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// The inverse of [`to_hex`](Self::to_hex).
    pub fn from_hex(text: &str) -> Option<Self> {
        lowercase_hex(text).map(Self)
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(redacted)")
    }
}

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
    // Through a Value: its maps are sorted, so the text is the same whoever serialises it.
    let private = serde_json::to_value(private)?;
    let text = serde_json::to_vec(&private)?;
    let tag = mac(namespace, name, release, manifest, &text, key).finalize().into_bytes();
    serde_json::to_vec(&Envelope { mac: &hex(&tag), private: &private, version: PRIVATE_VERSION })
}

/// The private part if its seal is right, `None` if not.
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
    key: &MacKey,
) -> Result<Option<Private>, String> {
    let Some((private, text)) = verified(namespace, name, release, manifest, sealed, key) else {
        return Ok(None);
    };
    let version = private.get("version").and_then(Value::as_u64);
    if version != Some(u64::from(PRIVATE_VERSION)) {
        let found = version.map_or_else(|| "unknown".to_owned(), |v| v.to_string());
        return Err(format!(
            "its private part has format {found}, this operator knows {PRIVATE_VERSION}: run the newer version"
        ));
    }
    drop(private);
    serde_json::from_slice(&text).map(Some).map_err(|e| {
        format!(
            "its private part is sealed with our key but not understood ({e}): run the version that wrote it"
        )
    })
}

fn verified(
    namespace: &str,
    name: &str,
    release: &[u8],
    manifest: Option<&[u8]>,
    sealed: &[u8],
    key: &MacKey,
) -> Option<(Value, Vec<u8>)> {
    let mut envelope: Value = serde_json::from_slice(sealed).ok()?;
    // Exactly the bytes that were written: two spellings of one content would be one too many.
    if serde_json::to_vec(&envelope).ok()? != sealed {
        return None;
    }
    let fields = envelope.as_object_mut()?;
    let private = fields.remove("private")?;
    let tag = fields.remove("mac").as_ref().and_then(Value::as_str).and_then(lowercase_hex)?;
    let version = fields.remove("version")?;
    // The outer version repeats the one under the seal, for readers without the key.
    if !fields.is_empty() || private.get("version") != Some(&version) {
        return None;
    }
    let text = serde_json::to_vec(&private).ok()?;
    // `verify_slice` compares in constant time.
    mac(namespace, name, release, manifest, &text, key).verify_slice(&tag).ok()?;
    Some((private, text))
}

fn mac(
    namespace: &str,
    name: &str,
    release: &[u8],
    manifest: Option<&[u8]>,
    private: &[u8],
    key: &MacKey,
) -> Hmac<Sha256> {
    // HMAC fills a short key up with zeros to one block itself; doing it here leaves no length that could be wrong.
    let mut block = [0; 64];
    block[..KEY_BYTES].copy_from_slice(&key.0);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    // A manifest that stands apart comes last: what is sealed without one is sealed as ever.
    let parts = [DOMAIN, namespace.as_bytes(), name.as_bytes(), release, private];
    for part in parts.into_iter().chain(manifest) {
        // Lengths first: no byte can move from one part to the next unnoticed.
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

fn lowercase_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
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

    #[test]
    fn a_seal_holds_only_for_its_key_and_its_secret_and_its_record() {
        let text = seal("apps", "name", b"blob", None, &private(1), &KEY).unwrap();
        assert_eq!(open("apps", "name", b"blob", None, &text, &KEY), Ok(Some(private(1))));
        assert_eq!(open("apps", "name", b"blob", None, &text, &MacKey::new([8; 32])), Ok(None));
        assert_eq!(open("other", "name", b"blob", None, &text, &KEY), Ok(None));
        assert_eq!(open("apps", "eman", b"blob", None, &text, &KEY), Ok(None));
        assert_eq!(open("apps", "name", b"blub", None, &text, &KEY), Ok(None));
        assert_eq!(open("apps", "name", b"blob", Some(b""), &text, &KEY), Ok(None));
        // The same bytes, cut at another place.
        assert_eq!(open("appsn", "ame", b"blob", None, &text, &KEY), Ok(None));
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
            assert_eq!(open("apps", "name", b"blob", None, other.as_bytes(), &KEY), Ok(None), "{other}");
        }
    }

    #[test]
    fn a_newer_private_part_is_refused_and_not_taken_for_another_tools() {
        let newer = sealed(&json!({"version": 2, "shape": "unknown"}), &KEY);
        assert!(open("apps", "name", b"blob", None, &newer, &KEY).unwrap_err().contains("format 2"));
        let strange = sealed(&json!({"version": 1, "owner": 5}), &KEY);
        assert!(open("apps", "name", b"blob", None, &strange, &KEY).unwrap_err().contains("not understood"));
    }

    #[test]
    fn a_field_that_a_newer_version_added_does_not_break_the_seal() {
        let mut newer = serde_json::to_value(private(1)).unwrap();
        newer["added"] = json!(true);
        assert_eq!(open("apps", "name", b"blob", None, &sealed(&newer, &KEY), &KEY), Ok(Some(private(1))));
    }
}
