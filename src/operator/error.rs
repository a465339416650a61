//! What ends the operator process.

use std::net::SocketAddr;

use super::lease::TimingError;
use crate::api::Class;

/// Why the operator could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A signal handler or another thing of the operating system was refused.
    #[error("the operating system refused {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
    /// The address of the health server or of the metrics.
    #[error("cannot listen on {address}: {source}; choose another address with {flag}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// The flag that chooses it.
        flag: &'static str,
        /// The answer of the operating system.
        source: std::io::Error,
    },
    /// The certificate of the metrics.
    #[error("the metrics cannot be served over https: {0}; see --metrics-cert-dir in --help")]
    Certificate(String),
    /// The directory with the tokens of webhooks.
    #[error("webhooks cannot be received: {0}; see --webhook-tokens in --help")]
    WebhookTokens(String),
    /// The metrics registry refuses a metric.
    #[error("cannot set up the metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// No usable kubeconfig, and not in a pod.
    #[error(
        "no usable cluster configuration (--kubeconfig, --context, KUBECONFIG, ~/.kube/config or a pod's service account)"
    )]
    NoCluster(#[source] Box<kube::Error>),
    /// A configuration was found, and the API server does not answer or does not let us in.
    #[error("cannot talk to the API server at {url}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What happened.
        #[source]
        source: Box<kube::Error>,
    },
    /// The durations of the leader lease do not fit together.
    #[error("{0}; see --leader-elect-lease-duration and the flags that follow it in --help")]
    LeaseTiming(#[from] TimingError),
    /// The leader lease could not be renewed in time, or another process has it. What this process knows may be
    /// out of date, so it must not go on.
    #[error("the leader lease was lost; a new process stands by for it")]
    LeaseLost,
    /// A part did not end in time after the signal.
    #[error("not everything ended within {seconds} s of the signal")]
    ShutdownOverdue {
        /// How long was waited.
        seconds: u64,
    },
}

impl Error {
    /// Who must act.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::System { .. }
            | Self::Unreachable { .. }
            | Self::LeaseLost
            | Self::ShutdownOverdue { .. } => Class::Retry,
            Self::Listen { .. }
            | Self::Certificate(_)
            | Self::WebhookTokens(_)
            | Self::Metrics(_)
            | Self::NoCluster(_)
            | Self::LeaseTiming(_) => Class::FixCluster,
        }
    }

    /// The stable name of the error.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::System { .. } => "SystemRefused",
            Self::Listen { .. } => "ListenFailed",
            Self::Certificate(_) => "CertificateInvalid",
            Self::WebhookTokens(_) => "WebhookTokensUnreadable",
            Self::Metrics(_) => "MetricsFailed",
            Self::NoCluster(_) => "NoCluster",
            Self::Unreachable { .. } => "ApiServerUnreachable",
            Self::LeaseTiming(_) => "LeaseTimingInvalid",
            Self::LeaseLost => "LeaseLost",
            Self::ShutdownOverdue { .. } => "ShutdownOverdue",
        }
    }
}
