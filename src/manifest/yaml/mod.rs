//! YAML in the habits of Kubernetes: read as `kubectl` reads it, written so that every reader agrees.

mod emit;
mod parse;

pub use emit::{join, to_yaml};
pub use parse::{parse_documents, parse_lenient, parse_value};

#[cfg(test)]
mod roundtrip;
