//! What templates get without asking anybody: the time, unique ids, and secrets that last.
//!
//! Nothing here is random: all of it is computed from a seed that the caller gives, so a second render is the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use minijinja::Error;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::budget::{Budget, wrong};

/// Longest secret.
pub(super) const LENGTH: i64 = 4096;
/// Bytes of the longest name of a secret.
const NAME: usize = 253;
/// Bytes of all secrets of a release with their names: they are stored with every revision.
const TOTAL: usize = 256 << 10;

/// Secrets by name, made by `generate_secret` or kept from before.
pub type Secrets = BTreeMap<String, Secret>;

/// One generated secret. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Its value, for a test or a template.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// What the secrets of a render are made from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Those of the revision before: a name keeps its value.
    pub kept: &'a Secrets,
    /// Random bytes from which new ones are made. A reader that knows them knows the new secrets.
    pub random: &'a [u8; 32],
    /// Takes those of a render that fails: its error may quote them.
    pub made: Option<&'a Mutex<Secrets>>,
}

/// The state behind `now`, `uuidv4` and `generate_secret`, for all packs of one render.
pub(super) struct Generators {
    /// As `now()` gives it.
    pub(super) now: String,
    seed: Vec<u8>,
    ids: AtomicU64,
    random: [u8; 32],
    secrets: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Secrets,
    used: Secrets,
    /// Bytes of `used`.
    bytes: usize,
}

impl Generators {
    pub(super) fn new(now: Timestamp, seed: &str, source: Source<'_>) -> Self {
        Self {
            now: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            seed: seed.as_bytes().to_vec(),
            ids: AtomicU64::new(0),
            random: *source.random,
            secrets: Mutex::new(State { kept: source.kept.clone(), ..State::default() }),
        }
    }

    /// What is to be kept for the next revision: the secrets that were asked for, and of the others as many as there is
    /// room for. A template that asks for one again some day gets the old value.
    pub(super) fn secrets(&self) -> Secrets {
        let mut state = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let State { kept, mut used, mut bytes } = std::mem::take(&mut *state);
        for (name, secret) in kept {
            bytes += size(&name, &secret);
            if bytes > TOTAL {
                break;
            }
            used.entry(name).or_insert(secret);
        }
        used
    }

    pub(super) fn secret(
        &self,
        name: &str,
        length: i64,
        charset: &str,
        budget: &Budget,
    ) -> Result<String, Error> {
        if name.is_empty() || name.len() > NAME {
            return Err(wrong(format!("generate_secret: a name has 1 to {NAME} bytes")));
        }
        if !(1..=LENGTH).contains(&length) {
            return Err(wrong(format!("generate_secret: a length is from 1 to {LENGTH}, not {length}")));
        }
        let Some(letters) = letters(charset) else {
            return Err(wrong(
                "generate_secret: the charsets are alphanumeric, alpha, numeric, hex, base64 and urlsafe",
            ));
        };
        let mut state = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = state.used.get(name) {
            return Ok(secret.0.clone());
        }
        let secret = match state.kept.remove(name) {
            Some(secret) => secret,
            None => Secret(expand(&self.random, name, length as usize, letters)),
        };
        state.bytes += size(name, &secret);
        if state.bytes > TOTAL {
            return Err(budget.over(format!("the generated secrets are larger than {} KiB", TOTAL >> 10)));
        }
        state.used.insert(name.to_owned(), secret.clone());
        Ok(secret.0)
    }

    pub(super) fn uuid(&self) -> String {
        let index = self.ids.fetch_add(1, Ordering::Relaxed);
        let block = mac(&self.seed, &[b"uuid", &index.to_be_bytes()]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&block[..16]);
        // Version 4, variant 1.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = crate::manifest::hex(&bytes);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }
}

fn size(name: &str, secret: &Secret) -> usize {
    // Quotes, colon and comma of the JSON in which they are stored.
    name.len() + secret.0.len() + 6
}

fn letters(charset: &str) -> Option<&'static [u8]> {
    Some(match charset.to_lowercase().as_str() {
        "alphanumeric" | "alnum" => b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        "alpha" => b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "numeric" | "num" | "digits" => b"0123456789",
        "hex" => b"0123456789abcdef",
        "base64" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        "urlsafe" | "url" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
        _ => return None,
    })
}

/// Letters from a stream of bytes that only this seed and name give. Every letter is equally likely: bytes that would
/// favour some of them are left out.
fn expand(seed: &[u8; 32], name: &str, length: usize, letters: &[u8]) -> String {
    let fair = 256 - 256 % letters.len();
    let blocks = (0_u64..).map(|index| mac(seed, &[b"secret", &index.to_be_bytes(), name.as_bytes()]));
    let bytes = blocks.flatten().map(usize::from).filter(|byte| *byte < fair);
    bytes.take(length).map(|byte| char::from(letters[byte % letters.len()])).collect()
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC hashes a long key itself; a block of its own length is never refused.
    let mut block = [0; 64];
    let key = if key.len() > 64 { &<Sha256 as sha2::Digest>::digest(key)[..] } else { key };
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::render::Stop;

    fn generators(kept: &Secrets) -> Generators {
        Generators::new(Timestamp::UNIX_EPOCH, "seed", Source { kept, random: &[7; 32], made: None })
    }

    fn budget() -> Budget {
        Budget::new(&Stop::default())
    }

    #[test]
    fn letters_are_of_the_charset_and_equally_likely() {
        for charset in ["alphanumeric", "alpha", "numeric", "hex", "base64", "urlsafe"] {
            let letters = letters(charset).unwrap();
            let secret = expand(&[1; 32], "name", 100_000, letters);
            assert_eq!(secret.len(), 100_000);
            let mut counts = BTreeMap::new();
            secret.bytes().for_each(|byte| *counts.entry(byte).or_insert(0_u32) += 1);
            assert_eq!(counts.len(), letters.len(), "{charset}");
            let expected = 100_000.0 / letters.len() as f64;
            // Eight standard deviations.
            let far =
                counts.values().find(|count| (f64::from(**count) - expected).abs() > 8.0 * expected.sqrt());
            assert_eq!(far, None, "{charset}: {expected} expected");
        }
    }

    #[test]
    fn a_secret_depends_on_its_seed_and_its_name_and_on_no_other_secret() {
        let empty = Secrets::new();
        let (one, other) = (generators(&empty), generators(&empty));
        let a = one.secret("a", 20, "hex", &budget()).unwrap();
        let b = one.secret("b", 20, "hex", &budget()).unwrap();
        assert_ne!(a, b);
        assert_eq!(other.secret("b", 20, "hex", &budget()).unwrap(), b);
        assert_eq!(other.secret("a", 20, "hex", &budget()).unwrap(), a);
        let source = Source { kept: &empty, random: &[8; 32], made: None };
        let seeded = Generators::new(Timestamp::UNIX_EPOCH, "seed", source);
        assert_ne!(seeded.secret("a", 20, "hex", &budget()).unwrap(), a);
    }

    #[test]
    fn the_first_value_of_a_name_stays_whatever_is_asked_for_later() {
        let first = generators(&Secrets::new());
        let value = first.secret("db", 12, "alnum", &budget()).unwrap();
        assert_eq!(first.secret("db", 40, "digits", &budget()).unwrap(), value);
        let kept = first.secrets();
        let next = Generators::new(
            Timestamp::UNIX_EPOCH,
            "other",
            Source { kept: &kept, random: &[9; 32], made: None },
        );
        assert_eq!(next.secret("db", 40, "digits", &budget()).unwrap(), value);
        let unused =
            Generators::new(Timestamp::UNIX_EPOCH, "x", Source { kept: &kept, random: &[9; 32], made: None });
        assert_eq!(unused.secrets(), kept, "one that nobody asks for is not forgotten");
    }

    #[test]
    fn the_secrets_kept_are_bounded_and_those_in_use_come_first() {
        let full: Secrets =
            (0..100).map(|index| (format!("old-{index:03}"), Secret("x".repeat(4000)))).collect();
        let generators = generators(&full);
        let value = generators.secret("zz", 10, "hex", &budget()).unwrap();
        let kept = generators.secrets();
        assert_eq!(kept["zz"].expose(), value);
        let bytes: usize = kept.iter().map(|(name, secret)| size(name, secret)).sum();
        assert!(bytes <= TOTAL && kept.len() > 50, "{bytes} bytes, {} secrets", kept.len());
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret("hunter2".to_owned())), "Secret(redacted)");
    }
}
