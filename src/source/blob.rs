//! A content of a registry.

use oci_spec::image::Descriptor;

/// A content by its digest, of so many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub digest: String,
    pub size: u64,
}

impl From<&Descriptor> for Blob {
    fn from(of: &Descriptor) -> Self {
        Self { digest: of.digest().to_string(), size: of.size() }
    }
}
