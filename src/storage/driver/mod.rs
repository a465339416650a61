//! Records on any [`Backend`]: the one place that knows in which order the objects of a record are written and deleted.
//!
//! A record is written as its new parts first, then its main object, then the old parts go. Whatever breaks on the way,
//! the main object lists either the old parts or the new ones, and all of them are there. What a crash leaves lying
//! about is taken away by the next write of that revision that has parts, or with the revision, or at the latest with
//! the release; see [`Records::remove_all`].

pub(super) mod memory;
mod read;

use std::convert::Infallible;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Client;

use super::{
    Error, Head, Marked, Meta, Records, Stored,
    backend::{Backend, InCluster, Selector, names_of},
    codec::{self, Compression, Encoded, Keys, Large, MAX_RECORD_BYTES, Shape},
    head::{is_chunk, slim::Keep},
    unpacking::Unpacking,
};
use crate::release::{Private, Record, ReleaseKey, revision_of};
use read::Everything;

/// Parts of one record that are read or written at once.
const PARALLEL: usize = 4;

/// A record with more text than this is packed and unpacked off the async threads.
const LARGE_TEXT: usize = 256 * 1024;

/// The default driver: Secrets.
pub type SecretRecords = Driver<InCluster<Secret>>;

/// As Secrets, for clusters in which nothing in a release is secret.
pub type ConfigMapRecords = Driver<InCluster<ConfigMap>>;

/// Records on a backend.
#[derive(Clone)]
pub struct Driver<S> {
    pub(super) backend: S,
    keys: Keys,
    shape: Shape,
    unpacking: Unpacking,
}

impl SecretRecords {
    /// `client` acts as the operator itself.
    pub fn new(client: Client, keys: impl Into<Keys>) -> Self {
        Self::on(InCluster::new(client), keys.into())
    }
}

impl ConfigMapRecords {
    /// As [`SecretRecords::new`].
    pub fn new(client: Client, keys: impl Into<Keys>) -> Self {
        Self::on(InCluster::new(client), keys.into())
    }
}

impl<S: Backend> Driver<S> {
    pub(super) fn on(backend: S, keys: Keys) -> Self {
        let shape = Shape {
            namespace: None,
            driver: S::DRIVER,
            compression: Compression::default(),
            large: Large::default(),
            limit: Some(MAX_RECORD_BYTES),
        };
        Self { backend, keys, shape, unpacking: Unpacking::default() }
    }

    /// The same driver, sharing its turns at unpacking large records.
    pub(super) fn unpacking_with(self, unpacking: Unpacking) -> Self {
        Self { unpacking, ..self }
    }

    /// The same driver, writing with another compression. All of them are read anyway.
    #[must_use]
    pub fn compressing(mut self, compression: Compression) -> Self {
        self.shape.compression = compression;
        self
    }

    /// The same driver, treating large records in this way. All of them are read anyway.
    #[must_use]
    pub fn splitting(mut self, large: Large) -> Self {
        self.shape.large = large;
        self
    }

    /// The same driver, with the records in this namespace instead of that of their release.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.shape.namespace = Some(namespace.into());
        self
    }

    /// The namespace in which the records of a release of `namespace` are.
    fn place<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.shape.namespace.as_deref().unwrap_or(namespace)
    }

    fn stem(&self, namespace: &str, release: &str) -> String {
        codec::stem(self.place(namespace), namespace, release)
    }

    pub(super) async fn import(
        &self,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        let encoded = self.encode(record, private, head, false).await?;
        self.create_as(record, private, encoded).await
    }

    async fn create_as(
        &self,
        record: &Record,
        private: Option<&Private>,
        encoded: Encoded,
    ) -> Result<Stored, Error> {
        let Encoded { main, parts } = encoded;
        self.put_parts(&parts, &[]).await?;
        let answer = self.backend.create(&main).await;
        let created = self.settle(&main, answer).await?;
        let stored = Stored::written(record, private, &created, codec::names_in(&main));
        if !parts.is_empty() {
            self.sweep(&stored).await;
        }
        Ok(stored)
    }

    async fn encode(
        &self,
        record: &Record,
        private: Option<&Private>,
        head: bool,
        fresh: bool,
    ) -> Result<Encoded, Error> {
        if record.manifest.len() <= LARGE_TEXT {
            return self.shape.encode(record, private, self.keys.ring().current(), head, fresh);
        }
        let (shape, ring) = (self.shape.clone(), self.keys.ring());
        let (record, private) = (record.clone(), private.cloned());
        off_thread("pack a record", move || {
            shape.encode(&record, private.as_ref(), ring.current(), head, fresh)
        })
        .await?
    }

    /// After a refusal for being too late: is what is stored there just what we sent? The client repeats a send that
    /// got no clear answer, and then runs into its own first one.
    async fn settle(&self, sent: &Secret, answer: Result<ObjectMeta, Error>) -> Result<ObjectMeta, Error> {
        let Err(Error::Conflict { what }) = answer else { return answer };
        let (namespace, name) = names_of(sent);
        let found = self.backend.get(namespace, name).await?;
        let own =
            found.filter(|found| found.data == sent.data && found.metadata.labels == sent.metadata.labels);
        own.map(|own| own.metadata).ok_or(Error::Conflict { what })
    }

    /// Stores parts, but for those that are `there` already.
    async fn put_parts(&self, parts: &[Secret], there: &[String]) -> Result<(), Error> {
        let new = parts.iter().filter(|part| !there.iter().any(|name| name == names_of(part).1));
        stream::iter(new).map(Ok).try_for_each_concurrent(PARALLEL, |part| self.put_part(part)).await
    }

    async fn put_part(&self, part: &Secret) -> Result<(), Error> {
        let conflict = match self.backend.create(part).await {
            Ok(_) => return Ok(()),
            Err(error @ Error::Conflict { .. }) => error,
            Err(error) => return Err(error),
        };
        // Its name is a hash of its content, so it is the same one, unless another writer has damaged it.
        let (namespace, name) = names_of(part);
        let Some(found) = self.backend.get(namespace, name).await? else { return Err(conflict) };
        if found.data == part.data && found.metadata.labels == part.metadata.labels {
            return Ok(());
        }
        let mut mended = part.clone();
        mended.metadata.resource_version = found.metadata.resource_version;
        self.backend.replace(&mended).await.map(drop)
    }

    /// Takes away the parts that no record lists, after this one was written.
    ///
    /// What is left does no harm to us, so an error here is no error of the write.
    async fn sweep(&self, stored: &Stored) {
        if let Err(error) = self.try_sweep(stored).await {
            let Stored { namespace, secret_name, .. } = stored;
            tracing::debug!(namespace, record = secret_name, %error, "old parts of a record are left for later");
        }
    }

    async fn try_sweep(&self, stored: &Stored) -> Result<(), Error> {
        let Stored { namespace, secret_name, record, parts, .. } = stored;
        let stem = codec::stem(namespace, &record.namespace, &record.name);
        let found = self.backend.all(namespace, &Selector::everything(&record.name)).await?;
        let there: Vec<u32> =
            found.iter().filter_map(|meta| Meta::of(meta, &stem)).map(|m| m.revision).collect();
        let left = |name: &str| match codec::part_of(name) {
            Some((of, revision)) if of == stem && revision == record.version => {
                !parts.iter().any(|part| part == name)
            }
            // Of an older revision that is gone, and that no process makes again.
            Some((of, revision)) => of == stem && revision < record.version && !there.contains(&revision),
            None => false,
        };
        let old = found.into_iter().filter(|meta| is_chunk(meta) && meta.name.as_deref().is_some_and(left));
        let old: Vec<ObjectMeta> = old.collect();
        if old.is_empty() {
            return Ok(());
        }
        // Another process may have written the record since, and these may be the parts of that.
        let now = self.backend.get(namespace, secret_name).await?;
        if now.and_then(|now| now.metadata.resource_version).as_ref() != Some(&stored.resource_version) {
            return Ok(());
        }
        self.delete_parts(namespace, old).await
    }

    async fn delete_parts(&self, namespace: &str, parts: Vec<ObjectMeta>) -> Result<(), Error> {
        let delete = |meta: ObjectMeta| async move {
            let (name, uid) = (meta.name.unwrap_or_default(), meta.uid.unwrap_or_default());
            match self.backend.delete(namespace, &name, &uid, None).await {
                Err(Error::Missing { .. } | Error::Conflict { .. }) | Ok(()) => Ok(()),
                Err(error) => Err(error),
            }
        };
        stream::iter(parts).map(Ok).try_for_each_concurrent(PARALLEL, delete).await
    }

    /// Deletes a main object; its parts are of no use to anybody then.
    async fn delete_main(&self, meta: &Meta) -> Result<(), Error> {
        let Meta { namespace, secret_name, uid, resource_version, .. } = meta;
        match self.backend.delete(namespace, secret_name, uid, Some(resource_version)).await {
            Ok(()) | Err(Error::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<S: Backend> Records for Driver<S> {
    async fn create(&self, record: &Record, private: &Private) -> Result<Stored, Error> {
        let encoded = self.encode(record, Some(private), true, true).await?;
        self.create_as(record, Some(private), encoded).await
    }

    async fn update(
        &self,
        stored: &Stored,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        stored.must_be_whole()?;
        let counted = stored.counted(private);
        let private = counted.as_ref();
        let Encoded { mut main, parts } = self.encode(record, private, head, false).await?;
        stored.succeed(&mut main);
        self.put_parts(&parts, &stored.parts).await?;
        let answer = self.backend.replace(&main).await;
        let updated = self.settle(&main, answer).await?;
        let written = Stored::written(record, private, &updated, codec::names_in(&main));
        if !parts.is_empty() || stored.in_parts {
            self.sweep(&written).await;
        }
        Ok(written)
    }

    async fn set_head(&self, meta: &Meta, head: bool) -> Result<String, Error> {
        let Meta { namespace, secret_name, resource_version, .. } = meta;
        let patched = self.backend.mark(namespace, secret_name, resource_version, head).await?;
        Ok(patched.resource_version.unwrap_or_default())
    }

    async fn get(&self, namespace: &str, release: &str, revision: u32) -> Result<Head, Error> {
        let Ok(head) = self.get_with(namespace, release, revision, || Ok::<(), Infallible>(())).await?;
        Ok(head)
    }

    async fn get_with<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        revision: u32,
        room: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<Result<Head, E>, Error> {
        let name = Record::key_of(&self.stem(namespace, release), revision);
        match self.backend.get(self.place(namespace), &name).await? {
            Some(main) => self.open_in(main, Keep::Whole, &mut Some(room)).await,
            None => Ok(Ok(Head::None)),
        }
    }

    async fn list(&self, namespace: &str, release: &str) -> Result<Vec<Meta>, Error> {
        let stem = self.stem(namespace, release);
        let all = self.backend.all(self.place(namespace), &Selector::records(release)).await?;
        let mut metas: Vec<Meta> = all.iter().filter_map(|meta| Meta::of(meta, &stem)).collect();
        metas.sort_by_key(|meta| meta.revision);
        Ok(metas)
    }

    async fn newest(&self, namespace: &str, release: &str) -> Result<Head, Error> {
        let Ok(head) = self.newest_as(namespace, release, Keep::Whole, || Ok::<(), Infallible>(())).await?;
        Ok(head)
    }

    async fn newest_slim<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        room: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<Result<Head, E>, Error> {
        self.newest_as(namespace, release, Keep::Slim, room).await
    }

    fn history(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        self.revisions(namespace, release, Keep::Whole)
    }

    fn survey(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        self.revisions(namespace, release, Keep::Survey)
    }

    fn heads(&self, namespace: Option<&str>) -> impl Stream<Item = Result<Marked, Error>> + Send {
        let place = namespace.map(|namespace| self.place(namespace));
        let opened = self.scan(place, Selector::heads()).and_then(|main| self.marked(main));
        opened.try_filter_map(|marked| std::future::ready(Ok(marked)))
    }

    async fn delete(&self, meta: &Meta) -> Result<(), Error> {
        self.delete_main(meta).await?;
        let Meta { namespace, secret_name, release, revision, in_parts, .. } = meta;
        let Some((stem, _)) = revision_of(secret_name).filter(|_| *in_parts) else { return Ok(()) };
        let parts = self.backend.all(namespace, &Selector::parts(release, *revision)).await?;
        self.delete_parts(namespace, parts_of(parts, stem, Some(*revision))).await
    }

    async fn remove_all(
        &self,
        namespace: &str,
        release: &str,
        owner: &ReleaseKey,
    ) -> Result<Vec<String>, Error> {
        let (place, stem) = (self.place(namespace), self.stem(namespace, release));
        let Everything { own, stays, parts } = self.everything(place, release, &stem, owner).await?;
        for meta in own.values() {
            self.delete_main(meta).await?;
        }
        let of_those_that_stay = |meta: &ObjectMeta| {
            let of = meta.name.as_deref().and_then(codec::part_of);
            of.is_some_and(|(_, revision)| stays.contains_key(&revision))
        };
        let mut parts = parts_of(parts, &stem, None);
        parts.retain(|meta| !of_those_that_stay(meta));
        self.delete_parts(place, parts).await?;
        Ok(stays.into_values().collect())
    }
}

/// Those of these objects that are parts of a release, or of one revision of it.
fn parts_of(all: Vec<ObjectMeta>, stem: &str, revision: Option<u32>) -> Vec<ObjectMeta> {
    let wanted = |meta: &ObjectMeta| {
        let of = meta.name.as_deref().and_then(codec::part_of);
        is_chunk(meta)
            && of.is_some_and(|(of, number)| of == stem && revision.is_none_or(|wanted| wanted == number))
    };
    all.into_iter().filter(wanted).collect()
}

/// Runs work that takes long where it holds no other work up.
pub(super) async fn off_thread<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::File { what: what.to_owned(), source: error.into() })
}
