//! What tells one content of a source from the next.

/// What a server gave to tell one content from the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Validators {
    /// `ETag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// `Last-Modified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Of what these are, where a source has several: one URL of many, or the digest in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}
