//! What the API names and the operator does not do yet.
//!
//! These are sources of `spec.pack`, each with its line in [`sources::asked`]. When a source lands, its line checks the field
//! instead. A value that equals the documented default asks for nothing, so it is let through.

use super::policy::Policy;
use super::sources::{self, Asked};
use crate::api::{Invalid, SherpackRelease, SherpackReleaseSpec};

/// Paths of everything that the release asks for and that is not built yet, in the order of the schema.
pub(super) fn asked_for(release: &SherpackRelease, policy: &Policy) -> Vec<&'static str> {
    // Everything is destructured without `..`: a new field does not compile until it is answered for here or known to
    // `validate`.
    let SherpackReleaseSpec {
        pack,
        // Resolved by `lock`, which also says what means nothing beside it.
        lock: _,
        release_name: _,
        target_namespace: _,
        create_namespace: _,
        values: _,
        values_from: _,
        depends_on: _,
        service_account_name: _,
        suspend: _,
        interval: _,
        timeout: _,
        wait: _,
        waves: _,
        install: _,
        upgrade: _,
        rollback_to: _,
        test: _,
        uninstall: _,
        crds: _,
        drift: _,
        history: _,
        approval: _,
    } = &release.spec;
    let sources = pack.as_ref().map(|pack| sources::asked(pack, policy)).unwrap_or_default();
    sources.into_iter().filter_map(not_supported).collect()
}

fn not_supported(source: Result<Asked, Invalid>) -> Option<&'static str> {
    match source {
        Ok(Asked::NotSupported(field)) => Some(field),
        Ok(Asked::Pack(_)) | Err(_) => None,
    }
}
