//! How long a release that is being deleted lets its dependents go first.
//!
//! It waits for releases that depend on it and are being deleted too, until each of them is gone, is not deleted
//! together with its objects any more, or does not depend on it any more. It does not wait for ever: when for the time
//! of its own `uninstall.timeout` nothing of that happens, it goes on. That time begins when none of them waits for
//! dependents of its own any more, so one that hangs does not bring a whole chain out of order.
//!
//! A user who deletes several releases deletes one after the other, so one that has dependents gives them a moment to
//! be deleted as well.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::ReleaseKey;
use super::depends::Dependents;

/// How long a release with dependents that are not being deleted looks whether a user deletes them.
pub const GRACE: Duration = Duration::from_secs(2);

/// A wait between two passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// When it began.
    pub began: Timestamp,
    /// When those that are waited for were last other ones.
    since: Timestamp,
    going: BTreeMap<ReleaseKey, Option<Timestamp>>,
}

/// What to do about the dependents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No release is waited for.
    Now,
    /// These have not gone in time.
    Late(Vec<ReleaseKey>),
    /// Wait, at most until then.
    Wait { awaited: Awaited, until: Timestamp },
}

impl Awaited {
    /// The releases that are waited for.
    pub fn releases(&self) -> impl Iterator<Item = &ReleaseKey> {
        self.going.keys()
    }
}

/// Whether it is the turn of a release whose dependents are `dependents`. `before`: its wait as of the last pass.
#[must_use]
pub fn turn(before: Option<Awaited>, dependents: Dependents, timeout: Duration, now: Timestamp) -> Turn {
    let Dependents { going, living } = dependents;
    let began = before.as_ref().map_or(now, |before| before.began);
    if going.is_empty() {
        let until = after(began, GRACE);
        if !living || now >= until {
            return Turn::Now;
        }
        return Turn::Wait { awaited: Awaited { began, since: now, going }, until };
    }
    let since = before.filter(|before| before.going == going).map_or(now, |before| before.since);
    let last = going.values().flatten().copied().fold(since, Timestamp::max);
    let until = after(last, timeout);
    if now >= until {
        return Turn::Late(going.into_keys().collect());
    }
    Turn::Wait { awaited: Awaited { began, since, going }, until }
}

fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(300);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() }
    }

    fn going(of: &[(&str, Option<i64>)]) -> Dependents {
        let going = of.iter().map(|(name, until)| (key(name), until.map(at))).collect();
        Dependents { going, living: false }
    }

    #[track_caller]
    fn waits(turn: Turn, seconds: i64) -> Option<Awaited> {
        match turn {
            Turn::Wait { awaited, until } => {
                assert_eq!(until, at(seconds));
                Some(awaited)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_dependents_it_goes_at_once() {
        assert_eq!(turn(None, Dependents::default(), TIMEOUT, at(0)), Turn::Now);
    }

    #[test]
    fn living_dependents_get_a_moment_to_be_deleted_too_and_then_hold_nothing() {
        let living = || Dependents { living: true, ..Dependents::default() };
        let wait = waits(turn(None, living(), TIMEOUT, at(0)), 2);
        let wait = waits(turn(wait, living(), TIMEOUT, at(1)), 2);
        assert_eq!(turn(wait.clone(), living(), TIMEOUT, at(2)), Turn::Now);
        // Deleted meanwhile: waited for.
        let wait = waits(turn(wait, going(&[("web", None)]), TIMEOUT, at(1)), 301);
        assert_eq!(turn(wait, living(), TIMEOUT, at(50)), Turn::Now);
    }

    #[test]
    fn time_runs_from_the_last_change_and_then_it_goes_on_without_them() {
        let both = || going(&[("api", None), ("web", None)]);
        let wait = waits(turn(None, both(), TIMEOUT, at(0)), 300);
        let wait = waits(turn(wait, both(), TIMEOUT, at(200)), 300);
        let wait = waits(turn(wait, going(&[("web", None)]), TIMEOUT, at(250)), 550);
        assert_eq!(turn(wait, going(&[("web", None)]), TIMEOUT, at(550)), Turn::Late(vec![key("web")]));
    }

    #[test]
    fn one_that_waits_for_its_own_dependents_has_its_time_afterwards() {
        let waiting = || going(&[("web", Some(400))]);
        let wait = waits(turn(None, waiting(), TIMEOUT, at(0)), 700);
        let wait = waits(turn(wait, waiting(), TIMEOUT, at(399)), 700);
        let wait = waits(turn(wait, going(&[("web", None)]), TIMEOUT, at(400)), 700);
        assert_eq!(turn(wait, going(&[("web", None)]), TIMEOUT, at(700)), Turn::Late(vec![key("web")]));
    }

    #[test]
    fn a_time_that_has_no_end_does_no_harm() {
        let wait = turn(None, going(&[("web", None)]), Duration::MAX, at(0));
        assert!(matches!(wait, Turn::Wait { until, .. } if until == Timestamp::MAX), "{wait:?}");
    }
}
