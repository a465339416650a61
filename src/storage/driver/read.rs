//! Reading: lists page by page, and records with the parts that they need.

use std::collections::{BTreeMap, VecDeque};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Driver, PARALLEL, off_thread};
use crate::release::{ReleaseKey, revision_of};
use crate::storage::{
    Error, Head, Meta,
    codec::{self, Needs, Parts},
    head::is_chunk,
    page::Limit,
    shelf::{LIST_TRIES, Page, Selector, Shelf, names_of},
    unreadable::{Fault, Unreadable},
};

/// How often a record is read whose parts change while they are read.
const READ_TRIES: u32 = 3;

impl<S: Shelf> Driver<S> {
    /// Reads the parts of a record, if it has any, and then the record.
    pub(super) async fn open(&self, mut main: Secret) -> Result<Head, Error> {
        for _ in 0..READ_TRIES {
            let needs = match codec::needs(&main) {
                Ok(needs) => needs,
                Err(unreadable) => return Ok(Head::Unreadable(unreadable)),
            };
            let found = match needs {
                Needs::Nothing => return Ok(Head::of(&main, &Parts::default(), &self.keys.ring())),
                Needs::Named(names) => self.named(&main, names).await?,
                Needs::Labelled { parent, count } => self.labelled(&main, &parent, count).await?,
            };
            let why = match found {
                Ok(parts) => {
                    let ring = self.keys.ring();
                    return off_thread("unpack a record", move || Head::of(&main, &parts, &ring)).await;
                }
                Err(why) => why,
            };
            // Missing for good, or was the record just written anew?
            let (namespace, name) = names_of(&main);
            let Some(again) = self.shelf.get(namespace, name).await? else { return Ok(Head::None) };
            if again.metadata.resource_version == main.metadata.resource_version {
                let text = format!("{why}; restore it from a backup");
                return Ok(Head::Unreadable(Unreadable::of(&main.metadata, Fault::Damaged, text)));
            }
            main = again;
        }
        let (namespace, name) = names_of(&main);
        Err(Error::Conflict { what: format!("read {} {namespace}/{name}", S::KIND) })
    }

    /// The parts that a record lists, or why they are not all there.
    async fn named(&self, main: &Secret, names: Vec<String>) -> Result<Result<Parts, String>, Error> {
        self.fetched(main, names, Parts::add).await
    }

    /// The parts of a record that another tool wrote, or why they are not exactly those.
    async fn labelled(
        &self,
        main: &Secret,
        parent: &str,
        count: usize,
    ) -> Result<Result<Parts, String>, Error> {
        let (namespace, _) = names_of(main);
        // By their metadata first: anybody may have put any number of large objects beside them.
        let (mut names, mut token) = (Vec::new(), String::new());
        loop {
            let page = self.shelf.list(namespace, &Selector::siblings(parent), &token).await?;
            names.extend(page.items.into_iter().filter_map(|meta| meta.name));
            if names.len() > count {
                return Ok(Err(format!("it has more than the {count} chunks that its index speaks of")));
            }
            match page.next {
                Some(next) => token = next,
                None if names.len() < count => {
                    return Ok(Err(format!("it has {} of {count} chunks", names.len())));
                }
                None => return self.fetched(main, names, Parts::add_indexed).await,
            }
        }
    }

    async fn fetched(
        &self,
        main: &Secret,
        names: Vec<String>,
        add: impl Fn(&mut Parts, Secret) -> Result<(), String>,
    ) -> Result<Result<Parts, String>, Error> {
        let (namespace, _) = names_of(main);
        let read = |name: String| async move {
            let part = self.shelf.get(namespace, &name).await?;
            Ok::<_, Error>(part.ok_or(name))
        };
        let mut reads = stream::iter(names).map(read).buffered(PARALLEL);
        let mut parts = Parts::default();
        while let Some(part) = reads.try_next().await? {
            let added = match part {
                Ok(part) => add(&mut parts, part),
                Err(name) => Err(format!("its part {name} is missing")),
            };
            if let Err(why) = added {
                return Ok(Err(why));
            }
        }
        Ok(Ok(parts))
    }

    /// Everything that is there of a release of this stem, in one list: records are opened, for only a seal tells whose
    /// they are.
    pub(super) async fn everything(
        &self,
        place: &str,
        release: &str,
        stem: &str,
        owner: &ReleaseKey,
    ) -> Result<Everything, Error> {
        let mut scan = Scan::new(self, Some(place), Selector::everything(release));
        scan.parts = Some(Vec::new());
        let (mut own, mut stays) = (BTreeMap::new(), BTreeMap::new());
        while let Some(head) = scan.next().await? {
            let name = match &head {
                Head::Ours(stored) | Head::Foreign(stored) => &stored.secret_name,
                Head::Unreadable(unreadable) => &unreadable.name,
                Head::None => continue,
            };
            let Some((_, revision)) = revision_of(name).filter(|(of, _)| *of == stem) else { continue };
            match head.stored().filter(|_| head.is_sealed_for(owner)) {
                Some(stored) => {
                    stays.remove(&revision);
                    own.insert(revision, stored.meta());
                }
                None => {
                    own.remove(&revision);
                    stays.insert(revision, name.clone());
                }
            }
        }
        Ok(Everything { own, stays, parts: scan.parts.unwrap_or_default() })
    }

    pub(super) fn scan(
        &self,
        namespace: Option<&str>,
        selector: Selector,
    ) -> impl Stream<Item = Result<Head, Error>> + Send + use<S> {
        stream::try_unfold(Scan::new(self, namespace, selector), |mut scan| async move {
            let found = scan.next().await?;
            Ok(found.map(|head| (head, scan)))
        })
    }
}

/// What there is of a release, by revision.
pub(super) struct Everything {
    /// Records that are sealed for the release.
    pub(super) own: BTreeMap<u32, Meta>,
    /// Names of the other records.
    pub(super) stays: BTreeMap<u32, String>,
    /// Parts, whatever record they are of.
    pub(super) parts: Vec<ObjectMeta>,
}

/// A list that is read page by page. Objects wait packed; one at a time is unpacked.
struct Scan<S> {
    driver: Driver<S>,
    namespace: Option<String>,
    selector: Selector,
    page: VecDeque<Secret>,
    /// Token of the next page; empty for the first.
    next: Option<String>,
    limit: Limit,
    tries: u32,
    /// The metadata of the parts that the list showed beside the records; `None`: not asked for.
    parts: Option<Vec<ObjectMeta>>,
}

impl<S: Shelf> Scan<S> {
    fn new(driver: &Driver<S>, namespace: Option<&str>, selector: Selector) -> Self {
        Self {
            driver: driver.clone(),
            namespace: namespace.map(str::to_owned),
            selector,
            page: VecDeque::new(),
            next: Some(String::new()),
            limit: Limit::default(),
            tries: LIST_TRIES,
            parts: None,
        }
    }

    async fn next(&mut self) -> Result<Option<Head>, Error> {
        loop {
            if let Some(secret) = self.page.pop_front() {
                if is_chunk(&secret.metadata) {
                    self.parts.iter_mut().for_each(|parts| parts.push(secret.metadata.clone()));
                    continue;
                }
                match self.driver.open(secret).await? {
                    // Deleted since it was listed.
                    Head::None => {}
                    head => return Ok(Some(head)),
                }
            } else if let Some(token) = self.next.take() {
                let (namespace, shelf) = (self.namespace.as_deref(), &self.driver.shelf);
                match shelf.scan(namespace, &self.selector, &token, self.limit).await {
                    Ok((Page { items, next }, limit)) => {
                        (self.next, self.limit) = (next, limit);
                        self.page = items.into();
                    }
                    Err(error) if error.is_expired() && self.tries > 1 => {
                        self.tries -= 1;
                        self.next = Some(String::new());
                    }
                    // So many were too much for whoever answers.
                    Err(Error::Timeout { .. }) if let Some(less) = self.limit.less() => {
                        (self.next, self.limit) = (Some(token), less);
                    }
                    Err(error) => return Err(error),
                }
            } else {
                return Ok(None);
            }
        }
    }
}
