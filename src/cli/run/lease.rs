//! Whether and how the process is elected.

use std::time::Duration;

use clap::builder::BoolishValueParser;

use crate::api::duration;
use crate::operator;
use crate::operator::lease::Timing;

#[derive(Debug, clap::Args)]
#[group(id = "lease")]
pub(super) struct Flags {
    /// Act only while holding the leader lease, for several replicas of which one acts
    ///
    /// The Lease is in the operator's namespace and named sherpack-operator, with the watched namespace and a digest of the
    /// label selector behind it if there are such. A process that loses it ends with an error and has to be started again.
    #[arg(long, env = "SHERPACK_LEADER_ELECT", value_parser = BoolishValueParser::new())]
    leader_elect: bool,

    /// How long the others leave a lease alone that its holder does not renew
    #[arg(long, env = "SHERPACK_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION", default_value = "15s", value_parser = duration::parse)]
    leader_elect_lease_duration: Duration,

    /// How long the holder acts without a renewal; together with the request timeout less than the lease duration
    #[arg(long, env = "SHERPACK_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    leader_elect_renew_deadline: Duration,

    /// Between two renewals, and between two tries to get the lease
    #[arg(long, env = "SHERPACK_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    leader_elect_retry_period: Duration,

    /// What one request for the lease may take
    #[arg(long, env = "SHERPACK_LEADER_ELECT_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "4s", value_parser = duration::parse)]
    leader_elect_request_timeout: Duration,
}

impl Flags {
    /// `None`: the process acts without a lease.
    ///
    /// # Errors
    /// Times that do not go together. They are checked even when the election is off: a user who turns it on later shall not be
    /// surprised.
    pub(super) fn timing(self) -> Result<Option<Timing>, operator::Error> {
        let Self {
            leader_elect,
            leader_elect_lease_duration,
            leader_elect_renew_deadline,
            leader_elect_retry_period,
            leader_elect_request_timeout,
        } = self;
        let timing = Timing::new(
            leader_elect_lease_duration,
            leader_elect_renew_deadline,
            leader_elect_retry_period,
            leader_elect_request_timeout,
        )?;
        Ok(leader_elect.then_some(timing))
    }
}
