//! Reading: lists page by page, and records with the parts that they need.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Driver, PARALLEL, off_thread};
use crate::release::{Record, ReleaseKey, revision_of};
use crate::storage::{
    Error, Head, Marked, Meta, Records, Stored,
    backend::{Backend, LIST_TRIES, Page, Selector, names_of, page::Limit},
    codec::{self, MAX_JSON_BYTES, Needs, Parts},
    head::{is_chunk, slim::Keep},
    unpacking::SMALL,
    unreadable::{Fault, Unreadable},
};

/// How often a record is read whose parts change while they are read.
const READ_TRIES: u32 = 3;

/// What is read of a record.
enum Read<E> {
    Head(Head),
    /// There is no room for it.
    NoRoom(E),
    /// Its parts are not there, or not those that it was written with: why.
    Torn(String),
}

impl<S: Backend> Driver<S> {
    pub(super) async fn newest_as<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        keep: Keep,
        room: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<Result<Head, E>, Error> {
        let mut room = Some(room);
        // Retention or an uninstall may take the record away between the two calls; the list is asked once more then.
        for _ in 0..2 {
            let Some(newest) = self.list(namespace, release).await?.pop() else { break };
            let name = Record::key_of(&self.stem(namespace, release), newest.revision);
            let Some(main) = self.backend.get(self.place(namespace), &name).await? else { continue };
            match self.open_in(main, keep, &mut room).await? {
                Ok(Head::None) => {}
                read => return Ok(read),
            }
        }
        Ok(Ok(Head::None))
    }

    /// Reads the parts of a record, if it has any, and then the record.
    pub(super) async fn open(&self, main: Secret, keep: Keep) -> Result<Head, Error> {
        let Ok(head) = self.open_in(main, keep, &mut Some(|| Ok::<(), Infallible>(()))).await?;
        Ok(head)
    }

    /// As [`open`](Self::open); `room` is asked once, before a large record is fetched and unpacked.
    pub(super) async fn open_in<E: Send>(
        &self,
        mut main: Secret,
        keep: Keep,
        room: &mut Option<impl FnOnce() -> Result<(), E> + Send>,
    ) -> Result<Result<Head, E>, Error> {
        for _ in 0..READ_TRIES {
            let why = match self.read(&main, keep, room).await? {
                Read::Head(head) => return Ok(Ok(head)),
                Read::NoRoom(error) => return Ok(Err(error)),
                Read::Torn(why) => why,
            };
            // Missing for good, or was the record just written anew?
            let (namespace, name) = names_of(&main);
            let Some(again) = self.backend.get(namespace, name).await? else { return Ok(Ok(Head::None)) };
            if again.metadata.resource_version == main.metadata.resource_version {
                let text = format!("{why}; restore it from a backup");
                let unreadable = Unreadable::of(&main.metadata, Fault::Damaged, text);
                return Ok(Ok(Head::Unreadable(unreadable)));
            }
            main = again;
        }
        let (namespace, name) = names_of(&main);
        Err(Error::Conflict { what: format!("read {} {namespace}/{name}", S::KIND) })
    }

    async fn read<E: Send>(
        &self,
        main: &Secret,
        keep: Keep,
        room: &mut Option<impl FnOnce() -> Result<(), E> + Send>,
    ) -> Result<Read<E>, Error> {
        let needs = match codec::needs(main) {
            Ok(needs) => needs,
            Err(unreadable) => return Ok(Read::Head(Head::Unreadable(unreadable))),
        };
        if needs == Needs::Nothing {
            let small = Head::of(main, &Parts::default(), &self.keys.ring(), SMALL);
            if !small.is_too_large() {
                return Ok(Read::Head(keep.of(small)));
            }
        }
        if let Some(Err(error)) = room.take().map(|room| room()) {
            return Ok(Read::NoRoom(error));
        }
        let turn = self.unpacking.turn().await;
        let parts = match self.parts(main, needs).await? {
            Ok(parts) => parts,
            Err(why) => return Ok(Read::Torn(why)),
        };
        let (main, ring) = (main.clone(), self.keys.ring());
        let unpack = move || {
            let head = keep.of(Head::of(&main, &parts, &ring, MAX_JSON_BYTES));
            // Also when no pass waits for it any more, the turn ends with the work.
            drop((parts, turn));
            head
        };
        off_thread("unpack a record", unpack).await.map(Read::Head)
    }

    /// A record that is marked as a newest one; `None` if it has gone, or is no record.
    pub(super) async fn marked(&self, main: Secret) -> Result<Option<Marked>, Error> {
        let (namespace, name) = names_of(&main);
        let Some(marked) = Marked::named(namespace, name) else { return Ok(None) };
        let needs = match codec::needs(&main) {
            // Other tools do not list their parts.
            Ok(needs) if codec::may_be_sealed(&main) && !matches!(needs, Needs::Labelled { .. }) => needs,
            _ => return Ok(Some(marked)),
        };
        let turn = self.unpacking.turn().await;
        // One that is torn, or changes while it is read, is read by the pass of its release.
        let Ok(parts) = self.parts(&main, needs).await? else { return Ok(Some(marked)) };
        let ring = self.keys.ring();
        let unpack = move || {
            let sealed = Stored::sealed(&main, &parts, &ring);
            drop((parts, turn));
            sealed
        };
        let sealed = off_thread("unpack a record", unpack).await?;
        Ok(Some(Marked { sealed, ..marked }))
    }

    /// The parts that a record needs, or why they are not all there.
    async fn parts(&self, main: &Secret, needs: Needs) -> Result<Result<Parts, String>, Error> {
        match needs {
            Needs::Nothing => Ok(Ok(Parts::default())),
            Needs::Named(names) => self.named(main, names).await,
            Needs::Labelled { parent, count } => self.labelled(main, &parent, count).await,
        }
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
            let page = self.backend.list(namespace, &Selector::siblings(parent), &token).await?;
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
            let part = self.backend.get(namespace, &name).await?;
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

    /// The revisions of a release, one in memory at a time.
    pub(super) fn revisions(
        &self,
        namespace: &str,
        release: &str,
        keep: Keep,
    ) -> impl Stream<Item = Result<Head, Error>> + Send {
        let (stem, all) = (self.stem(namespace, release), Selector::records(release));
        let opened = self.scan(Some(self.place(namespace)), all).and_then(move |main| self.open(main, keep));
        opened.try_filter(move |head| {
            // In a namespace that keeps the records of several, another release may have the same name. One that was
            // deleted since it was listed is none.
            let own = head.stem().is_none_or(|of| of == stem) && !matches!(head, Head::None);
            std::future::ready(own)
        })
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
        while let Some(main) = scan.next().await? {
            let head = self.open(main, Keep::Slim).await?;
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

    /// The main objects of records, packed as they are.
    pub(super) fn scan(
        &self,
        namespace: Option<&str>,
        selector: Selector,
    ) -> impl Stream<Item = Result<Secret, Error>> + Send + use<S> {
        stream::try_unfold(Scan::new(self, namespace, selector), |mut scan| async move {
            let found = scan.next().await?;
            Ok(found.map(|main| (main, scan)))
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

/// A list that is read page by page. Objects wait packed; one at a time is given.
struct Scan<S> {
    backend: S,
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

impl<S: Backend> Scan<S> {
    fn new(driver: &Driver<S>, namespace: Option<&str>, selector: Selector) -> Self {
        Self {
            backend: driver.backend.clone(),
            namespace: namespace.map(str::to_owned),
            selector,
            page: VecDeque::new(),
            next: Some(String::new()),
            limit: Limit::default(),
            tries: LIST_TRIES,
            parts: None,
        }
    }

    async fn next(&mut self) -> Result<Option<Secret>, Error> {
        loop {
            if let Some(secret) = self.page.pop_front() {
                if is_chunk(&secret.metadata) {
                    self.parts.iter_mut().for_each(|parts| parts.push(secret.metadata.clone()));
                    continue;
                }
                return Ok(Some(secret));
            } else if let Some(token) = self.next.take() {
                let (namespace, backend) = (self.namespace.as_deref(), &self.backend);
                match backend.scan(namespace, &self.selector, &token, self.limit).await {
                    Ok((Page { items, next }, limit)) => {
                        (self.next, self.limit) = (next, limit);
                        self.page = items.into();
                    }
                    Err(error) if error.is_expired() && self.tries > 1 => {
                        self.tries -= 1;
                        self.next = Some(String::new());
                    }
                    // So many were too much for the server that answers.
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
