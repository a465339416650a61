use super::{Analysis, Severity};
use crate::api::CrdUpgrade;

/// What a strategy does with an analysed change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The definition is applied.
    Apply,
    /// The definition stays as it is in the cluster.
    Leave,
    /// The release stops before anything is touched.
    Stop,
}

/// What to do. `confirmed` are the entries of `spec.crds.confirmChanges`, each the [`Analysis::token`] of a change.
///
/// A confirmation lets a Dangerous change through; what the server refuses stays refused, under every strategy but Skip.
#[must_use]
pub fn step(strategy: CrdUpgrade, analysis: &Analysis, confirmed: &[String]) -> Step {
    match (strategy, analysis.verdict()) {
        (CrdUpgrade::Skip, _) => Step::Leave,
        (_, Severity::Blocked) => Step::Stop,
        (CrdUpgrade::Force, _) => Step::Apply,
        (CrdUpgrade::Safe, verdict) => {
            if verdict < Severity::Dangerous || confirmed.contains(&analysis.token()) {
                Step::Apply
            } else {
                Step::Stop
            }
        }
    }
}

/// Whether the strategy stops a change with this verdict that nobody confirmed.
#[must_use]
pub fn stops(strategy: CrdUpgrade, verdict: Severity) -> bool {
    match strategy {
        CrdUpgrade::Safe => verdict >= Severity::Dangerous,
        CrdUpgrade::Force => verdict == Severity::Blocked,
        CrdUpgrade::Skip => false,
    }
}
