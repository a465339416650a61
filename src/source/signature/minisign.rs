//! Signatures of minisign: a text beside the archive.

use minisign_verify::{Error, Signature};

use super::keys::Keys;
use super::refused::Refused;

/// Bytes of the text: minisign itself writes no comment that is longer than half of this.
pub const MAX_MINISIG_BYTES: usize = 16 << 10;

/// Checks that one of the keys has signed the archive, and the trusted comment with it.
///
/// Both forms count: the hash of the archive is signed, or the archive itself, as minisign did before version 0.10.
///
/// # Errors
/// See [`Refused`].
pub fn check_minisig(keys: &Keys, archive: &[u8], minisig: &[u8]) -> Result<(), Refused> {
    if minisig.len() > MAX_MINISIG_BYTES {
        return Err(Refused::damaged(format!("it is larger than {MAX_MINISIG_BYTES} bytes")));
    }
    let text = std::str::from_utf8(minisig).map_err(|_| Refused::damaged("it is no text"))?;
    let signature = Signature::decode(text).map_err(|_| {
        Refused::damaged("it is not what minisign writes: two comments and two lines of base64")
    })?;
    let mut refused = Refused::OtherKey;
    for key in keys.minisign() {
        match key.verify(archive, &signature, true) {
            Ok(()) => return Ok(()),
            Err(Error::UnexpectedKeyId) => {}
            Err(_) => refused = Refused::changed(),
        }
    }
    Err(refused)
}

/// [`check_minisig`] for the signature that was found beside an archive, if any was.
///
/// # Errors
/// See [`Refused`].
pub fn check_beside(keys: &Keys, archive: &[u8], minisig: Option<&[u8]>) -> Result<(), Refused> {
    check_minisig(keys, archive, minisig.ok_or(Refused::Unsigned)?)
}

#[cfg(test)]
#[path = "minisign_tests.rs"]
mod tests;
