//! Watches the objects of a release, one watch for each kind and namespace. Who may not watch a kind learns of its
//! objects from the status alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::board::Sight;
use crate::api::{SherpackRelease, SherpackReleaseStatus, names};
use crate::cli::cluster::{Place, keeping};
use crate::cli::output::answer::story;
use crate::cluster::{Cluster, Kind, describe, status_code};
use crate::health::{Health, assess};
use crate::manifest::{Object, ObjectId, yaml};
use crate::storage::unverified::{self, Found};
use crate::storage::{Keeping, Stores};

/// Sights that may wait to be drawn.
const QUEUE: usize = 64;
/// Looks in flight.
const PARALLEL: usize = 8;
/// Objects in one page of a list.
const PAGE: u32 = 100;

/// What a watch tells.
pub(super) enum Seen {
    Object(ObjectId, Sight),
    /// A kind cannot be watched: why.
    Blind(String),
}

/// The objects of the newest revision, and a watch for each of their kinds. Ends its watches when it is dropped.
pub(super) struct Objects {
    cluster: Cluster,
    stores: Stores,
    keeping: Keeping,
    namespace: String,
    release: String,
    /// Labels that every object of the release carries.
    selector: String,
    /// The revision that was last looked up; outer `None`: none yet.
    looked_up: Option<Option<i64>>,
    blind: bool,
    /// The version under which each object is asked for.
    versions: BTreeMap<ObjectId, String>,
    watched: BTreeSet<(String, String, Option<String>)>,
    tasks: JoinSet<()>,
    seen_tx: mpsc::Sender<Seen>,
    seen_rx: mpsc::Receiver<Seen>,
}

impl Objects {
    pub(super) fn new(place: &Place, release: &SherpackRelease, stores: Stores) -> Self {
        let (seen_tx, seen_rx) = mpsc::channel(QUEUE);
        let (name, namespace) = (release.release_name(), &place.namespace);
        Self {
            cluster: Cluster::new(place.client.clone()),
            stores,
            keeping: keeping(release),
            namespace: release.target_namespace().to_owned(),
            release: name.to_owned(),
            selector: format!("{}={name},{}={namespace}", names::RELEASE_NAME, names::RELEASE_NAMESPACE),
            looked_up: None,
            blind: false,
            versions: BTreeMap::new(),
            watched: BTreeSet::new(),
            tasks: JoinSet::new(),
            seen_tx,
            seen_rx,
        }
    }

    /// The next thing that a watch tells; never ends.
    pub(super) async fn next(&mut self) -> Seen {
        match self.seen_rx.recv().await {
            Some(seen) => seen,
            // Never: this holds a sender itself.
            None => std::future::pending().await,
        }
    }

    /// The objects of the revision that the status speaks of, if it is another one than before.
    pub(super) async fn of(&mut self, status: &SherpackReleaseStatus) -> Option<Vec<ObjectId>> {
        let revision = status.operation.as_ref().and_then(|operation| operation.revision).or(status.revision);
        if self.looked_up == Some(revision) {
            return None;
        }
        self.looked_up = Some(revision);
        let records = self.stores.of(&self.keeping);
        let found = unverified::find(&records, &self.namespace, &self.release, None).await;
        let manifest = match found {
            Ok(Found::Record(stored)) => stored.record.manifest,
            Ok(Found::Nothing) => return None,
            Ok(Found::Unreadable(unreadable)) => return self.without_record(&unreadable.to_string()),
            Err(error) => return self.without_record(&error.to_string()),
        };
        let documents = yaml::parse_lenient(&manifest, "the manifest").unwrap_or_default();
        let objects = documents.into_iter().filter_map(|document| Object::from_value(document).ok());
        self.versions.clear();
        for mut object in objects.collect::<Vec<_>>() {
            // Another tool leaves the namespace open.
            if object.id.namespace.is_none()
                && let Ok(kind) = self.cluster.kind(&object.api_version, &object.id.kind).await
                && kind.namespaced
            {
                object.id.namespace = Some(self.namespace.clone());
            }
            self.versions.insert(object.id, object.api_version);
        }
        self.watch().await;
        Some(self.versions.keys().cloned().collect())
    }

    fn without_record(&mut self, message: &str) -> Option<Vec<ObjectId>> {
        if !self.blind {
            story(&format!(
                "the lines are from the status alone, because its newest revision cannot be read: {message}"
            ));
        }
        self.blind = true;
        None
    }

    /// Watches every kind that is not watched yet.
    async fn watch(&mut self) {
        let mut scopes: BTreeMap<(String, String, Option<String>), BTreeSet<ObjectId>> = BTreeMap::new();
        for (id, version) in &self.versions {
            let scope = (version.clone(), id.kind.clone(), id.namespace.clone());
            scopes.entry(scope).or_default().insert(id.clone());
        }
        for (scope, wanted) in scopes {
            if self.watched.contains(&scope) {
                continue;
            }
            let (version, kind, namespace) = scope.clone();
            // One that is not served yet comes with a later revision, or is told of by the status.
            let Ok(kind) = self.cluster.kind(&version, &kind).await else { continue };
            self.watched.insert(scope);
            let api = api(self.cluster.client(), &kind, namespace.as_deref());
            let watch = Watch {
                api_version: version,
                group: kind.resource.group.clone(),
                kind: kind.resource.kind.clone(),
                known: wanted,
                again: HashMap::new(),
                seen_tx: self.seen_tx.clone(),
            };
            self.tasks.spawn(watch.run(api, self.selector.clone()));
        }
    }

    /// Objects as they are now, without those that cannot be asked for.
    pub(super) async fn look(&self, ids: Vec<ObjectId>, now: Timestamp) -> Vec<(ObjectId, Sight)> {
        let looks = ids.into_iter().map(|id| async move {
            let found = self.cluster.get(self.versions.get(&id)?, &id).await.ok()?;
            let sight = found.map_or(Sight::Gone, |found| Sight::There(assess(&found.value(), None, now)));
            Some((id, sight))
        });
        let seen: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
        seen.into_iter().flatten().collect()
    }
}

fn api(client: &Client, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
    let api = Api::dynamic(client.clone(), &kind.resource, &kind.scope());
    match namespace {
        Some(namespace) => api.constrain(namespace),
        None => api,
    }
}

/// The watch of one kind in one namespace.
struct Watch {
    api_version: String,
    group: String,
    kind: String,
    /// What must be there, and what was.
    known: BTreeSet<ObjectId>,
    /// Objects whose health changes by time alone.
    again: HashMap<ObjectId, (Value, Instant)>,
    seen_tx: mpsc::Sender<Seen>,
}

impl Watch {
    async fn run(mut self, api: Api<DynamicObject>, selector: String) {
        let config = watcher::Config::default().labels(&selector).page_size(PAGE);
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        let mut listed = BTreeSet::new();
        loop {
            let due = self.again.values().map(|(_, at)| *at).min();
            let told = tokio::select! {
                event = events.next() => match event {
                    Some(Ok(watcher::Event::Init)) => {
                        listed.clear();
                        Ok(())
                    }
                    Some(Ok(watcher::Event::InitApply(object))) => {
                        listed.insert(self.id(&object));
                        self.there(object).await
                    }
                    Some(Ok(watcher::Event::InitDone)) => self.missing(&listed).await,
                    Some(Ok(watcher::Event::Apply(object))) => self.there(object).await,
                    Some(Ok(watcher::Event::Delete(object))) => {
                        let id = self.id(&object);
                        self.gone(id).await
                    }
                    Some(Err(error)) => match refusal(&error) {
                        Some(message) => {
                            let kind = &self.kind;
                            let message = format!("the lines of {kind} are from the status alone: {message}");
                            let _ = self.seen_tx.send(Seen::Blind(message)).await;
                            return;
                        }
                        // The watch tries again.
                        None => Ok(()),
                    },
                    None => return,
                },
                () = super::until(due), if due.is_some() => self.due(Instant::now()).await,
            };
            if told.is_err() {
                // The command has ended.
                return;
            }
        }
    }

    fn id(&self, object: &DynamicObject) -> ObjectId {
        ObjectId {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: object.namespace(),
            name: object.name_any(),
        }
    }

    async fn there(&mut self, mut object: DynamicObject) -> Result<(), ()> {
        let id = self.id(&object);
        object.metadata.managed_fields = None;
        let mut value = serde_json::to_value(&object).unwrap_or_default();
        // Items of a list do not say what they are.
        value["apiVersion"] = self.api_version.clone().into();
        value["kind"] = self.kind.clone().into();
        self.known.insert(id.clone());
        self.assess(id, value).await
    }

    async fn assess(&mut self, id: ObjectId, value: Value) -> Result<(), ()> {
        let health: Health = assess(&value, None, Timestamp::now());
        match health.recheck_in.and_then(|after| Instant::now().checked_add(after)) {
            Some(at) => drop(self.again.insert(id.clone(), (value, at))),
            None => drop(self.again.remove(&id)),
        }
        self.tell(id, Sight::There(health)).await
    }

    async fn due(&mut self, now: Instant) -> Result<(), ()> {
        let due: Vec<ObjectId> =
            self.again.iter().filter(|(_, (_, at))| *at <= now).map(|(id, _)| id.clone()).collect();
        for id in due {
            if let Some((value, _)) = self.again.remove(&id) {
                self.assess(id, value).await?;
            }
        }
        Ok(())
    }

    async fn missing(&mut self, listed: &BTreeSet<ObjectId>) -> Result<(), ()> {
        for id in self.known.difference(listed).cloned().collect::<Vec<_>>() {
            self.gone(id).await?;
        }
        Ok(())
    }

    async fn gone(&mut self, id: ObjectId) -> Result<(), ()> {
        self.again.remove(&id);
        self.tell(id, Sight::Gone).await
    }

    async fn tell(&self, id: ObjectId, sight: Sight) -> Result<(), ()> {
        self.seen_tx.send(Seen::Object(id, sight)).await.map_err(drop)
    }
}

/// What another try will not change.
fn refusal(error: &watcher::Error) -> Option<String> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error)
            if matches!(status_code(error), Some(401 | 403 | 404 | 405)) =>
        {
            Some(describe(error))
        }
        _ => None,
    }
}
