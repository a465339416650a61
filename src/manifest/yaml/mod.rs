//! YAML in the habits of Kubernetes: read as `kubectl` reads it, written so that every reader agrees.

mod direct;
mod emit;
mod limits;
mod parse;

pub(crate) use direct::is_null;
pub use emit::{join, to_yaml};
pub use parse::{parse_documents, parse_lenient, parse_value};

#[cfg(test)]
mod differential;
#[cfg(test)]
mod roundtrip;
