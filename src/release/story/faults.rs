//! Faults that are planted into the model of the operator, to see that the promises would find them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// What was adopted is pruned like anything else.
    PruneAdopted,
    /// A new revision does not know that another one was deployed, and asks no record.
    ForgetDeployed,
    /// A hook runs before that is written down.
    HookUnwritten,
    /// Nothing is given up.
    KeepFailures,
    /// The revision of before stays deployed.
    NoSupersede,
    /// What runs is ended before what comes instead is stored.
    InterruptFirst,
    /// Drift is not put back.
    Unlocked,
    /// A record in doubt counts as one's own.
    Trusting,
}

impl Fault {
    pub(super) const ALL: [Self; 8] = [
        Self::PruneAdopted,
        Self::ForgetDeployed,
        Self::HookUnwritten,
        Self::KeepFailures,
        Self::NoSupersede,
        Self::InterruptFirst,
        Self::Unlocked,
        Self::Trusting,
    ];
}
