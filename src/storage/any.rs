//! The driver that a release asks for.

use std::{path::PathBuf, sync::Arc};

use futures::{Stream, StreamExt};
use kube::Client;

use super::{
    Compression, ConfigMapRecords, Error, FileRecords, Head, HelmRecords, Keys, Large, Marked, Meta, Records,
    SecretRecords, Stored, unpacking::Unpacking,
};
use crate::{
    api::{self, HistoryStorage},
    release::{Private, Record, ReleaseKey},
};

/// How and where a release wants its records kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    pub storage: HistoryStorage,
    /// Namespace of the records; `None`: that of the release.
    pub namespace: Option<String>,
    pub compression: Compression,
    pub large: Large,
}

/// Every place in which records of this operator can be.
#[derive(Clone)]
pub struct Stores {
    client: Client,
    keys: Keys,
    directory: Option<Arc<PathBuf>>,
    unpacking: Unpacking,
}

/// One of the drivers.
#[derive(Clone)]
pub enum AnyRecords {
    Secret(SecretRecords),
    ConfigMap(ConfigMapRecords),
    File(FileRecords),
}

impl Stores {
    /// `directory` is where [`FileRecords`] are; without one they answer [`Error::NoStorageDir`].
    pub fn new(client: Client, keys: impl Into<Keys>, directory: Option<PathBuf>) -> Self {
        let unpacking = Unpacking::default();
        Self { client, keys: keys.into(), directory: directory.map(Arc::new), unpacking }
    }

    /// The revisions of Helm, seen by whom `client` acts as.
    #[must_use]
    pub fn helm(&self, client: Client) -> HelmRecords {
        HelmRecords::new(client, self.unpacking.clone())
    }

    /// The keys that these records are sealed with.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The same places, seen by whom `client` acts as.
    pub fn seen_by(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// The driver for a release.
    pub fn of(&self, keeping: &Keeping) -> AnyRecords {
        let Keeping { storage, namespace, compression, large } = keeping;
        let (client, keys) = (self.client.clone(), self.keys.clone());
        match storage {
            HistoryStorage::Secret => {
                let driver = SecretRecords::new(client, keys).compressing(*compression).splitting(*large);
                let driver = driver.unpacking_with(self.unpacking.clone());
                AnyRecords::Secret(match namespace {
                    Some(namespace) => driver.within(namespace),
                    None => driver,
                })
            }
            HistoryStorage::ConfigMap => {
                let driver = ConfigMapRecords::new(client, keys).compressing(*compression).splitting(*large);
                let driver = driver.unpacking_with(self.unpacking.clone());
                AnyRecords::ConfigMap(match namespace {
                    Some(namespace) => driver.within(namespace),
                    None => driver,
                })
            }
            HistoryStorage::File => {
                let directory = self.directory.as_ref().map(|directory| directory.as_ref().clone());
                AnyRecords::File(FileRecords::new(directory, keys).compressing(*compression))
            }
        }
    }

    /// Every place that there is. Files count only with a directory for them.
    pub fn kinds(&self) -> Vec<HistoryStorage> {
        let mut kinds = vec![HistoryStorage::Secret, HistoryStorage::ConfigMap];
        kinds.extend(self.directory.is_some().then_some(HistoryStorage::File));
        kinds
    }
}

impl From<api::Compression> for Compression {
    fn from(wanted: api::Compression) -> Self {
        match wanted {
            api::Compression::Zstd => Self::Zstd,
            api::Compression::Gzip => Self::Gzip,
            api::Compression::None => Self::None,
        }
    }
}

impl From<api::LargeRevision> for Large {
    fn from(wanted: api::LargeRevision) -> Self {
        match wanted {
            api::LargeRevision::Chunked => Self::Chunked,
            api::LargeRevision::SeparateManifests => Self::SeparateManifests,
        }
    }
}

macro_rules! each {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            Self::Secret($driver) => $call,
            Self::ConfigMap($driver) => $call,
            Self::File($driver) => $call,
        }
    };
}

impl AnyRecords {
    /// Stores a revision that was made elsewhere as it is: without `private` as another tool's, and finished.
    ///
    /// # Errors
    /// As for [`create`](Records::create).
    pub async fn import(
        &self,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        each!(self, driver => driver.import(record, private, head).await)
    }
}

impl Records for AnyRecords {
    async fn create(&self, record: &Record, private: &Private) -> Result<Stored, Error> {
        each!(self, driver => driver.create(record, private).await)
    }

    async fn update(
        &self,
        stored: &Stored,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        each!(self, driver => driver.update(stored, record, private, head).await)
    }

    async fn set_head(&self, meta: &Meta, head: bool) -> Result<String, Error> {
        each!(self, driver => driver.set_head(meta, head).await)
    }

    async fn get(&self, namespace: &str, release: &str, revision: u32) -> Result<Head, Error> {
        each!(self, driver => driver.get(namespace, release, revision).await)
    }

    async fn get_with<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        revision: u32,
        room: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<Result<Head, E>, Error> {
        each!(self, driver => driver.get_with(namespace, release, revision, room).await)
    }

    async fn list(&self, namespace: &str, release: &str) -> Result<Vec<Meta>, Error> {
        each!(self, driver => driver.list(namespace, release).await)
    }

    async fn newest(&self, namespace: &str, release: &str) -> Result<Head, Error> {
        each!(self, driver => driver.newest(namespace, release).await)
    }

    fn history(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        match self {
            Self::Secret(driver) => driver.history(namespace, release).left_stream().left_stream(),
            Self::ConfigMap(driver) => driver.history(namespace, release).right_stream().left_stream(),
            Self::File(driver) => driver.history(namespace, release).right_stream(),
        }
    }

    async fn newest_slim<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        room: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<Result<Head, E>, Error> {
        each!(self, driver => driver.newest_slim(namespace, release, room).await)
    }

    fn survey(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        match self {
            Self::Secret(driver) => driver.survey(namespace, release).left_stream().left_stream(),
            Self::ConfigMap(driver) => driver.survey(namespace, release).right_stream().left_stream(),
            Self::File(driver) => driver.survey(namespace, release).right_stream(),
        }
    }

    fn heads(&self, namespace: Option<&str>) -> impl Stream<Item = Result<Marked, Error>> + Send {
        match self {
            Self::Secret(driver) => driver.heads(namespace).left_stream().left_stream(),
            Self::ConfigMap(driver) => driver.heads(namespace).right_stream().left_stream(),
            Self::File(driver) => driver.heads(namespace).right_stream(),
        }
    }

    async fn delete(&self, meta: &Meta) -> Result<(), Error> {
        each!(self, driver => driver.delete(meta).await)
    }

    async fn remove_all(
        &self,
        namespace: &str,
        release: &str,
        owner: &ReleaseKey,
    ) -> Result<Vec<String>, Error> {
        each!(self, driver => driver.remove_all(namespace, release, owner).await)
    }
}
