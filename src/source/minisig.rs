//! The minisign signature beside an archive behind a URL: under its path and `.minisig`.

use std::sync::Arc;

use http::StatusCode;

use super::Error;
use super::http::{Answer, Call, Client, Credentials, Url};
use super::signature::{Keys, MAX_MINISIG_BYTES, check_beside};

/// What the name of an archive gets for that of its signature.
pub const ENDING: &str = ".minisig";

/// An archive that was fetched for a release in `namespace`.
pub(in crate::source) struct Beside<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    pub url: &'a Url,
    /// For the host of `url`.
    pub credentials: &'a Credentials,
}

impl Beside<'_> {
    /// The answer, if one of the keys has signed the archive in it. What is unchanged was signed before. `field` is where a release
    /// names the Secret with credentials; `inside` is set when a private address is asked.
    ///
    /// # Errors
    /// [`Error::Signature`], and those of a fetch.
    pub(in crate::source) async fn checked(
        &self,
        keys: &Arc<Keys>,
        field: &str,
        answer: Answer,
        inside: &mut bool,
    ) -> Result<Answer, Error> {
        let Answer::Fetched { bytes, validators } = answer else { return Ok(answer) };
        let minisig = self.minisig(field, inside).await?;
        let keys = Arc::clone(keys);
        let check = move || {
            let verdict = check_beside(&keys, &bytes, minisig.as_deref());
            verdict.map(|()| Answer::Fetched { bytes, validators })
        };
        // It hashes the whole archive.
        match tokio::task::spawn_blocking(check).await {
            Ok(verdict) => verdict.map_err(|why| Error::Signature { what: self.url.to_string(), why }),
            Err(error) => Err(Error::Io { what: self.url.to_string(), message: error.to_string() }),
        }
    }

    /// The signature; `None`: there is none.
    async fn minisig(&self, field: &str, inside: &mut bool) -> Result<Option<Vec<u8>>, Error> {
        let Self { client, namespace, url, credentials } = self;
        let invalid = |why| Error::Invalid { what: url.to_string(), why };
        let at = url.beside(ENDING).map_err(invalid)?;
        let call = Call {
            authorization: credentials.authorization.as_ref(),
            what: "signature",
            limit: MAX_MINISIG_BYTES as u64,
            ..client.call(namespace, &at, credentials)
        };
        let mut private = false;
        let reply = client.within(&at, client.send(&call, &mut private)).await;
        *inside |= private;
        let reply = match reply {
            Ok(reply) if matches!(reply.status, StatusCode::NOT_FOUND | StatusCode::GONE) => return Ok(None),
            Ok(reply) => reply.checked(&at, credentials, field),
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => Ok(Some(reply.bytes)),
            Err(error) => Err(if private { error.withheld(&at) } else { error }),
        }
    }
}
