use crate::api::CrdUpgrade;
use crate::crd::Severity;

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

/// What to do. `confirmed` are the entries of `spec.crds.confirmChanges`, each the [`token`](crate::crd::token) of a change;
/// `token` gives that of this one, and is asked only when it matters.
///
/// A confirmation lets a Dangerous change through; what the server refuses stays refused, under every strategy but Skip.
#[must_use]
pub fn step(
    strategy: CrdUpgrade,
    verdict: Severity,
    token: impl FnOnce() -> String,
    confirmed: &[String],
) -> Step {
    match (strategy, verdict) {
        (CrdUpgrade::Skip, _) => Step::Leave,
        (_, Severity::Blocked) => Step::Stop,
        (CrdUpgrade::Force, _) => Step::Apply,
        (CrdUpgrade::Safe, verdict) => {
            if verdict < Severity::Dangerous || (!confirmed.is_empty() && confirmed.contains(&token())) {
                Step::Apply
            } else {
                Step::Stop
            }
        }
    }
}

/// Whether the strategy stops a change with this verdict that no user confirmed.
#[must_use]
pub fn stops(strategy: CrdUpgrade, verdict: Severity) -> bool {
    match strategy {
        CrdUpgrade::Safe => verdict >= Severity::Dangerous,
        CrdUpgrade::Force => verdict == Severity::Blocked,
        CrdUpgrade::Skip => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_its_answer_for_every_verdict() {
        use CrdUpgrade::{Force, Safe, Skip};
        use Severity::{Blocked, Dangerous, Safe as Harmless, Warning};
        let token = || "a@sha256:1".to_owned();
        let confirmed = [token()];
        let other = ["a@sha256:2".to_owned()];
        for (strategy, verdict, unconfirmed, with) in [
            (Safe, Harmless, Step::Apply, Step::Apply),
            (Safe, Warning, Step::Apply, Step::Apply),
            (Safe, Dangerous, Step::Stop, Step::Apply),
            (Safe, Blocked, Step::Stop, Step::Stop),
            (Force, Dangerous, Step::Apply, Step::Apply),
            (Force, Blocked, Step::Stop, Step::Stop),
            (Skip, Harmless, Step::Leave, Step::Leave),
            (Skip, Blocked, Step::Leave, Step::Leave),
        ] {
            assert_eq!(step(strategy, verdict, token, &[]), unconfirmed, "{strategy:?} {verdict}");
            assert_eq!(step(strategy, verdict, token, &other), unconfirmed, "{strategy:?} {verdict}");
            assert_eq!(step(strategy, verdict, token, &confirmed), with, "{strategy:?} {verdict}");
            assert_eq!(stops(strategy, verdict), unconfirmed == Step::Stop, "{strategy:?} {verdict}");
        }
    }
}
