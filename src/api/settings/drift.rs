//! What is put back of a release, and what is left to others.

use std::sync::Arc;

use super::policy::Policy;
use crate::api::{Drift, DriftMode, IgnoreRule, Invalid, SherpackRelease};

/// `spec.drift`, as [`Settings`](super::Settings) holds it.
pub(super) struct Guarded {
    pub(super) mode: DriftMode,
    pub(super) strict: Vec<String>,
    pub(super) ignore: Vec<Arc<IgnoreRule>>,
}

impl Guarded {
    /// # Errors
    /// An empty name of a field manager, and a rule that cannot be read.
    pub(super) fn of(release: &SherpackRelease, policy: &Policy) -> Result<Self, Invalid> {
        let Drift { mode, strict: _, ignore: _ } = release.spec.drift.clone().unwrap_or_default();
        Ok(Self {
            mode: mode.unwrap_or_default(),
            strict: strict_managers(release)?,
            ignore: ignore_rules(release, policy)?,
        })
    }
}

/// The field managers whose additions are taken away.
pub(super) fn strict_managers(release: &SherpackRelease) -> Result<Vec<String>, Invalid> {
    let managers = release.strict_managers().unwrap_or_default();
    match managers.iter().position(|manager| manager.trim().is_empty()) {
        Some(at) => {
            let field = format!("spec.drift.strict.managers[{at}]");
            Err(Invalid::spec(&field, "is empty: name a field manager, such as kubectl-edit"))
        }
        None => Ok(managers.to_vec()),
    }
}

/// What is left to others: what the operator was started with, then what the release says.
pub(super) fn ignore_rules(
    release: &SherpackRelease,
    policy: &Policy,
) -> Result<Vec<Arc<IgnoreRule>>, Invalid> {
    let mut rules = policy.ignore.clone();
    let written = release.spec.drift.as_ref().and_then(|drift| drift.ignore.as_deref());
    for (at, rule) in written.unwrap_or_default().iter().enumerate() {
        let rule = IgnoreRule::parse(rule).map_err(|bad| {
            let below = if bad.field.is_empty() { String::new() } else { format!(".{}", bad.field) };
            Invalid::spec(&format!("spec.drift.ignore[{at}]{below}"), bad.message)
        })?;
        rules.push(Arc::new(rule));
    }
    Ok(rules)
}
