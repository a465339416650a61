//! A pack archive behind a URL.
//!
//! [`StatusClient`] asks a pod for a status only; addresses are judged as those of sources.
//! [`Client`] makes one bounded GET; [`Fetcher`] decides when one is made, keeps at most one under way for each source,
//! and wakes the releases that wait for it. Invariant: nothing is fetched from an address that only the operator can
//! reach, unless its administrator allows the host; and credentials go to their own host alone.

mod address;
mod client;
mod connect;
mod credentials;
mod fair;
mod fetcher;
mod proxy;
mod resolve;
mod state;
mod status;
mod tls;
mod url;

use std::path::PathBuf;

pub use address::Allowed;
pub use client::{Answer, Client, Timing, Validators};
pub use credentials::Credentials;
pub use fair::{Fair, Permit};
pub use fetcher::{Fetcher, OnFetch};
pub use proxy::Proxies;
pub use state::{Ask, Look, SourceId};
pub use status::{StatusClient, StatusError};
pub use url::Url;

/// What an operator is told about fetching.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Hosts that may be fetched from whatever their address is.
    pub allow: Vec<Allowed>,
    pub proxies: Proxies,
    /// Where fetched archives are kept; `None`: in memory only.
    pub cache_dir: Option<PathBuf>,
    /// What they may take there, in bytes.
    pub cache_bytes: u64,
}
