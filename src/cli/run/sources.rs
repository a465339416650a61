//! From where packs are fetched, and what is kept of them.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;

use super::values::size;
use crate::api::Tenancy;
use crate::cluster::client::Proxies;
use crate::source::http::{Allowed, Options};

#[derive(Debug, clap::Args)]
#[group(id = "sources")]
pub(super) struct Flags {
    /// Fetch packs from this host whatever its address is, and tell in full why one cannot be had; repeatable
    ///
    /// Behind a proxy, the proxy is told the name of such a host and not the address that was checked, so also one that
    /// only the proxy can resolve is found. Probes ask such an address, too.
    #[arg(long, env = "SHERPACK_ALLOW_SOURCE", value_name = "HOST[:PORT]", value_delimiter = ',')]
    allow_source: Vec<Allowed>,

    /// Fetch no packs from private addresses and from Services of the cluster, unless --allow-source names the host
    /// [default: true with --tenancy=multi, else false]
    #[arg(long, env = "SHERPACK_DENY_PRIVATE_SOURCES", value_name = "BOOL", value_parser = BoolishValueParser::new(), num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    deny_private_sources: Option<bool>,

    /// Where Flux's source-controller serves artifacts
    ///
    /// Artifacts of Flux sources are fetched from this host whatever its address is. Where private sources are denied, they are
    /// fetched from no other one, unless --allow-source names it.
    #[arg(
        long,
        env = "SHERPACK_SOURCE_CONTROLLER",
        value_name = "HOST[:PORT]",
        default_value = "source-controller.flux-system.svc.cluster.local"
    )]
    source_controller: Allowed,

    /// Directory for fetched packs [default: sherpack-operator in the directory for temporary files]
    ///
    /// It may be lost at any time, which costs fetches, and shared by several processes of one user. When it cannot be
    /// written, fetched packs are kept in memory.
    #[arg(long, env = "SHERPACK_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// What fetched packs may take in that directory, at least 32Mi
    #[arg(long, env = "SHERPACK_CACHE_SIZE", value_name = "SIZE", default_value = "256Mi", value_parser = cache_size)]
    cache_size: u64,
}

impl Flags {
    pub(super) fn options(self, tenancy: Tenancy, proxies: Proxies) -> Options {
        let Self { allow_source, deny_private_sources, source_controller, cache_dir, cache_size } = self;
        Options {
            allow: allow_source,
            source_controller: Some(source_controller),
            deny_private: deny_private_sources.unwrap_or(tenancy == Tenancy::Multi),
            // The API server tells.
            services: Vec::new(),
            proxies,
            cache_dir: Some(cache_dir.unwrap_or_else(|| std::env::temp_dir().join("sherpack-operator"))),
            cache_bytes: cache_size,
        }
    }
}

/// Room for a few of the largest packs.
const CACHE_MIN: u64 = 32 << 20;

fn cache_size(text: &str) -> Result<u64, String> {
    size(text, CACHE_MIN)
}
