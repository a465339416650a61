use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// `sha256:<hex>` of the canonical JSON: no blanks, keys in byte order.
#[must_use]
pub fn digest(value: &Value) -> String {
    digest_of(canonical_json(value).as_bytes())
}

/// `sha256:<hex>` of bytes as they are.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(bytes))
}

/// Canonical only because `serde_json` keeps its maps sorted; a test guards that no feature changes it.
pub(super) fn canonical_json(value: &Value) -> String {
    value.to_string()
}

/// Lower-case hex of the SHA-256 of `bytes`.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_are_sorted_whatever_the_order_of_insertion() {
        let value: Value = serde_json::from_str(r#"{"b":1,"a":{"d":1,"c":2}}"#).unwrap();
        assert_eq!(canonical_json(&value), r#"{"a":{"c":2,"d":1},"b":1}"#);
    }

    #[test]
    fn the_digest_is_that_of_the_canonical_text() {
        // printf '{"a":1}' | sha256sum
        assert_eq!(
            digest(&json!({"a": 1})),
            "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
        );
    }

    #[test]
    fn another_value_has_another_digest() {
        assert_ne!(digest(&json!({"a": 1})), digest(&json!({"a": "1"})));
    }
}
