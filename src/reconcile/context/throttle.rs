//! While much is going on, reports about it wait: status and Events of a thousand releases would take from the work itself what
//! the API server has to give.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// So long nothing was put back.
const CALM: Duration = Duration::from_secs(1);
/// However long a storm lasts, a report waits no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// An operation shorter than this writes its status once, at its end.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// So much longer for every other operation that has not told of itself yet: they write at most twenty such statuses a second. That
/// is less than what ends meanwhile, so most are over before they had to.
const EACH: Duration = Duration::from_millis(50);
const QUIET_AT_MOST: Duration = Duration::from_secs(30);

/// What goes on in all releases together.
#[derive(Debug)]
pub struct Calm {
    /// When any release last had something put back.
    reverted: AtomicI64,
    /// Operations that no status has told of.
    operations: Arc<AtomicU32>,
}

/// An operation is under way and not told of for as long as this lives.
#[derive(Debug)]
pub(in crate::reconcile) struct Busy(Arc<AtomicU32>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Calm {
    fn default() -> Self {
        Self { reverted: AtomicI64::new(i64::MIN), operations: Arc::default() }
    }
}

impl Calm {
    pub(in crate::reconcile) fn reverted(&self, now: Timestamp) {
        self.reverted.fetch_max(now.as_millisecond(), Ordering::Relaxed);
    }

    /// When a report that is due at `due` is made, of what is told of since `noted`.
    pub(in crate::reconcile) fn report_at(
        &self,
        due: Timestamp,
        noted: Timestamp,
        now: Timestamp,
    ) -> Timestamp {
        let later = |at: Timestamp, wait: Duration| at.checked_add(wait).unwrap_or(Timestamp::MAX);
        let last = Timestamp::from_millisecond(self.reverted.load(Ordering::Relaxed));
        match last.map(|last| later(last, CALM)) {
            Ok(calm) if due <= now && now < calm => calm.min(later(noted, PATIENCE)),
            _ => due,
        }
    }

    /// An operation begins.
    pub(in crate::reconcile) fn operation(&self) -> Busy {
        self.operations.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.operations))
    }

    /// How long an operation goes on before its status says so.
    pub(in crate::reconcile) fn quiet_for(&self) -> Duration {
        self.quiet_beside(0)
    }

    /// How long a release waits before its status says so, while so many wait in one queue.
    pub(in crate::reconcile) fn quiet_beside(&self, queued: usize) -> Duration {
        let operations = self.operations.load(Ordering::Relaxed).saturating_sub(1);
        let others = operations.saturating_add(u32::try_from(queued).unwrap_or(u32::MAX));
        EACH.saturating_mul(others).saturating_add(QUIET_FOR).min(QUIET_AT_MOST)
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

    #[test]
    fn the_more_operations_are_under_way_the_later_each_tells_of_itself() {
        let calm = Calm::default();
        assert_eq!(calm.quiet_for(), QUIET_FOR);
        let one = calm.operation();
        assert_eq!(calm.quiet_for(), QUIET_FOR);
        let hundred: Vec<Busy> = (0..100).map(|_| calm.operation()).collect();
        assert_eq!(calm.quiet_for(), Duration::from_secs(7));
        let thousands: Vec<Busy> = (0..2000).map(|_| calm.operation()).collect();
        assert_eq!(calm.quiet_for(), QUIET_AT_MOST);
        drop((one, hundred, thousands));
        assert_eq!(calm.quiet_for(), QUIET_FOR);
        assert_eq!(
            calm.quiet_beside(100),
            Duration::from_secs(7),
            "those that wait for a turn count as well"
        );
        assert_eq!(calm.quiet_beside(usize::MAX), QUIET_AT_MOST);
    }
}
