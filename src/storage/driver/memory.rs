//! Records in memory, for tests and benches of what stands above.
//!
//! Keeps objects with the API server's rules for creating, replacing and deleting, and counts every operation. Nothing
//! survives the process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::Driver;
use crate::api::names;
use crate::storage::backend::{Backend, Page, Selector, names_of, page::Limit};
use crate::storage::{
    Error,
    codec::{self, MacKey},
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
pub type MemoryRecords = Driver<InMemory>;

/// Objects in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct InMemory(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    objects: BTreeMap<(String, String), Secret>,
    clock: u64,
    operations: Operations,
    /// Writes that are still carried out; the rest never arrive.
    writes_left: Option<u32>,
}

impl MemoryRecords {
    pub fn new(key: MacKey) -> Self {
        Self::on(InMemory::default(), key.into())
    }

    /// The calls so far.
    pub fn operations(&self) -> Operations {
        self.backend.lock().operations
    }

    /// Puts a Secret there as if another tool had written it; its labels decide whether it is found.
    pub fn put(&self, secret: Secret) {
        self.backend.lock().store(secret);
    }

    /// Carries out so many more writes; then every one ends in an error and changes nothing, as for a process that was
    /// killed. `None`: no end.
    pub fn die_after(&self, writes: Option<u32>) {
        self.backend.lock().writes_left = writes;
    }

    /// Names of all objects that are there.
    pub fn objects(&self) -> Vec<String> {
        self.backend.lock().objects.keys().map(|(namespace, name)| format!("{namespace}/{name}")).collect()
    }

    /// Takes an object away, as a person does.
    pub fn lose(&self, namespace: &str, name: &str) -> Option<Secret> {
        self.backend.lock().objects.remove(&(namespace.to_owned(), name.to_owned()))
    }
}

impl InMemory {
    // A panic elsewhere leaves whole objects behind: each change is one insert or remove.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn store(&mut self, mut secret: Secret) -> ObjectMeta {
        self.clock += 1;
        secret.metadata.resource_version = Some(self.clock.to_string());
        let fresh = || format!("uid-{}", self.clock);
        secret.metadata.uid = Some(secret.metadata.uid.take().unwrap_or_else(fresh));
        let meta = secret.metadata.clone();
        self.objects.insert(key_of(&secret), secret);
        meta
    }

    fn write(&mut self) -> Result<(), Error> {
        match &mut self.writes_left {
            Some(0) => {
                let source = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                Err(Error::File { what: "the process was killed".to_owned(), source })
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The object under this name, if it is still the one that was read.
    fn current(
        &self,
        verb: &str,
        key: &(String, String),
        uid: Option<&str>,
        resource_version: Option<&str>,
    ) -> Result<&Secret, Error> {
        let what = || format!("{verb} Secret {}/{}", key.0, key.1);
        let found = self.objects.get(key).ok_or_else(|| Error::Missing { what: what() })?;
        let meta = &found.metadata;
        let differs = |wanted: Option<&str>, found: &Option<String>| {
            wanted.is_some_and(|wanted| found.as_deref() != Some(wanted))
        };
        if differs(uid, &meta.uid) || differs(resource_version, &meta.resource_version) {
            return Err(Error::Conflict { what: what() });
        }
        Ok(found)
    }
}

impl Backend for InMemory {
    const KIND: &'static str = "Secret";
    const DRIVER: &'static str = names::DRIVER_SECRETS;

    async fn create(&self, object: &Secret) -> Result<ObjectMeta, Error> {
        let mut memory = self.lock();
        memory.operations.creates += 1;
        memory.write()?;
        let key = key_of(object);
        if memory.objects.contains_key(&key) {
            return Err(Error::Conflict { what: format!("create Secret {}/{}", key.0, key.1) });
        }
        Ok(memory.store(object.clone()))
    }

    async fn replace(&self, object: &Secret) -> Result<ObjectMeta, Error> {
        let mut memory = self.lock();
        memory.operations.updates += 1;
        memory.write()?;
        let meta = &object.metadata;
        let key = key_of(object);
        let found = memory.current("update", &key, meta.uid.as_deref(), meta.resource_version.as_deref())?;
        let mut object = object.clone();
        object.metadata.uid.clone_from(&found.metadata.uid);
        Ok(memory.store(object))
    }

    async fn mark(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        head: bool,
    ) -> Result<ObjectMeta, Error> {
        let mut memory = self.lock();
        memory.operations.label_patches += 1;
        memory.write()?;
        let key = (namespace.to_owned(), name.to_owned());
        let mut secret = memory.current("patch", &key, None, Some(resource_version))?.clone();
        let labels = secret.metadata.labels.get_or_insert_default();
        if head {
            labels.insert(names::HEAD.to_owned(), codec::HEAD_VALUE.to_owned());
        } else {
            labels.remove(names::HEAD);
        }
        Ok(memory.store(secret))
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Secret>, Error> {
        let mut memory = self.lock();
        memory.operations.gets += 1;
        Ok(memory.objects.get(&(namespace.to_owned(), name.to_owned())).cloned())
    }

    async fn list(
        &self,
        namespace: &str,
        selector: &Selector,
        _token: &str,
    ) -> Result<Page<ObjectMeta>, Error> {
        let mut memory = self.lock();
        memory.operations.lists += 1;
        let found = memory
            .objects
            .iter()
            .filter(|(key, object)| key.0 == namespace && selector.matches(&object.metadata));
        Ok(Page { items: found.map(|(_, object)| object.metadata.clone()).collect(), next: None })
    }

    async fn scan(
        &self,
        namespace: Option<&str>,
        selector: &Selector,
        _token: &str,
        limit: Limit,
    ) -> Result<(Page<Secret>, Limit), Error> {
        let mut memory = self.lock();
        memory.operations.scans += 1;
        let found = memory.objects.iter().filter(|(key, object)| {
            namespace.is_none_or(|namespace| key.0 == namespace) && selector.matches(&object.metadata)
        });
        Ok((Page { items: found.map(|(_, object)| object.clone()).collect(), next: None }, limit))
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> Result<(), Error> {
        let mut memory = self.lock();
        memory.operations.deletes += 1;
        memory.write()?;
        let key = (namespace.to_owned(), name.to_owned());
        memory.current("delete", &key, Some(uid), resource_version)?;
        memory.objects.remove(&key);
        Ok(())
    }
}

fn key_of(object: &Secret) -> (String, String) {
    let (namespace, name) = names_of(object);
    (namespace.to_owned(), name.to_owned())
}
