//! While objects are being put back anywhere, reports about it wait: in a storm of changes, the status and Events of a thousand
//! releases would take from the reverts what the API server has to give.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// So long nothing was put back.
const CALM: Duration = Duration::from_secs(1);
/// However long a storm lasts, a report waits no longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// When any release last had something put back.
#[derive(Debug)]
pub struct Calm(AtomicI64);

impl Default for Calm {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl Calm {
    pub(super) fn reverted(&self, now: Timestamp) {
        self.0.fetch_max(now.as_millisecond(), Ordering::Relaxed);
    }

    /// When a report that is due at `due` is made, of what is told of since `noted`.
    pub(super) fn report_at(&self, due: Timestamp, noted: Timestamp, now: Timestamp) -> Timestamp {
        let later = |at: Timestamp, wait: Duration| at.checked_add(wait).unwrap_or(Timestamp::MAX);
        let calm = Timestamp::from_millisecond(self.0.load(Ordering::Relaxed)).map(|last| later(last, CALM));
        match calm {
            Ok(calm) if due <= now && now < calm => calm.min(later(noted, PATIENCE)),
            _ => due,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: f64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + (second * 1000.0) as i64).unwrap()
    }

    #[test]
    fn a_report_waits_until_nothing_is_put_back_but_not_for_ever() {
        let calm = Calm::default();
        assert_eq!(calm.report_at(at(1.0), at(0.0), at(1.0)), at(1.0), "nothing was ever put back");
        calm.reverted(at(0.0));
        assert_eq!(calm.report_at(at(1.0), at(0.0), at(0.5)), at(1.0), "it is not due yet");
        assert_eq!(calm.report_at(at(1.0), at(0.0), at(1.0)), at(1.0), "nothing but what it tells of");
        calm.reverted(at(0.9));
        calm.reverted(at(0.7));
        assert_eq!(calm.report_at(at(1.0), at(0.0), at(1.0)), at(1.9));
        for tenth in 9..200 {
            calm.reverted(at(f64::from(tenth) / 10.0));
        }
        assert_eq!(calm.report_at(at(1.0), at(0.0), at(9.5)), at(10.0));
        assert!(calm.report_at(at(10.0), at(0.0), at(10.0)) <= at(10.0));
    }
}
