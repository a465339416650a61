//! A pack archive behind a URL.
//!
//! [`StatusClient`] asks a pod for a status only; addresses are judged as those of sources.
//! [`Client`] makes one bounded request. Invariants: nothing is fetched from an address that only the operator can
//! reach, unless its administrator allows the host, also not by a proxy; of a private address nothing is told but whether it
//! gave an archive; and credentials go to their own host alone.

mod address;
mod client;
mod credentials;
mod fair;
mod proxy;
mod resolve;
mod status;
mod tls;
mod url;
mod walls;

use std::path::PathBuf;

pub use super::validators::Validators;
pub use crate::cluster::client::Proxies;
pub use address::Allowed;
pub use client::{Answer, Client, Timing};
pub(in crate::source) use client::{Call, HTTP_SECRET, Reply, Sent, withhold};
pub use credentials::Credentials;
pub(in crate::source) use credentials::basic;
pub use fair::{Fair, Permit};
pub use status::{StatusClient, StatusError};
pub use url::Url;
pub use walls::Network;

/// What an operator is told about fetching.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Hosts that may be fetched from whatever their address is, and of which everything is told.
    pub allow: Vec<Allowed>,
    /// Where Flux's source-controller serves artifacts: allowed for these alone.
    pub source_controller: Option<Allowed>,
    /// Whether private addresses and Services of the cluster are refused.
    pub deny_private: bool,
    /// Where Services have their addresses. Not all clusters take private ones for them.
    pub services: Vec<Network>,
    pub proxies: Proxies,
    /// Where fetched archives are kept; `None`: in memory only.
    pub cache_dir: Option<PathBuf>,
    /// What they may take there, in bytes.
    pub cache_bytes: u64,
}
