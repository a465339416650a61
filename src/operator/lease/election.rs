//! Who may act, decided from what one process has seen of the lease. Pure: time is a parameter.
//!
//! # Rules
//! * The lease is taken and renewed only by a write that carries the version on which the decision stands, or by a
//!   create. Of two that try, the API server refuses one.
//! * Another's lease is over when its version has not changed for its whole duration *while we looked*. What its
//!   timestamps say is never compared with our clock.
//! * Our own is over one renew deadline after the moment *before* the last successful write was sent.
//!
//! # Guarantees
//! While the clocks of two processes run at the same rate, also through suspends, at most one of them holds the lease
//! at any moment: the successor saw the holder's last version for a whole lease duration, and the holder stopped a renew
//! deadline, which is shorter, after it sent that version.
//!
//! # Caveats
//! Holding is no protection for a request that is under way. A person who deletes the lease lets a process that has
//! just started take it at once; one that saw a holder waits for the duration all the same.

use std::time::Duration;

use jiff::Timestamp;

use super::timing::Timing;

/// Time since the machine started, suspends included. Only differences mean anything.
pub(super) type Uptime = Duration;

/// The parts of a lease that decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The resourceVersion.
    pub(super) version: String,
    /// `None`: no process holds it.
    pub(super) holder: Option<String>,
    /// Of its holder's, as the holder wrote it.
    pub(super) duration: Option<Duration>,
    /// When the holder took it, by the holder's clock. Only ever compared with what we wrote ourselves.
    pub(super) acquired: Option<Timestamp>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the lease.
    Look,
    /// Make the lease, with us as its holder.
    Create,
    /// Write ourselves into the lease, on top of this version.
    Take { version: String },
    /// Say that we are still there, on top of this version.
    Renew { version: String },
    /// Nothing, until then or until the lease changes.
    Wait { until: Uptime },
    /// We held it and must not act any more.
    Lost,
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// As asked.
    Done(View),
    /// The lease is not what the write was based on.
    Refused,
    /// No answer, or none that tells.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Never,
    /// It is not there. `free_at`: when one who saw a holder before may make it.
    Gone {
        free_at: Uptime,
    },
    There {
        view: View,
        /// When we first saw this version.
        since: Uptime,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    until: Uptime,
    renew_at: Uptime,
}

/// One process's part in the election.
#[derive(Clone, Debug)]
pub(super) struct Election {
    me: String,
    timing: Timing,
    seen: Seen,
    held: Option<Held>,
    /// What is known may be out of date: look first, not before this.
    look_at: Option<Uptime>,
    /// No write before this.
    write_at: Uptime,
    /// The acquire time that we wrote when we last tried to take the lease.
    claim: Option<Timestamp>,
}

impl Election {
    pub(super) fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing,
            seen: Seen::Never,
            held: None,
            look_at: Some(Uptime::ZERO),
            write_at: Uptime::ZERO,
            claim: None,
        }
    }

    /// Until when we may act, if nothing else comes.
    pub(super) fn held_until(&self) -> Option<Uptime> {
        self.held.map(|held| held.until)
    }

    /// The version on which the next write of ours stands.
    pub(super) fn version(&self) -> Option<&str> {
        match &self.seen {
            Seen::There { view, .. } => Some(&view.version),
            Seen::Never | Seen::Gone { .. } => None,
        }
    }

    /// The holder as last seen.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.seen {
            Seen::There { view, .. } => view.holder.as_deref(),
            Seen::Never | Seen::Gone { .. } => None,
        }
    }

    /// What to do at `now`.
    pub(super) fn next(&self, now: Uptime) -> Step {
        if self.held.is_some_and(|held| now >= held.until) {
            return Step::Lost;
        }
        if let Some(at) = self.look_at {
            return if now >= at { Step::Look } else { self.wait(at) };
        }
        let (due, step) = match (&self.seen, &self.held) {
            (Seen::Never, _) => (now, Step::Look),
            // A user deleted our lease; the process that makes it first has it.
            (Seen::Gone { .. }, Some(_)) => (now, Step::Create),
            (Seen::Gone { free_at }, None) => (*free_at, Step::Create),
            (Seen::There { view, .. }, Some(held)) => {
                if !self.is_ours(view) {
                    return Step::Lost;
                }
                (held.renew_at, Step::Renew { version: view.version.clone() })
            }
            (Seen::There { view, since }, None) => {
                // Ours, without our knowing: the answer to the write that took it was lost.
                let free = view.holder.is_none() || self.is_ours(view);
                let due = if free { now } else { since.saturating_add(self.duration(view)) };
                (due, Step::Take { version: view.version.clone() })
            }
        };
        let due = due.max(self.write_at);
        if now >= due || step == Step::Look { step } else { self.wait(due) }
    }

    fn wait(&self, at: Uptime) -> Step {
        Step::Wait { until: self.held.map_or(at, |held| at.min(held.until)) }
    }

    /// The lease as a read or a watch shows it at `now`, which is after the answer came.
    pub(super) fn saw(&mut self, now: Uptime, found: Option<View>) {
        self.look_at = None;
        self.seen = match (found, &self.seen) {
            (Some(view), Seen::There { view: known, since }) if known.version == view.version => {
                Seen::There { view, since: *since }
            }
            (Some(view), _) => Seen::There { view, since: now },
            (None, Seen::Gone { free_at }) => Seen::Gone { free_at: *free_at },
            // Its holder does not know that it is gone, and goes on until its renewal fails.
            (None, Seen::There { view, .. }) if view.holder.is_some() && !self.is_ours(view) => {
                Seen::Gone { free_at: now.saturating_add(self.duration(view)) }
            }
            (None, Seen::There { .. } | Seen::Never) => Seen::Gone { free_at: now },
        };
    }

    /// What is known may be out of date, because a read or a watch failed at `now`.
    pub(super) fn blind(&mut self, now: Uptime) {
        self.look_at = Some(now.saturating_add(self.timing.retry_period()));
    }

    /// A write that takes the lease is about to be sent, with this acquire time in it.
    pub(super) fn claims(&mut self, acquired: Timestamp) {
        self.claim = Some(acquired);
    }

    /// A write of [`Step::Create`], [`Step::Take`] or [`Step::Renew`] ended. `sent` is from before it was sent.
    pub(super) fn wrote(&mut self, sent: Uptime, now: Uptime, written: Written) {
        match written {
            Written::Done(view) => {
                self.held = Some(Held {
                    until: sent.saturating_add(self.timing.renew_deadline()),
                    renew_at: sent.saturating_add(self.timing.retry_period()),
                });
                self.seen = Seen::There { view, since: now };
                self.look_at = None;
            }
            Written::Refused => {
                self.look_at = Some(now);
                self.write_at = now.saturating_add(self.timing.retry_period());
            }
            Written::Unknown => self.blind(now),
        }
    }

    /// No other process writes our name together with that moment, not even a predecessor that was called the same.
    fn is_ours(&self, view: &View) -> bool {
        view.holder.as_ref() == Some(&self.me) && self.claim.is_some() && view.acquired == self.claim
    }

    /// The holder acts by its own settings, so its own duration counts.
    fn duration(&self, view: &View) -> Duration {
        view.duration.unwrap_or_else(|| self.timing.lease_duration())
    }
}
