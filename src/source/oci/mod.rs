//! Packs and charts in OCI registries, by [`Client`](super::http::Client) and the distribution specification. The operator pulls; the
//! command line pushes as well.
//!
//! A reference is resolved to the digest of a manifest, and everything is fetched by digests from there on. The manifest's
//! types decide what is a pack or a chart. Invariants: bytes are only given out under the digest that was asked for, and
//! credentials go to the registry and to the token server that it names, never from HTTPS to HTTP.

mod artifact;
mod challenge;
mod command;
mod docker_config;
mod manifest;
mod pull;
mod push;
mod reference;
mod signatures;
mod tokens;

pub use artifact::{Artifact, Wanted};
pub use command::{Pulled, archive, tags};
pub use docker_config::{Stored, credentials, of_helper, stored};
pub use manifest::Content;
pub(in crate::source) use pull::pull;
pub use push::{Pushed, push};
pub use reference::{Reference, is_tag, tag_of_version};
pub(in crate::source) use tokens::Tokens;
