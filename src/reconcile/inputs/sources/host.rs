//! The host that a release takes its pack from.

use crate::source::http::Url;

/// What a release says of the host of its pack. It holds for what the pack depends on, on the same host.
pub(in crate::reconcile) struct Host<'a> {
    pub(super) server: Server,
    /// Name of the Secret with credentials, and the field that names it.
    pub(super) secret: Option<&'a str>,
    pub(super) field: &'static str,
}

pub(super) enum Server {
    /// A registry, as it was written, and whether it speaks HTTP without TLS.
    Registry(String, bool),
    /// A server with archives.
    Web(Url),
}
