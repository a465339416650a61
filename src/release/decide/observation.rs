//! What a decision depends on.

use std::time::Duration;

use jiff::Timestamp;

use crate::release::depends::Blocked;

/// Everything the decision depends on.
#[derive(Clone, Debug)]
pub struct Observation {
    pub deletion: Option<Deletion>,
    pub suspended: bool,
    /// `namespace/name` of another living release that owns the same target and name.
    pub name_taken_by: Option<String>,
    pub head: Head,
    /// Digest of the wanted inputs. `None`: not looked up, because the release is being deleted or
    /// held by something that comes first, or because its source cannot be read.
    pub inputs: Option<String>,
    /// The record that a person vouches for, by its digest.
    pub accepted: Option<String>,
    /// Digest of the spec: what failed under another one is tried anew.
    pub spec: String,
    /// There are no inputs because what is asked for cannot be read, and only a person can mend that.
    pub unreadable: bool,
    /// A `reset-at` request that has not been acknowledged yet.
    pub reset_requested: bool,
    /// `upgrade.paused`: keep healing, roll nothing out.
    pub paused: bool,
    /// `approval: Manual`: the digest of the plan for the wanted inputs, as long as no user has approved it.
    pub unapproved: Option<String>,
    /// A release that this one depends on is not Ready.
    pub dependency: Option<Blocked>,
    /// What is known of the revision that is wanted instead of the newest one.
    pub successor: Successor,
    /// What a failed head failed for is healthy by now.
    pub healed: bool,
    pub retries: Retries,
    pub retry_interval: RetryInterval,
    pub on_failure: OnFailure,
    /// `spec.rollbackTo`.
    pub rollback_to: Option<RollbackTo>,
    /// Tests of what is deployed are asked for, or have begun.
    pub test: bool,
    pub drift: Drift,
    pub now: Timestamp,
}

/// The release is being deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deletion {
    /// `uninstall.policy: Orphan`.
    pub orphan: bool,
    /// The operator's own CustomResourceDefinition is going away.
    pub own_crd_terminating: bool,
    /// The target namespace is going away or gone.
    pub namespace_terminating: bool,
    /// The service account that the release needs is not there.
    pub account_gone: bool,
}

/// Retries after the first attempt, by what the attempt is.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    pub install: u32,
    pub upgrade: u32,
}

/// How long after a failure one more attempt is made although no retries are left, by what the attempt is. `None`: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryInterval {
    pub install: Option<Duration>,
    pub upgrade: Option<Duration>,
}

/// Whether a release that failed for good is undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnFailure {
    /// A first install is taken away again.
    pub uninstall: bool,
    /// A later revision makes way for the last deployed one.
    pub rollback: bool,
}

/// The revision that a release is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackTo {
    pub revision: u32,
    /// Why it cannot be gone back to. Not looked at while it is the head or the head came from it.
    pub problem: Option<String>,
}

/// What `spec.drift` and the break-glass annotation ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Put back (`Enabled`) or report (`Warn`).
    Watched,
    /// `Disabled`, or paused by annotation.
    Ignored,
}

/// The newest revision record.
#[derive(Clone, Debug)]
pub enum Head {
    /// There is no record. `expected`: status or labelled objects say that there was one.
    None { expected: bool },
    /// There is a record that cannot be trusted to say anything.
    Unreadable { message: String },
    /// It says to be ours, and acting on it may be wrong.
    Doubtful(Doubtful),
    /// Written by another tool: it has no private part, or one of another release.
    Foreign { revision: u32, state: HeadState },
    /// Written by us for another object: a release of this name was deleted and made again, or the
    /// record was copied.
    Ours(OurHead),
}

/// A record of this very release, or of a predecessor of the same name and namespace.
#[derive(Clone, Debug)]
pub struct OurHead {
    pub revision: u32,
    pub state: HeadState,
    pub inputs: String,
    /// Digest of the spec under which it was begun.
    pub spec: String,
    /// Attempts at these inputs so far, this one included.
    pub attempt: u32,
    /// The newest revision of this release that was deployed, if one ever was.
    pub last_deployed: Option<u32>,
    /// The newest revision of this name that was deployed and to which no release can go back: another tool's, or one whose
    /// record is lost.
    pub unreachable: Option<u32>,
    /// A revision of this release was deployed that this one knows nothing of, or may have been.
    pub earlier_deployed: bool,
    /// The revision that this one goes back to.
    pub target: Option<u32>,
    /// What failed and was undone by this revision.
    pub undone: Option<Failure>,
    /// Inputs that failed, whatever came after them.
    pub failures: Vec<Failure>,
    /// It failed for a hook that asks to undo without further attempts.
    pub undo_at_once: bool,
    /// One of its hooks may be running.
    pub hook_running: bool,
}

/// Inputs that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub inputs: String,
    /// Attempts at them so far.
    pub attempt: u32,
    /// When the last one failed.
    pub at: Timestamp,
    /// Digest of the spec under which that was begun.
    pub spec: String,
    /// A hook asked that nothing more is attempted.
    pub for_good: bool,
}

/// The state of a record, as far as decisions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadState {
    Deployed,
    Superseded,
    Uninstalled,
    Failed {
        at: Timestamp,
    },
    /// Another revision took its place. It counts for no retry and is not undone.
    Interrupted,
    Pending {
        started_at: Timestamp,
        timeout: Duration,
        uninstalling: bool,
    },
}

/// What is known of the revision that is wanted instead of the newest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Successor {
    /// It was not tried, or the try has not ended.
    #[default]
    Unknown,
    /// It was fetched, rendered and checked: it could be stored now.
    Ready,
    /// It was refused.
    Refused,
}

/// A record that a person has to vouch for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubtful {
    pub doubt: Doubt,
    /// Names exactly this record, at this moment of the release; `None`: no user can vouch for it, because it cannot be
    /// understood.
    pub digest: Option<String>,
    /// Which record it is and what is wrong with it.
    pub message: String,
}

/// What is wrong with a [`Doubtful`] record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It names this release as its owner, and its seal is not right or its key is not there.
    KeyLost,
    /// It is an older state of a record that was written since.
    Rewound,
}
