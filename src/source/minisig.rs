//! The minisign signature beside an archive behind a URL: under its path and `.minisig`.

use std::sync::Arc;

use http::StatusCode;

use super::Error;
use super::http::{Answer, Call, Client, Credentials, HTTP_SECRET, Url, Validators, withhold};
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
    /// Fetches the archive, which one of the keys has to have signed.
    ///
    /// # Errors
    /// [`Error::Signature`], and those of a fetch.
    pub(in crate::source) async fn fetch(
        &self,
        keys: &Arc<Keys>,
        known: &Validators,
    ) -> Result<Answer, Error> {
        let Self { client, namespace, url, credentials } = self;
        let authorization = credentials.authorization.as_ref();
        let call = Call { authorization, known, ..client.call(namespace, url, credentials) };
        let mut inside = false;
        let checked = async {
            // The archive takes its share of memory as long as the server lets its signature be waited for.
            let (answer, _room) = client.answer(&call, &mut inside).await?;
            self.checked(keys, HTTP_SECRET, answer, &mut inside).await
        };
        let answer = checked.await;
        if inside { withhold(url, answer) } else { answer }
    }

    /// The answer, if one of the keys has signed the archive in it. What is unchanged was signed before. `field` is where a release
    /// names the Secret with credentials; `inside`: a private address was asked, which is also set here.
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
        // What the server has beside it is only looked at and told of if it is an archive.
        let answer = if *inside { withhold(self.url, Ok(answer))? } else { answer };
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
            // By what a stranger would find there, it would be told what is inside.
            onward: Some(url),
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
