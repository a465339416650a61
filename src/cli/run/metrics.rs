//! Who may read the metrics, and where.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::operator::config::MetricsAuth;

#[derive(Debug, clap::Args)]
#[group(id = "metrics")]
pub(super) struct Flags {
    /// none: anyone may read /metrics, beside /livez. token: over https at --metrics-listen, for clients with a bearer token
    /// that the API server knows (TokenReview) and allows to get /metrics (SubjectAccessReview)
    #[arg(long, env = "SHERPACK_METRICS_AUTH", value_enum, default_value = "none")]
    metrics_auth: Auth,

    /// Address of /metrics with --metrics-auth=token; port 0 takes a free one and logs it
    #[arg(
        long,
        env = "SHERPACK_METRICS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:8443"
    )]
    metrics_listen: SocketAddr,

    /// Directory with the certificate of /metrics, tls.crt and tls.key, which may be replaced at any time [default: one that
    /// is made at the start and self-signed]
    #[arg(long, env = "SHERPACK_METRICS_CERT_DIR", value_name = "DIR")]
    metrics_cert_dir: Option<PathBuf>,
}

impl Flags {
    pub(super) fn auth(self) -> MetricsAuth {
        let Self { metrics_auth, metrics_listen, metrics_cert_dir } = self;
        match metrics_auth {
            Auth::None => MetricsAuth::None,
            Auth::Token => MetricsAuth::Token { listen: metrics_listen, certificates: metrics_cert_dir },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Auth {
    None,
    Token,
}
