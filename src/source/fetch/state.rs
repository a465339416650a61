//! What is known of one source and who uses it; when it has to be looked at. Decides, and does no IO.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::access::Access;
use super::location::Location;
use crate::api::{Class, INTERVAL_MIN};
use crate::release::{ReleaseKey, backoff};
use crate::source::Error;
use crate::source::cache::Known;
use crate::source::http::Validators;

/// A source that worked may fail so many times in a row before a release is told: most trouble is over by then.
const TOLERATED: u32 = 3;

/// Between the beginnings of two looks at one source lies at least so much time, whatever the server answers.
const GAP: Duration = INTERVAL_MIN;
/// The same when a release asks for a look: a user who writes one request after the other makes no load with the operator.
const GAP_ASKED: Duration = Duration::from_secs(1);

/// What tells one source from another.
///
/// Who shows other credentials may be given something else, and must not be given what only the others may see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceId {
    pub location: Location,
    /// The Secret and its version; empty when there is none.
    pub scope: String,
    /// Tool and keys of which one has to have signed; empty when signatures are not looked at. What a source has given was signed so.
    pub signed: String,
}

impl SourceId {
    /// One text for it.
    pub(super) fn text(&self) -> String {
        let Self { location, scope, signed } = self;
        let signed = if signed.is_empty() { String::new() } else { format!("signed by {signed}\n") };
        format!("{scope}\n{signed}{}", location.text())
    }
}

/// What a release wants of its source.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub release: &'a ReleaseKey,
    /// The one content that is good.
    pub digest: Option<&'a str>,
    /// How old a look may be.
    pub interval: Duration,
    /// The spec is a new one, so a source that the release did not use before is looked at anew.
    pub changed: bool,
    /// A request for a look; another text is another request.
    pub request: Option<&'a str>,
}

/// What a release is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// This archive is what it wants.
    At(String),
    /// It is not known yet. The release is woken.
    Fetching { since: Instant },
    /// It cannot be had. It is tried again without being asked, and the release is woken when something changes.
    Failed(Error),
}

/// How an attempt ended.
pub(super) enum Ended {
    Fetched { digest: String, validators: Validators },
    Unchanged,
    Failed(Error),
}

/// What follows from the end of an attempt.
pub(super) struct Next {
    pub wake: Vec<ReleaseKey>,
    /// When to try again; `None`: when a release asks.
    pub again: Option<Duration>,
    /// The failure is another one than the last one.
    pub news: bool,
}

pub(super) struct Source {
    pub access: Access,
    pub known: Known,
    pub users: HashMap<ReleaseKey, User>,
    /// When the last attempt that succeeded began; `None`: not in this process.
    looked_at: Option<Instant>,
    /// When the last attempt began, however it ended.
    began: Option<Instant>,
    /// When it was last said that it may give something else by now, and whether it alone was named.
    hint: Option<(Instant, bool)>,
    /// The last attempt, if it failed.
    failure: Option<Failure>,
    /// Looks in a row that showed what a release cannot use.
    in_vain: u32,
}

struct Failure {
    error: Error,
    began: Instant,
    /// The server wants to be left alone until then.
    until: Option<Instant>,
    count: u32,
}

#[derive(Default)]
pub(super) struct User {
    want: Option<String>,
    /// A look that began earlier says nothing to this one.
    since: Option<Instant>,
    request: Option<String>,
    /// The archive with this digest is no pack.
    rejected: Option<String>,
    /// It was told to wait.
    waiting: Option<Instant>,
}

impl Source {
    pub(super) fn new(access: Access, known: Known) -> Self {
        let (users, looked_at) = (HashMap::new(), None);
        Self { access, known, users, looked_at, began: None, hint: None, failure: None, in_vain: 0 }
    }

    /// How long the next attempt still has to wait, so that the gap is kept; `None`: it may begin. An attempt that a release has
    /// asked for since the last one began waits for the smaller gap only.
    /// Nor does it begin while the server wants to be left alone.
    pub(super) fn rests(&self, now: Instant) -> Option<Duration> {
        let began = self.began?;
        let asked = self.users.values().any(|user| user.since.is_some_and(|since| since > began));
        let asked = asked || self.hint.is_some_and(|(at, is_named)| is_named && at > began);
        let gap = if asked { GAP_ASKED } else { GAP };
        let left = gap.saturating_sub(now.saturating_duration_since(began)).max(self.pause(now));
        (!left.is_zero()).then_some(left)
    }

    /// Something outside says that it may give something else by now. A look that is under way may have missed that. Who names many
    /// sources at once has to wait for the larger gap.
    pub(super) fn hinted(&mut self, now: Instant, is_named: bool) {
        self.hint = Some((now, is_named));
    }

    /// How long the server still wants to be left alone.
    fn pause(&self, now: Instant) -> Duration {
        let until = self.failure.as_ref().and_then(|failure| failure.until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// An attempt begins now.
    pub(super) fn begins(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// What to tell a release, and whether an attempt has to be made now.
    pub(super) fn ask(&mut self, ask: &Ask<'_>, now: Instant) -> (Look, bool) {
        let Ask { release, digest, interval, changed, request } = ask.clone();
        let anew = match self.users.get(release) {
            None => changed,
            // It has heard elsewhere that the content is another one.
            Some(user) => user.want.as_deref() != digest,
        };
        let user = self.users.entry(release.clone()).or_default();
        if anew {
            user.since = Some(now);
        }
        user.want = digest.map(str::to_owned);
        if request.is_some() && user.request.as_deref() != request {
            user.request = request.map(str::to_owned);
            user.since = Some(now);
        }
        let since = user.since;
        let counts = |at: Instant| since.is_none_or(|since| at >= since);
        let (look, start) = self.judge(digest, interval, counts, since.is_none(), now);
        if let Some(user) = self.users.get_mut(release) {
            match look {
                None => {
                    let since = *user.waiting.get_or_insert(now);
                    return (Look::Fetching { since }, start);
                }
                Some(_) => user.waiting = None,
            }
        }
        (look.unwrap_or(Look::Fetching { since: now }), start)
    }

    /// `counts`: a look that began then is new enough. `any`: so is what an earlier process saw.
    fn judge(
        &self,
        want: Option<&str>,
        interval: Duration,
        counts: impl Fn(Instant) -> bool,
        any: bool,
        now: Instant,
    ) -> (Option<Look>, bool) {
        if let Some(want) = want
            && self.known.given.iter().any(|given| given == want)
        {
            // Its bytes cannot change, so there is nothing to look for.
            return (Some(Look::At(want.to_owned())), false);
        }
        let looked = self.looked_at.filter(|at| counts(*at));
        match (&self.failure, looked) {
            (None, Some(at)) => {
                // While a look that is due is under way, what the last one saw holds.
                let seen = self.seen(want);
                let due = seen.is_none() || now.saturating_duration_since(at) >= interval;
                (seen, due)
            }
            // While the server wants to be left alone, no newer look can be had.
            (Some(failure), looked) if counts(failure.began) || !self.pause(now).is_zero() => {
                let worked = looked.is_some() || any;
                let tolerated = worked && failure.count < TOLERATED && passes(&failure.error);
                let seen = self.seen(want).filter(|seen| tolerated && matches!(seen, Look::At(_)));
                (Some(seen.unwrap_or_else(|| Look::Failed(failure.error.clone()))), false)
            }
            _ => (self.seen(want).filter(|seen| any && matches!(seen, Look::At(_))), true),
        }
    }

    /// What the newest content means to a release that wants `want`.
    fn seen(&self, want: Option<&str>) -> Option<Look> {
        let current = self.known.current.clone()?;
        Some(match want {
            None => Look::At(current),
            Some(wanted) => Look::Failed(Error::DigestMismatch {
                url: String::new(),
                wanted: wanted.to_owned(),
                found: current,
            }),
        })
    }

    /// An attempt that began at `began` has ended now.
    pub(super) fn ended(&mut self, ended: Ended, began: Instant, now: Instant) -> Next {
        let mut next = match ended {
            Ended::Failed(error) => self.failed(error, began, now),
            Ended::Unchanged => self.looked(None, began),
            Ended::Fetched { digest, validators } => self.looked(Some((digest, validators)), began),
        };
        if self.hint.is_some_and(|(at, _)| at > began) {
            next.again = Some(Duration::ZERO);
        }
        next
    }

    fn looked(&mut self, gave: Option<(String, Validators)>, began: Instant) -> Next {
        let mut changed = self.failure.take().is_some();
        if let Some((digest, validators)) = gave {
            if self.known.current.as_deref() != Some(digest.as_str()) {
                changed = true;
                self.in_vain = 0;
            }
            self.known.gave(&digest, validators);
        }
        if self.known.current.is_none() {
            // Nothing has changed, but meanwhile the archive was lost.
            return Next { wake: Vec::new(), again: Some(Duration::ZERO), news: false };
        }
        self.looked_at = Some(began);
        let again = self.unsatisfied().then(|| {
            self.in_vain = self.in_vain.saturating_add(1);
            backoff::retry(self.in_vain)
        });
        Next { wake: self.wake(changed), again, news: false }
    }

    fn failed(&mut self, error: Error, began: Instant, now: Instant) -> Next {
        let before = self.failure.take();
        let news = before.as_ref().is_none_or(|before| !before.error.is_like(&error));
        let count = before.map_or(1, |before| before.count.saturating_add(1));
        let wait = if error.class() == Class::Retry { backoff::error(count) } else { backoff::retry(count) };
        let pause = error.pause();
        let until = pause.and_then(|pause| now.checked_add(pause));
        let wait = wait.max(pause.unwrap_or_default());
        self.failure = Some(Failure { error, began, until, count });
        Next { wake: self.wake(news || count == TOLERATED), again: Some(wait), news }
    }

    /// A release has no use for what is there, and it may be mended.
    pub(super) fn unsatisfied(&self) -> bool {
        let current = self.known.current.as_deref();
        self.users.values().any(|user| match &user.want {
            Some(want) if !self.known.given.contains(want) => true,
            _ => user.rejected.is_some() && user.rejected.as_deref() == current,
        })
    }

    fn wake(&self, all: bool) -> Vec<ReleaseKey> {
        let wanted = |user: &User| all || user.waiting.is_some();
        self.users.iter().filter(|(_, user)| wanted(user)).map(|(release, _)| release.clone()).collect()
    }

    /// The archive is not at hand any more.
    pub(super) fn lost(&mut self, digest: &str) {
        if self.known.current.as_deref() == Some(digest) {
            self.looked_at = None;
        }
        self.known.forget(digest);
    }

    /// The archive is no pack, says a release.
    pub(super) fn rejected(&mut self, release: &ReleaseKey, digest: &str) {
        if let Some(user) = self.users.get_mut(release) {
            user.rejected = Some(digest.to_owned());
        }
    }
}

/// Trouble that may be over soon. A pack is signed a moment after it was pushed.
fn passes(error: &Error) -> bool {
    error.class() == Class::Retry || matches!(error, Error::Signature { .. })
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
