//! Reads that the API server answers from its memory: cheaper than those that it passes on to etcd, and possibly out of date.

use std::time::Duration;

use kube::api::GetParams;

use super::handle::{Applied, Cluster};
use crate::api::Class;
use crate::cluster::Error;
use crate::manifest::ObjectId;

/// How long an answer from memory is waited for. An API server that is behind says so after three seconds.
const FROM_MEMORY: Duration = Duration::from_secs(4);

impl Cluster {
    /// Whether an object was there a moment ago. Answered from the API server's memory, at half the price of [`Cluster::metadata`]: a
    /// write of this moment may be missing.
    ///
    /// # Errors
    /// As [`Cluster::metadata`].
    pub async fn is_cached(&self, api_version: &str, id: &ObjectId) -> Result<bool, Error> {
        let api = self.api(api_version, id).await?;
        let call = async { api.get_metadata_with(&id.name, &GetParams::any()).await };
        let found = from_memory(self.unless_absent(api_version, id, call)).await?;
        // Where that cannot be told it is asked for properly.
        Ok(found.is_none_or(|found| found.is_some()))
    }

    /// [`Cluster::get`] of an object that was seen in `version`: that one or a newer one, from the API server's memory. A
    /// version of 0 is none: then it is read as [`Cluster::get`] does.
    ///
    /// # Errors
    /// As [`Cluster::get`].
    pub async fn get_since(
        &self,
        api_version: &str,
        id: &ObjectId,
        version: u64,
    ) -> Result<Option<Applied>, Error> {
        if version == 0 {
            return self.get(api_version, id).await;
        }
        let api = self.api(api_version, id).await?;
        let params = GetParams::at(&version.to_string());
        let call = async { api.get_with(&id.name, &params).await };
        match from_memory(self.unless_absent(api_version, id, call)).await? {
            Some(found) => Ok(found.map(Applied::new)),
            None => self.get(api_version, id).await,
        }
    }
}

/// An answer out of the API server's memory; `None`: it has none for now, because it is behind or begins anew.
async fn from_memory<T>(call: impl Future<Output = Result<T, Error>>) -> Result<Option<T>, Error> {
    match tokio::time::timeout(FROM_MEMORY, call).await {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(error)) if error.class() != Class::Retry => Err(error),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}
