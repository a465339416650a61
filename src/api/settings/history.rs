//! Where and how the revisions of a release are kept.

use super::policy::Policy;
use super::resolved::HISTORY_LIMIT;
use crate::api::names::is_dns_label;
use crate::api::{Compression, History, HistoryStorage, Invalid, LargeRevision, SherpackRelease};

/// `spec.history`, as [`Settings`](super::Settings) holds it.
pub(super) struct Kept {
    pub(super) limit: u32,
    pub(super) storage: HistoryStorage,
    pub(super) namespace: String,
    pub(super) compression: Compression,
    pub(super) large: LargeRevision,
}

impl Kept {
    /// # Errors
    /// A history without a revision, and a place that the operator was not told to use.
    pub(super) fn of(release: &SherpackRelease, policy: &Policy) -> Result<Self, Invalid> {
        let history = release.spec.history.clone().unwrap_or_default();
        let History { limit, storage, namespace: _, compression, large } = history;
        let limit = limit.unwrap_or(HISTORY_LIMIT);
        if limit == 0 {
            return Err(Invalid::spec("spec.history.limit", "is 0: at least 1 revision must be kept"));
        }
        Ok(Self {
            limit,
            storage: storage.unwrap_or_default(),
            namespace: checked_namespace(release, policy)?,
            compression: compression.unwrap_or_default(),
            large: large.unwrap_or_default(),
        })
    }
}

/// Where revisions go. A user who may write a release must not fill other namespaces with them.
fn checked_namespace(release: &SherpackRelease, policy: &Policy) -> Result<String, Invalid> {
    let asked = release.spec.history.as_ref().and_then(|history| history.namespace.as_deref());
    let target = release.target_namespace();
    let asked = asked.filter(|asked| *asked != target);
    if release.history_storage() == HistoryStorage::File {
        if !policy.storage_dir_enabled {
            return Err(Invalid::spec(
                "spec.history.storage",
                "the operator was started without a directory for revisions: start it with --storage-dir, or use Secret",
            ));
        }
        if asked.is_some() {
            return Err(Invalid::spec(
                "spec.history.namespace",
                "revisions in files are kept by the target namespace: remove this field",
            ));
        }
    }
    let Some(asked) = asked else { return Ok(target.to_owned()) };
    if !is_dns_label(asked) {
        let message = format!(
            "`{asked}` is no name for a namespace: use at most 63 of a-z, 0-9 and `-`, with a letter or digit at both ends"
        );
        return Err(Invalid::spec("spec.history.namespace", message));
    }
    if !policy.storage_namespaces.iter().any(|allowed| allowed == asked || allowed == "*") {
        let message = format!(
            "revisions may not be stored in `{asked}`: start the operator with --allow-storage-namespace={asked}, or \
             remove this field"
        );
        return Err(Invalid::spec("spec.history.namespace", message));
    }
    Ok(asked.to_owned())
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
