//! Where webhooks are received.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::operator::config::Webhook;

#[derive(Debug, clap::Args)]
#[group(id = "webhook")]
pub(super) struct Flags {
    /// Address of `POST /hook/TOKEN`, which has sources of packs looked at before their interval is over; port 0 takes a free
    /// one and logs it [default: webhooks are not received]
    #[arg(long, env = "SHERPACK_WEBHOOK_LISTEN", value_name = "ADDRESS:PORT", requires = "webhook_tokens")]
    webhook_listen: Option<SocketAddr>,

    /// Directory with the tokens of webhooks, as a Secret is mounted: each file is the token for the releases of the namespace
    /// that it is called after, and `_all` the one for all. Files may be replaced at any time
    #[arg(long, env = "SHERPACK_WEBHOOK_TOKENS", value_name = "DIR")]
    webhook_tokens: Option<PathBuf>,
}

impl Flags {
    pub(super) fn config(self) -> Option<Webhook> {
        Some(Webhook { listen: self.webhook_listen?, tokens: self.webhook_tokens? })
    }
}
