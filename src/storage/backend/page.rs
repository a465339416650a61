//! Lists of whole objects, page by page: many small records in one call, and never more than a bounded number of bytes.
//!
//! Anybody may make Secrets that look like records, each of more than a megabyte, and a list is limited by their number alone.

use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use kube::core::{ObjectList, Request, Status};
use kube::{api::ListParams, core::response::StatusSummary};
use serde::de::DeserializeOwned;

/// Objects of the first page, when nothing is known of their size, and of any other.
const FIRST: u32 = 50;
const MOST: u32 = 250;
/// Bytes of a page as it comes from the API server. A page is not read any further.
const BYTES: usize = 16 << 20;
/// Bytes of an explanation why there is none.
const EXPLANATION: usize = 1 << 20;

/// How many objects are asked for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u32);

impl Default for Limit {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Limit {
    /// The next page after one of so many objects: half of what may come, should its objects be as large.
    #[must_use]
    fn after(self, objects: usize, bytes: usize) -> Self {
        let mean = (bytes / objects.max(1)).max(1);
        let fit = u32::try_from(BYTES / 2 / mean).unwrap_or(MOST);
        Self(fit.clamp(1, MOST))
    }

    /// The same page again after one that was too large; `None` for a single object.
    #[must_use]
    pub(in crate::storage) fn less(self) -> Option<Self> {
        (self.0 > 1).then(|| Self((self.0 / 5).max(1)))
    }

    fn bytes(self) -> usize {
        // One object is as large as it is.
        if self.0 == 1 { usize::MAX } else { BYTES }
    }
}

/// Reads one page and says how many objects the next one may have.
///
/// # Errors
/// Whatever kept it from being read.
pub(in crate::storage) async fn read<K: Clone + DeserializeOwned>(
    client: &Client,
    url: &str,
    params: &ListParams,
    limit: Limit,
) -> kube::Result<(ObjectList<K>, Limit)> {
    let mut limit = limit;
    loop {
        let request =
            Request::new(url).list(&params.clone().limit(limit.0)).map_err(kube::Error::BuildRequest)?;
        let answer = client.send(request.map(Body::from)).await?;
        let code = answer.status();
        let limited = |body, bytes| async move { Limited::new(body, bytes).collect().await };
        if !code.is_success() {
            let body = limited(answer.into_body(), EXPLANATION).await.map_err(kube::Error::Service)?;
            return Err(explained(code.as_u16(), &body.to_bytes()));
        }
        match limited(answer.into_body(), limit.bytes()).await {
            Ok(body) => {
                let body = body.to_bytes();
                let list: ObjectList<K> = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
                let next = limit.after(list.items.len(), body.len());
                return Ok((list, next));
            }
            Err(error) => match limit.less().filter(|_| error.is::<LengthLimitError>()) {
                Some(less) => limit = less,
                None => return Err(kube::Error::Service(error)),
            },
        }
    }
}

/// The error that an answer tells of, in the API server's own form or in another.
fn explained(code: u16, body: &[u8]) -> kube::Error {
    let status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        status: Some(StatusSummary::Failure),
        code,
        message: String::from_utf8_lossy(body).trim().to_owned(),
        ..Status::default()
    });
    kube::Error::Api(Box::new(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_come_by_the_hundred_and_large_ones_one_by_one() {
        let first = Limit::default();
        assert_eq!(first.after(50, 50 * 6_000), Limit(MOST));
        assert_eq!(first.after(50, 50 * 100_000), Limit(83));
        assert_eq!(first.after(3, 3 * 1_400_000), Limit(5));
        assert_eq!(first.after(1, 9 << 20), Limit(1));
        assert_eq!(first.after(0, 100), Limit(MOST), "an empty page says nothing");
    }

    #[test]
    fn a_page_that_is_too_large_is_asked_for_in_smaller_ones_down_to_one() {
        let mut limit = Limit(MOST);
        let mut asked = vec![limit.0];
        while let Some(less) = limit.less() {
            limit = less;
            asked.push(limit.0);
        }
        assert_eq!(asked, [250, 50, 10, 2, 1]);
        assert_eq!(limit.bytes(), usize::MAX);
    }

    #[test]
    fn an_error_is_told_in_the_words_of_whoever_answered() {
        let status =
            br#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}"#;
        let kube::Error::Api(status) = explained(410, status) else { panic!() };
        assert_eq!((status.code, &*status.reason), (410, "Expired"));
        let kube::Error::Api(status) = explained(502, b"bad gateway\n") else { panic!() };
        assert_eq!((status.code, &*status.message), (502, "bad gateway"));
    }
}
