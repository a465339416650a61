//! How long a lease lasts and how often it is renewed.

use std::time::Duration;

use crate::api::duration::format;

/// The durations of the leader lease, known to fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    request_timeout: Duration,
}

/// Durations with which two processes might act at once, or the leader would lose its lease for no reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    #[error(
        "the renew deadline ({}) and the request timeout ({}) of the leader lease must together be shorter than its \
         duration ({}): what was sent in the last moment needs time to arrive before another process may act",
        format(*.renew_deadline), format(*.request_timeout), format(*.lease_duration)
    )]
    NoMargin { renew_deadline: Duration, request_timeout: Duration, lease_duration: Duration },
    #[error(
        "the retry period ({}) of the leader lease must be shorter than its renew deadline ({}), and neither may be 0",
        format(*.retry_period), format(*.renew_deadline)
    )]
    NoRetry { retry_period: Duration, renew_deadline: Duration },
    #[error("the request timeout of the leader lease must not be 0")]
    NoTimeout,
    #[error("the duration of the leader lease ({}) must be at most 1h", format(*.lease_duration))]
    TooLong { lease_duration: Duration },
}

impl Timing {
    /// Checks that the durations fit together.
    ///
    /// # Errors
    /// They do not.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
        request_timeout: Duration,
    ) -> Result<Self, TimingError> {
        if request_timeout.is_zero() {
            return Err(TimingError::NoTimeout);
        }
        if retry_period.is_zero() || retry_period >= renew_deadline {
            return Err(TimingError::NoRetry { retry_period, renew_deadline });
        }
        if renew_deadline.saturating_add(request_timeout) >= lease_duration {
            return Err(TimingError::NoMargin { renew_deadline, request_timeout, lease_duration });
        }
        if lease_duration > Duration::from_secs(3600) {
            return Err(TimingError::TooLong { lease_duration });
        }
        Ok(Self { lease_duration, renew_deadline, retry_period, request_timeout })
    }

    /// How long the others leave a lease alone that they do not see renewed.
    #[must_use]
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How long the holder acts without a renewal, counted from before the last one was sent.
    #[must_use]
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// Between two renewals, and between two tries.
    #[must_use]
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// What one request for the lease may take.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.request_timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(seconds: [u64; 4]) -> Result<Timing, TimingError> {
        let [lease, renew, retry, request] = seconds.map(Duration::from_secs);
        Timing::new(lease, renew, retry, request)
    }

    #[test]
    fn durations_that_do_not_fit_together_are_refused() {
        timing([15, 10, 2, 4]).unwrap();
        timing([3600, 10, 2, 4]).unwrap();
        for (wrong, says) in [
            ([15, 10, 2, 5], "renew deadline (10s) and the request timeout (5s)"),
            ([15, 15, 2, 1], "shorter than its duration (15s)"),
            ([15, 2, 2, 4], "retry period (2s)"),
            ([15, 10, 0, 4], "retry period (0s)"),
            ([15, 10, 2, 0], "request timeout"),
            ([3601, 10, 2, 4], "at most 1h"),
        ] {
            let error = timing(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{wrong:?}: {error}");
        }
    }
}
