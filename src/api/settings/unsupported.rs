//! What the API names and the operator does not do yet.
//!
//! [`asked_for`] is the one table. When a feature lands, its line goes and `validate` resolves the field instead.
//! A value that equals the documented default asks for nothing, so it is let through.

use crate::api::{PackSource, SherpackRelease, SherpackReleaseSpec};

/// Paths of everything that the release asks for and that is not built yet, in the order of the schema.
pub(super) fn asked_for(release: &SherpackRelease) -> Vec<&'static str> {
    // Everything is destructured without `..`: a new field does not compile until it is in the table or known
    // to `validate`.
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
    let pack = pack.clone().unwrap_or_default();
    let PackSource { config_map: _, secret: _, http: _, repository, oci, artifact, path: _ } = &pack;

    let table: [(&'static str, bool); 3] = [
        ("spec.pack.repository", repository.is_some()),
        ("spec.pack.oci", oci.is_some()),
        ("spec.pack.artifact", artifact.is_some()),
    ];
    table.into_iter().filter_map(|(path, asked)| asked.then_some(path)).collect()
}
