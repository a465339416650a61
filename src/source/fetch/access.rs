//! With what a source is looked at.

use std::sync::Arc;

use crate::source::http::Credentials;
use crate::source::signature::Keys;

/// With what a source is looked at.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub credentials: Arc<Credentials>,
    /// One of them has to have signed what is taken.
    pub keys: Option<Arc<Keys>>,
}
