//! How long to wait: after a failed attempt, and between reverts of one object that another manager keeps changing.

use std::time::Duration;

use jiff::Timestamp;

/// The first wait after a failed attempt.
const RETRY_FIRST: Duration = Duration::from_secs(5);
/// No retry within the allowed number waits longer than this.
const RETRY_CAP: Duration = Duration::from_mins(5);
/// The first wait once the allowed retries are spent.
const SLOW_FIRST: Duration = Duration::from_mins(10);
/// A release is never given up: it is tried again at least this often.
const SLOW_CAP: Duration = Duration::from_hours(1);

/// The wait before the next attempt, after `attempts` (at least one) have failed: 5 s, doubled, at most 5 min.
#[must_use]
pub fn retry(attempts: u32) -> Duration {
    doubled(RETRY_FIRST, attempts, RETRY_CAP)
}

/// The wait once retries are spent, after `over` (at least one) attempts beyond them: 10 min, doubled, at most 1 h.
#[must_use]
pub fn slow(over: u32) -> Duration {
    doubled(SLOW_FIRST, over, SLOW_CAP)
}

/// What stands in the way of a pass is looked at again at least this often.
const ERROR_CAP: Duration = Duration::from_mins(1);

/// The wait after `errors` passes in a row (at least one) that ended before any record: 1 s, doubled, at most 1 min.
#[must_use]
pub fn error(errors: u32) -> Duration {
    doubled(Duration::from_secs(1), errors, ERROR_CAP)
}

/// The wait before an object is looked into again that differed at `looks` looks (at least one) in a row and that
/// nothing puts back: 2 s, doubled, at most 1 min.
#[must_use]
pub fn look(looks: u32) -> Duration {
    doubled(Duration::from_secs(2), looks, Duration::from_mins(1))
}

/// The wait before objects are looked for again that were still there at `looks` looks (at least one): 1 s, doubled,
/// at most 15 s.
#[must_use]
pub fn going(looks: u32) -> Duration {
    doubled(Duration::from_secs(1), looks, Duration::from_secs(15))
}

fn doubled(first: Duration, times: u32, cap: Duration) -> Duration {
    let factor = 2_u32.checked_pow(times.saturating_sub(1)).unwrap_or(u32::MAX);
    first.checked_mul(factor).map_or(cap, |delay| delay.min(cap))
}

/// Reverts of one object that go through at once before the waits start.
const HEAT_FREE: u32 = 3;
const HEAT_FIRST: Duration = Duration::from_secs(2);
const HEAT_FACTOR: u32 = 3;
const HEAT_CAP: Duration = Duration::from_mins(5);
/// An object that no other manager touched for this long, and for twice its own wait, is cold again.
const HEAT_QUIET: Duration = Duration::from_mins(1);

/// How often one object was put back lately.
///
/// The first three reverts are immediate, so that a person who edits twice sees both put back at once;
/// after that the waits are 2 s, 6 s, 18 s … up to 300 s, which is what ends a fight with another controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    reverts: u32,
    last: Option<Timestamp>,
}

impl Heat {
    /// When the next revert may be made; `None`: now.
    #[must_use]
    pub fn wait_until(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.last?;
        if self.cold(now) {
            return None;
        }
        let until = last.checked_add(self.delay()).unwrap_or(Timestamp::MAX);
        (until > now).then_some(until)
    }

    /// Takes note of a revert made at `now`.
    pub fn reverted(&mut self, now: Timestamp) {
        if self.cold(now) {
            self.reverts = 0;
        }
        self.reverts = self.reverts.saturating_add(1);
        self.last = Some(now);
    }

    /// Another manager keeps changing this object: reverts of it are being delayed.
    #[must_use]
    pub fn contended(&self, now: Timestamp) -> bool {
        !self.cold(now) && self.reverts > HEAT_FREE
    }

    /// When `contended` ends if no other manager touches the object again.
    #[must_use]
    pub fn cold_at(&self) -> Option<Timestamp> {
        let quiet = HEAT_QUIET.max(self.delay().saturating_mul(2));
        Some(self.last?.checked_add(quiet).unwrap_or(Timestamp::MAX))
    }

    fn cold(&self, now: Timestamp) -> bool {
        self.cold_at().is_none_or(|at| now >= at)
    }

    fn delay(&self) -> Duration {
        let Some(step) = self.reverts.checked_sub(HEAT_FREE) else { return Duration::ZERO };
        let factor = HEAT_FACTOR.checked_pow(step).unwrap_or(u32::MAX);
        HEAT_FIRST.checked_mul(factor).map_or(HEAT_CAP, |delay| delay.min(HEAT_CAP))
    }
}

/// An object that is written often without differing from its manifest: it is looked at less often while that goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    alarms: u32,
    last: Option<Timestamp>,
}

/// So many false alarms are looked into at once.
const ALARMS_FREE: u32 = 5;
/// However noisy an object is, it is looked at this often.
const ALARM_CAP: Duration = Duration::from_secs(10);
/// After this time without any, the count begins anew.
const ALARM_QUIET: Duration = Duration::from_mins(1);

impl Noise {
    /// Takes note of a false alarm.
    pub fn alarm(&mut self, now: Timestamp) {
        let over = |last: Timestamp| last.checked_add(ALARM_QUIET).is_ok_and(|over| over <= now);
        if self.last.is_some_and(over) {
            self.alarms = 0;
        }
        self.alarms = self.alarms.saturating_add(1);
        self.last = Some(now);
    }

    /// When the object may be looked at again; `None`: now.
    #[must_use]
    pub fn wait_until(&self, now: Timestamp) -> Option<Timestamp> {
        let over = self.alarms.checked_sub(ALARMS_FREE)?;
        let wait = look(over.saturating_add(1)).min(ALARM_CAP);
        self.last?.checked_add(wait).ok().filter(|at| now < *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn retries_double_up_to_the_cap() {
        let waits: Vec<u64> = [1, 2, 3, 7, 40].map(|n| retry(n).as_secs()).to_vec();
        assert_eq!(waits, [5, 10, 20, 300, 300]);
        assert_eq!([1, 2, 6, 99].map(|n| look(n).as_secs()), [2, 4, 60, 60]);
        assert_eq!([1, 2, 5, 99].map(|n| going(n).as_secs()), [1, 2, 15, 15]);
        assert_eq!(slow(1).as_secs(), 600);
        assert_eq!(slow(99).as_secs(), 3600);
    }

    #[test]
    fn the_first_three_reverts_are_immediate_and_then_the_waits_triple() {
        let mut heat = Heat::default();
        let mut now = at(1000);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let until = heat.wait_until(now).unwrap_or(now);
            waits.push(until.duration_since(now).as_secs());
            now = until;
            heat.reverted(now);
        }
        assert_eq!(waits, [0, 0, 0, 2, 6, 18, 54, 162, 300]);
        assert!(heat.contended(now));
    }

    #[test]
    fn a_quiet_object_is_cold_again() {
        let mut heat = Heat::default();
        for _ in 0..4 {
            heat.reverted(at(1000));
        }
        assert!(heat.contended(at(1001)));
        assert_eq!(heat.wait_until(at(1001)), Some(at(1006)));
        assert!(!heat.contended(at(1061)));
        assert_eq!(heat.wait_until(at(1061)), None);
        heat.reverted(at(1061));
        assert!(!heat.contended(at(1062)));
    }

    #[test]
    fn noise_is_looked_into_less_often_and_never_ignored() {
        let mut noise = Noise::default();
        let mut now = at(1000);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let until = noise.wait_until(now).unwrap_or(now);
            waits.push(until.duration_since(now).as_secs());
            now = until;
            noise.alarm(now);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 2, 4, 8, 10]);
        noise.alarm(at(2000));
        assert_eq!(noise.wait_until(at(2000)), None);
    }
}
