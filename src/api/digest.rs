//! Digests as the fields of the API have them.

/// Whether a text is a digest as every field of the API has it: `sha256:` and 64 lower-case hex digits.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
