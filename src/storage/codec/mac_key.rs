//! The key that seals private parts.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::manifest::hex;

/// Length of a [`MacKey`].
pub const KEY_BYTES: usize = 32;
/// Says that the MAC is the id of a key, and of no record.
const ID_DOMAIN: &[u8] = b"sherpack-operator/key-id/v1";
/// Bytes of an id.
const ID_BYTES: usize = 8;

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

    /// The name of the key, which tells nothing of it.
    pub fn id(&self) -> String {
        let mut mac = self.hmac();
        mac.update(ID_DOMAIN);
        hex(&mac.finalize().into_bytes()[..ID_BYTES])
    }

    /// Whether the two are one key.
    pub fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    pub(super) fn hmac(&self) -> Hmac<Sha256> {
        // HMAC fills a short key up with zeros to one block itself; doing it here leaves no length that could be wrong.
        let mut block = [0; 64];
        block[..KEY_BYTES].copy_from_slice(&self.0);
        Hmac::<Sha256>::new(&block.into())
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

pub(super) fn lowercase_hex(text: &str) -> Option<[u8; 32]> {
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
