//! Service accounts as whom releases act.

use std::fmt;

use http::header::HeaderValue;

/// A service account. `Display`: `apps/deployer`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    pub namespace: String,
    pub name: String,
}

impl Account {
    /// The name by which the API server knows its requests; `None` when no account can have this name.
    #[must_use]
    pub(super) fn user(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("system:serviceaccount:{}:{}", self.namespace, self.name)).ok()
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
