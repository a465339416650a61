//! Records in memory, for tests and benches of what stands above.
//!
//! Keeps the Secrets that the codec makes, with the API server's rules for creating, replacing and deleting, and counts
//! every operation. Nothing survives the process.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures::{Stream, stream};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{
    Error, Head, Meta, Records, Stored,
    codec::{self, Compression, MacKey},
};
use crate::{
    api::names,
    release::{Private, Record},
};

/// How often each kind of call was made. Refused ones count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    pub creates: u32,
    pub updates: u32,
    pub label_patches: u32,
    pub gets: u32,
    /// Lists of metadata.
    pub lists: u32,
    /// Lists of whole records.
    pub scans: u32,
    pub deletes: u32,
}

/// The driver that needs no cluster.
#[derive(Debug)]
pub struct MemoryRecords {
    key: MacKey,
    state: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    secrets: BTreeMap<(String, String), Secret>,
    clock: u64,
    operations: Operations,
}

impl MemoryRecords {
    pub fn new(key: MacKey) -> Self {
        Self { key, state: Mutex::default() }
    }

    /// The calls so far.
    pub fn operations(&self) -> Operations {
        self.lock().operations
    }

    /// Puts a Secret there as if another tool had written it; its labels decide whether it is found.
    pub fn put(&self, secret: Secret) {
        self.lock().store(secret);
    }

    // A panic elsewhere leaves whole Secrets behind: each change is one insert or remove.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records that `wanted` selects, with a label check like a selector's.
    fn select(
        &self,
        memory: &Memory,
        namespace: Option<&str>,
        wanted: impl Fn(&ObjectMeta) -> bool,
    ) -> Vec<Secret> {
        let managed = |meta: &ObjectMeta| label(meta, names::MANAGED_BY) == Some(names::MANAGED_BY_SHERPACK);
        let selected = memory.secrets.values().filter(|secret| {
            let meta = &secret.metadata;
            namespace.is_none_or(|n| meta.namespace.as_deref() == Some(n)) && managed(meta) && wanted(meta)
        });
        selected.cloned().collect()
    }

    fn metas(&self, namespace: &str, release: &str) -> Vec<Meta> {
        let mut memory = self.lock();
        memory.operations.lists += 1;
        let of_release = |meta: &ObjectMeta| label(meta, names::RELEASE_NAME) == Some(release);
        let secrets = self.select(&memory, Some(namespace), of_release);
        let mut metas: Vec<_> = secrets.iter().filter_map(|s| Meta::of(&s.metadata, release)).collect();
        metas.sort_by_key(|meta| meta.revision);
        metas
    }

    fn one(&self, namespace: &str, release: &str, revision: u32) -> Head {
        let mut memory = self.lock();
        memory.operations.gets += 1;
        let key = (namespace.to_owned(), Record::key_of(release, revision));
        memory.secrets.get(&key).map_or(Head::None, |secret| Head::of(secret, &self.key))
    }

    fn scan(
        &self,
        namespace: Option<&str>,
        wanted: impl Fn(&ObjectMeta) -> bool,
    ) -> impl Stream<Item = Result<Head, Error>> + Send {
        let mut memory = self.lock();
        memory.operations.scans += 1;
        let secrets = self.select(&memory, namespace, wanted);
        let heads: Vec<_> = secrets.iter().map(|secret| Ok(Head::of(secret, &self.key))).collect();
        stream::iter(heads)
    }
}

impl Memory {
    fn store(&mut self, mut secret: Secret) -> ObjectMeta {
        self.clock += 1;
        secret.metadata.resource_version = Some(self.clock.to_string());
        let fresh = || format!("uid-{}", self.clock);
        secret.metadata.uid = Some(secret.metadata.uid.take().unwrap_or_else(fresh));
        let meta = secret.metadata.clone();
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        self.secrets.insert((part(&meta.namespace), part(&meta.name)), secret);
        meta
    }

    /// The Secret under `meta`, if it is still the one that was read.
    fn current(&self, what: &str, meta: &Meta) -> Result<&Secret, Error> {
        let key = (meta.namespace.clone(), meta.secret_name.clone());
        let what = || format!("{what} Secret {}/{}", meta.namespace, meta.secret_name);
        let found = self.secrets.get(&key).ok_or_else(|| Error::Missing { what: what() })?;
        let version = found.metadata.resource_version.as_ref();
        if version != Some(&meta.resource_version) || found.metadata.uid.as_ref() != Some(&meta.uid) {
            return Err(Error::Conflict { what: what() });
        }
        Ok(found)
    }
}

impl Records for MemoryRecords {
    async fn create(&self, record: &Record, private: &Private) -> Result<Stored, Error> {
        let secret = codec::encode(record, Some(private), Compression::Zstd, &self.key, true)?;
        let mut memory = self.lock();
        memory.operations.creates += 1;
        let key = (record.namespace.clone(), record.key());
        if let Some(found) = memory.secrets.get(&key) {
            if found.data == secret.data {
                return Ok(Stored::written(record, Some(private), &found.metadata));
            }
            return Err(Error::Conflict { what: format!("create Secret {}/{}", key.0, key.1) });
        }
        Ok(Stored::written(record, Some(private), &memory.store(secret)))
    }

    async fn update(
        &self,
        stored: &Stored,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        let mut secret = codec::encode(record, private, Compression::Zstd, &self.key, head)?;
        stored.succeed(&mut secret);
        let mut memory = self.lock();
        memory.operations.updates += 1;
        memory.current("update", &stored.meta())?;
        Ok(Stored::written(record, private, &memory.store(secret)))
    }

    async fn set_head(&self, stored: &Stored, head: bool) -> Result<String, Error> {
        let mut memory = self.lock();
        memory.operations.label_patches += 1;
        let mut secret = memory.current("patch", &stored.meta())?.clone();
        let labels = secret.metadata.labels.get_or_insert_default();
        if head {
            labels.insert(names::HEAD.to_owned(), codec::HEAD_VALUE.to_owned());
        } else {
            labels.remove(names::HEAD);
        }
        Ok(memory.store(secret).resource_version.unwrap_or_default())
    }

    async fn get(&self, namespace: &str, release: &str, revision: u32) -> Result<Head, Error> {
        Ok(self.one(namespace, release, revision))
    }

    async fn list(&self, namespace: &str, release: &str) -> Result<Vec<Meta>, Error> {
        Ok(self.metas(namespace, release))
    }

    async fn newest(&self, namespace: &str, release: &str) -> Result<Head, Error> {
        let newest = self.metas(namespace, release).pop();
        Ok(newest.map_or(Head::None, |meta| self.one(namespace, release, meta.revision)))
    }

    fn history(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        self.scan(Some(namespace), |meta| label(meta, names::RELEASE_NAME) == Some(release))
    }

    fn heads(&self, namespace: Option<&str>) -> impl Stream<Item = Result<Head, Error>> + Send {
        self.scan(namespace, |meta| label(meta, names::HEAD).is_some())
    }

    async fn delete(&self, meta: &Meta) -> Result<(), Error> {
        let mut memory = self.lock();
        memory.operations.deletes += 1;
        match memory.current("delete", meta) {
            Ok(_) => {
                memory.secrets.remove(&(meta.namespace.clone(), meta.secret_name.clone()));
                Ok(())
            }
            Err(Error::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}
