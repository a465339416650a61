//! Until when this process may act, asked before each request by the client's guard.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::election::Uptime;
use crate::cluster::client::Permission;

/// Time since the machine started, suspends included: a process that sleeps with its machine wakes up late and knows.
///
/// A guest that its hypervisor stops and wakes is told nothing; the versions that every record write carries stop it.
pub(super) fn uptime() -> Uptime {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    // On macOS, where this is developed, the monotonic clock counts sleep.
    #[cfg(not(target_os = "linux"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(CLOCK);
    // Neither is negative for these clocks.
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Shared between the lease and the client.
#[derive(Debug, Default)]
pub(super) struct Validity {
    /// Nanoseconds of [`uptime`]; 0: not held.
    until: AtomicU64,
    closing: AtomicBool,
}

impl Validity {
    /// Held until then; `None`: not at all.
    pub(super) fn set(&self, until: Option<Uptime>) {
        let nanos = until.map_or(0, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        self.until.store(nanos, Ordering::SeqCst);
    }

    /// Nothing new may begin; what was sent is still awaited.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    fn holds(&self, now: Uptime) -> bool {
        now < Duration::from_nanos(self.until.load(Ordering::SeqCst))
    }
}

impl Permission for Validity {
    fn may_begin(&self) -> bool {
        !self.closing.load(Ordering::SeqCst) && self.holds(uptime())
    }

    fn may_go_on(&self) -> bool {
        self.holds(uptime())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_ends_with_the_lease_and_nothing_begins_while_closing() {
        let validity = Validity::default();
        assert!(!validity.may_begin() && !validity.may_go_on());
        let now = uptime();
        validity.set(Some(now + Duration::from_secs(60)));
        assert!(validity.may_begin() && validity.may_go_on());
        assert!(validity.holds(now + Duration::from_secs(59)));
        assert!(!validity.holds(now + Duration::from_secs(60)));
        validity.close();
        assert!(!validity.may_begin() && validity.may_go_on());
        validity.set(None);
        assert!(!validity.may_go_on());
    }

    #[test]
    fn the_clock_runs() {
        let before = uptime();
        std::thread::sleep(Duration::from_millis(2));
        let passed = uptime() - before;
        assert!(passed >= Duration::from_millis(2) && passed < Duration::from_secs(60), "{passed:?}");
    }
}
