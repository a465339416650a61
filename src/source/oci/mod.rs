//! Packs and charts in OCI registries: the pull side of the distribution specification, by [`Client`](super::http::Client).
//!
//! A reference is resolved to the digest of a manifest, and everything is fetched by digests from there on. The manifest's
//! types decide what is a pack or a chart. Invariants: bytes are only given out under the digest that was asked for, and
//! credentials go to the registry and to the token server that it names, never from HTTPS to HTTP.

mod artifact;
mod challenge;
mod docker_config;
mod manifest;
mod pull;
mod signatures;
mod tokens;

pub use artifact::{Artifact, Wanted};
pub use docker_config::credentials;
pub(in crate::source) use pull::pull;
pub(in crate::source) use tokens::Tokens;
