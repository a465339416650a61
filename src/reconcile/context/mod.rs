//! What every pass shares.

pub(super) mod budget;
pub(super) mod error;
pub(super) mod fair;
pub(super) mod let_go;
pub(super) mod name_claims;
pub(super) mod packs;
pub(super) mod review_cache;
mod scope;
pub(super) mod sharing;
pub(super) mod throttle;
pub(super) mod values;
pub(super) mod walks;

pub(in crate::reconcile) use scope::{Scope, has_finalizer, records_of, until};

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};

use super::Error;
use crate::api::{ActsAs, Bounded, LockOf, Policy, SherpackRelease, SherpackReleaseStatus, reasons};
use crate::cluster::{Account, Cluster, version_of};
use crate::pack::render::Capabilities;
use crate::reconcile::context::budget::Budget;
use crate::reconcile::context::let_go::LetGo;
use crate::reconcile::context::name_claims::NameClaims;
use crate::reconcile::context::packs::Packs;
use crate::reconcile::context::review_cache::Rights;
use crate::reconcile::context::sharing::Sharing;
use crate::reconcile::context::throttle::Calm;
use crate::reconcile::context::values::ValuesKept;
use crate::reconcile::context::walks::Walks;
use crate::release::{Action, ReleaseKey};
use crate::source::fetch::Fetcher;
use crate::storage::{Stored, Stores};
use crate::watch::probe::Prober;
use crate::watch::{Dependencies, ObjectWatches, RecordWatch, RecordsOf, ReferenceWatch};

/// Shared by all passes.
pub struct Context {
    pub records: Stores,
    /// The cluster as the operator. What belongs to a release goes through that of its pass.
    pub as_operator: Arc<Cluster>,
    pub rights: Rights,
    pub objects: ObjectWatches,
    /// Of what others installed and releases only lock.
    pub guards: ObjectWatches,
    pub record_watch: RecordWatch,
    pub references: ReferenceWatch,
    /// What accounts were answered about names in other namespaces.
    pub names: NameClaims,
    pub packs: Packs,
    pub values: ValuesKept,
    /// Memory for what passes work with.
    pub budget: Budget,
    pub fetcher: Fetcher,
    pub prober: Prober,
    pub pack_dir: Option<PathBuf>,
    /// All releases, from the controller's own watch.
    pub releases: Store<SherpackRelease>,
    /// Who waits for whom among them.
    pub dependencies: Arc<Dependencies>,
    /// Releases that are gone, as long as the watch does not know that.
    pub let_go: LetGo,
    /// Whether reports about drift may be made.
    pub calm: Calm,
    /// Who leaves a shared definition to whom.
    pub sharing: Sharing,
    /// Walks over the objects of definitions that are to change.
    pub walks: Walks,
    /// Newest records of this operator read at start, slim, taken by the first pass of each release.
    pub preloaded: Mutex<HashMap<RecordsOf, Box<Stored>>>,
    /// Older revisions that still called themselves the newest at start: a crash came before they were superseded.
    pub outdated: Mutex<HashMap<RecordsOf, Vec<u32>>>,
    pub capabilities: Arc<Capabilities>,
    pub policy: Policy,
    /// Namespaces that `lookup` of any release may read, beside its own; `*`: everything.
    pub allowed_lookups: Arc<[String]>,
    /// Identity of this process.
    pub holder: String,
    pub report: Arc<dyn Report>,
}

/// What the outside is told about releases: metrics and Events.
pub trait Report: Send + Sync {
    /// A pass left this status.
    fn release(&self, key: &ReleaseKey, snapshot: Snapshot<'_>);
    /// A release is gone.
    fn forget(&self, key: &ReleaseKey);
    /// Something a person should know.
    fn event(&self, release: &SherpackRelease, warning: bool, reason: &str, action: &str, note: String);
    fn operation(&self, key: &ReleaseKey, action: Action, outcome: &'static str, took: Duration);
    /// A run of a hook ended.
    fn hook(&self, key: &ReleaseKey, phase: &'static str, outcome: &'static str);
    /// An object was put back; `seconds` since its change was seen, if it was.
    fn reverted(&self, key: &ReleaseKey, kind: &str, manager: Option<&str>, seconds: Option<f64>);
    /// A definition was compared with the one in the cluster: how many changes of which severity.
    fn definition_changes(&self, key: &ReleaseKey, severity: &'static str, count: usize);
    fn fetched(&self, kind: &'static str, succeeded: bool);
    fn decided(&self, decision: &'static str, took: Duration);
    fn failed(&self, reason: &'static str);
}

/// What metrics show of a release.
pub struct Snapshot<'a> {
    pub status: &'a SherpackReleaseStatus,
    /// State of the newest record.
    pub state: Option<&'static str>,
}

/// Where a release of some name is.
enum Whereabouts {
    /// Our watch shows it.
    Watched,
    /// Only the API server does; with this uid.
    Elsewhere(Option<String>),
    Nowhere,
    /// Not ours to know, so not ours to take.
    Hidden,
}

/// So long a call about the release itself may take.
const DEADLINE: Duration = Duration::from_secs(15);
/// How often, and how far apart, the cache is asked for what we wrote before the API server is.
const LOOKS_AT_CACHE: usize = 4;
const CACHE_CATCHES_UP: Duration = Duration::from_millis(5);

impl Context {
    /// The release as it is now: the cached one, or a read when the cache is older than our own last write.
    pub(super) async fn current(
        &self,
        cached: &Arc<SherpackRelease>,
        own_version: u64,
    ) -> Result<Option<Arc<SherpackRelease>>, Error> {
        if version_of(&cached.metadata) >= own_version {
            return Ok(Some(Arc::clone(cached)));
        }
        // Mostly the watch brings it in a moment.
        for _ in 0..LOOKS_AT_CACHE {
            tokio::time::sleep(CACHE_CATCHES_UP).await;
            let newer = self.releases.get(&ObjectRef::from_obj(cached.as_ref()));
            if let Some(newer) = newer.filter(|newer| version_of(&newer.metadata) >= own_version) {
                return Ok(Some(newer).filter(|newer| newer.uid() == cached.uid()));
            }
        }
        let name = cached.name_any();
        let found = own("state", self.api(cached).get_opt(&name)).await?;
        // One of the same name that was made anew is another release.
        Ok(found.filter(|found| found.uid() == cached.uid()).map(Arc::new))
    }

    /// The cluster for a release: as its service account if it has one.
    pub(in crate::reconcile) fn cluster_of(&self, acts_as: &ActsAs, key: &ReleaseKey) -> Arc<Cluster> {
        match acts_as {
            ActsAs::Operator => Arc::clone(&self.as_operator),
            ActsAs::Nobody => Arc::new(self.as_operator.acting_as_nobody()),
            ActsAs::ServiceAccount(name) => {
                let account = Account { namespace: key.namespace.clone(), name: name.clone() };
                Arc::new(self.as_operator.acting_as(&account))
            }
        }
    }

    /// Tells of the durations that the spec asks for and that are out of range: once for each wording.
    pub(super) fn tell_bounded(
        &self,
        release: &SherpackRelease,
        bounded: &[Bounded],
        told: &mut Vec<Bounded>,
    ) {
        for one in bounded.iter().filter(|one| !told.contains(one)) {
            self.report.event(release, true, reasons::DURATION_OUT_OF_RANGE, "Validate", one.to_string());
        }
        if told != bounded {
            *told = bounded.to_vec();
        }
    }

    /// Ends everything that is kept for a release that is gone, and wakes those that waited for its name.
    pub(super) fn forget(&self, key: &ReleaseKey, release: &SherpackRelease, lock: Option<&LockOf>) {
        self.forget_key(key, lock);
        self.wake_rivals(key, release);
        for sharing in self.sharing.of(key) {
            self.objects.wake(&sharing);
        }
    }

    /// Ends everything that is kept for a release that another operator works on. Who waits for its name waits on.
    pub(super) fn leave(&self, key: &ReleaseKey, records: &RecordsOf, lock: Option<&LockOf>) {
        self.forget_key(key, lock);
        let mut preloaded = self.preloaded.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed = take_sealed(&mut preloaded, records, key);
        drop(preloaded);
        if sealed {
            self.outdated(records);
        }
    }

    /// Ends everything that is kept for a release that is not there any more. `lock`: what it locked, if no pass of it runs.
    pub(super) fn forget_key(&self, key: &ReleaseKey, lock: Option<&LockOf>) {
        self.record_watch.claim(key, &[]);
        self.names.forget(key);
        if let Some(lock) = lock {
            self.wake_locks(key, lock);
        }
        self.objects.table().forget_all(key);
        self.objects.retain_kinds(key, &std::collections::BTreeSet::new());
        self.guards.table().forget_all(key);
        self.guards.retain(key, |_| false);
        self.references.refer(key, std::collections::HashSet::new());
        self.values.retain(|reference| self.references.is_used(reference));
        self.fetcher.leave(key);
        self.prober.retain(key, |_| false);
        self.sharing.forget(key);
        self.walks.forget(key);
        self.budget.forget(key);
        self.packs.turns.forget(key);
        self.report.forget(key);
    }

    /// Our finalizer is gone from this very release, and the watch does not know that yet.
    pub(super) fn was_let_go(&self, release: &SherpackRelease) -> bool {
        self.let_go.contains(&ReleaseKey::of(release), release.metadata.uid.as_deref())
    }

    /// Whether objects of a release are not as they were last applied, as far as the watches tell.
    #[must_use]
    pub fn has_drifted(&self, key: &ReleaseKey) -> bool {
        !self.objects.suspicions(key).is_empty() || !self.guards.suspicions(key).is_empty()
    }

    /// The living release with this uid.
    pub(super) fn living(&self, uid: &str) -> Option<ReleaseKey> {
        let found = self
            .releases
            .find(|release| release.metadata.uid.as_deref() == Some(uid) && !self.was_let_go(release));
        found.map(|release| ReleaseKey::of(&release))
    }

    /// Whether there is no such release any more.
    pub(super) async fn departed(&self, key: &ReleaseKey) -> Result<bool, Error> {
        Ok(match self.whereabouts(key).await? {
            Whereabouts::Watched | Whereabouts::Hidden | Whereabouts::Elsewhere(_) => false,
            Whereabouts::Nowhere => true,
        })
    }

    /// Whether a release that we do not watch is there, with this uid.
    pub(super) async fn lives_elsewhere(&self, key: &ReleaseKey, uid: &str) -> Result<bool, Error> {
        Ok(match self.whereabouts(key).await? {
            Whereabouts::Watched | Whereabouts::Nowhere => false,
            Whereabouts::Hidden => true,
            Whereabouts::Elsewhere(found) => found.as_deref() == Some(uid),
        })
    }

    /// A release that we do not watch may be there all the same, so about what the cache does not show the API server is asked.
    async fn whereabouts(&self, key: &ReleaseKey) -> Result<Whereabouts, Error> {
        let watched =
            |release: &SherpackRelease| ReleaseKey::of(release) == *key && !self.was_let_go(release);
        if self.releases.find(watched).is_some() {
            return Ok(Whereabouts::Watched);
        }
        let api: Api<SherpackRelease> = Api::namespaced(self.as_operator.client().clone(), &key.namespace);
        match own("state", api.get_metadata_opt(&key.name)).await {
            Ok(Some(found)) => Ok(Whereabouts::Elsewhere(found.metadata.uid)),
            Ok(None) => Ok(Whereabouts::Nowhere),
            Err(Error::Own { source, .. }) if crate::cluster::status_code(&source) == Some(403) => {
                Ok(Whereabouts::Hidden)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the API server still has this very release, with our finalizer on it.
    pub(super) async fn still_ours(&self, release: &SherpackRelease) -> Result<bool, Error> {
        let found = own("state", self.api(release).get_metadata_opt(&release.name_any())).await?;
        let same = |found: &ObjectMeta| found.uid == release.metadata.uid && has_finalizer(found);
        Ok(found.is_some_and(|found| same(&found.metadata)))
    }

    pub(in crate::reconcile) fn api(&self, release: &SherpackRelease) -> Api<SherpackRelease> {
        let client: Client = self.as_operator.client().clone();
        Api::namespaced(client, release.namespace().as_deref().unwrap_or_default())
    }

    /// The newest record of a name as the start-up list showed it; given once.
    pub(super) fn preloaded(&self, of: &RecordsOf) -> Option<Box<Stored>> {
        self.preloaded.lock().unwrap_or_else(PoisonError::into_inner).remove(of)
    }

    /// Older revisions of a name that still call themselves the newest; given once.
    pub(super) fn outdated(&self, of: &RecordsOf) -> Vec<u32> {
        self.outdated.lock().unwrap_or_else(PoisonError::into_inner).remove(of).unwrap_or_default()
    }
}

pub(in crate::reconcile) async fn own<T>(
    what: &'static str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Error::Own { what, source: Box::new(source) }),
        Err(_) => Err(Error::OwnTimeout { what, after: DEADLINE }),
    }
}

/// Drops a record that is sealed for a release, and says whether there was one. A spec may name the records of any other
/// release, whose own pass needs what was read at start.
fn take_sealed(preloaded: &mut HashMap<RecordsOf, Box<Stored>>, of: &RecordsOf, owner: &ReleaseKey) -> bool {
    let sealed = preloaded.get(of).is_some_and(|stored| stored.is_sealed_for(owner));
    if sealed {
        preloaded.remove(of);
    }
    sealed
}

impl ReleaseKey {
    /// The key of a release.
    #[must_use]
    pub fn of(release: &SherpackRelease) -> Self {
        Self { namespace: release.namespace().unwrap_or_default(), name: release.name_any() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::HistoryStorage;
    use crate::storage::samples::{owner, private, record};
    use crate::storage::{MacKey, MemoryRecords, Records};

    #[tokio::test]
    async fn a_release_of_no_shard_does_not_take_what_is_known_of_the_one_whose_records_it_names() {
        let records = MemoryRecords::new(MacKey::new([7; 32]));
        let stored = records.create(&record(1), &private(1)).await.unwrap();
        let of = RecordsOf {
            storage: HistoryStorage::Secret,
            namespace: "apps".to_owned(),
            stem: "web".to_owned(),
        };
        let mut preloaded = HashMap::from([(of.clone(), Box::new(stored))]);
        let evil = ReleaseKey { namespace: "evil".to_owned(), name: "s".to_owned() };
        assert!(!take_sealed(&mut preloaded, &of, &evil) && preloaded.contains_key(&of));
        assert!(take_sealed(&mut preloaded, &of, &owner()) && preloaded.is_empty());
    }
}
