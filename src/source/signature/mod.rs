//! Whether a pack is signed by a key that the release names: signatures of cosign and of minisign.
//!
//! Pure: bytes in, a verdict out; the caller fetches. Only keys of a Secret count. Certificates (keyless signing) are
//! refused, and no transparency log is asked.
//!
//! * minisign signs the archive: [`check_minisig`].
//! * cosign signs the digest of the manifest. Before version 3 it puts signatures under a tag: [`legacy_tag`],
//!   [`in_legacy_manifest`], [`check_legacy`]. Since then each signature is a manifest that refers to the signed one:
//!   [`in_referrers`], [`in_bundle_manifest`], [`check_bundle`].
//! * [`verdict`] makes one of the verdicts about several signatures.
//!
//! Invariants: nothing is believed that one of the keys has not signed, and what others wrote is bounded before it is
//! decoded.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod bundle;
mod keys;
mod legacy;
mod minisign;
mod places;
mod refused;

pub use bundle::{MAX_BUNDLE_BYTES, check_bundle};
pub use keys::Keys;
pub use legacy::{MAX_PAYLOAD_BYTES, SignedPayload, check_legacy, in_legacy_manifest};
pub use minisign::{MAX_MINISIG_BYTES, check_beside, check_minisig};
pub use places::{
    MAX_MANIFEST_BYTES, in_bundle_manifest, in_referrers, legacy_tag, newest, of_bundles, referrers_tag,
};
pub use refused::{Refused, verdict};

/// Signatures of one pack that are looked at, and keys of one Secret.
const MAX_SIGNATURES: usize = 16;

#[cfg(test)]
mod real_cosign_tests;
#[cfg(test)]
mod real_minisign_tests;
#[cfg(test)]
mod stand;
