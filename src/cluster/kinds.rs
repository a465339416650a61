//! Which REST resource serves a kind: discovery, one call for each group and version, cached.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::core::{ApiResource, GroupVersion, GroupVersionKind};
use kube::discovery::{self, Scope};
use kube::{Client, api::TypeMeta};

use super::{Error, Turns};

/// How long the absence of a kind is believed before the API server is asked again.
const ABSENT_FOR: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(15);

/// A kind as the API server serves it.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: ApiResource,
    pub namespaced: bool,
}

impl Kind {
    /// The scope in the form that dynamic APIs take.
    #[must_use]
    pub fn scope(&self) -> Scope {
        if self.namespaced { Scope::Namespaced } else { Scope::Cluster }
    }
}

/// The kinds of the cluster, looked up on first use.
///
/// A kind that is not in the cache costs one call for its group and version, however many ask at once; a kind that the
/// API server does not know is asked for again after five seconds at the earliest.
pub struct Kinds {
    known: Mutex<HashMap<GroupVersionKind, Lookup>>,
    asking: Turns<GroupVersion>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { known: Mutex::default(), asking: Turns::new(DEADLINE) }
    }
}

#[derive(Clone)]
enum Lookup {
    Served(Kind),
    Absent(Instant),
}

impl Kinds {
    /// Resolves `api_version` and `kind`.
    ///
    /// # Errors
    /// `UnknownKind` when the API server does not serve it, `Discovery` when it cannot be asked.
    pub async fn resolve(&self, client: &Client, api_version: &str, kind: &str) -> Result<Kind, Error> {
        let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let unknown = || Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let gvk = GroupVersionKind::try_from(types).map_err(|_| unknown())?;
        let gv = GroupVersion::gv(&gvk.group, &gvk.version);
        let answer = self.asking.once(&gv, || self.recent(&gvk), self.ask(client, &gv, &gvk));
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(Ok(kind)) => kind.ok_or_else(unknown),
            Ok(Err(error)) => Err(discovery_failed(api_version, error)),
            Err(_) => Err(discovery_failed(api_version, late())),
        }
    }

    /// Asks for all kinds of a group and version. Gives the kind that is wanted, if it is served.
    async fn ask(
        &self,
        client: &Client,
        gv: &GroupVersion,
        wanted: &GroupVersionKind,
    ) -> kube::Result<Option<Kind>> {
        let mut found = None;
        match discovery::pinned_group(client, gv).await {
            Ok(group) => {
                for (resource, capabilities) in group.versioned_resources(&gv.version) {
                    let served = Kind { namespaced: capabilities.scope == Scope::Namespaced, resource };
                    let name = GroupVersionKind::gvk(&gv.group, &gv.version, &served.resource.kind);
                    if name == *wanted {
                        found = Some(served.clone());
                    }
                    self.remember(name, Lookup::Served(served));
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Discovery(_)) => {}
            Err(error) => return Err(error),
        }
        if found.is_none() {
            self.remember(wanted.clone(), Lookup::Absent(Instant::now()));
        }
        Ok(found)
    }

    /// A version of `group` that serves `kind` now, in the form of an `apiVersion`; `None` when no version does. Asks
    /// the API server each time.
    ///
    /// # Errors
    /// `Discovery` when it cannot be asked.
    pub async fn served(&self, client: &Client, group: &str, kind: &str) -> Result<Option<String>, Error> {
        match tokio::time::timeout(DEADLINE, discovery::group(client, group)).await {
            Ok(Ok(found)) => {
                let mut resources = found.resources_by_stability().into_iter();
                Ok(resources.find(|(resource, _)| resource.kind == kind).map(|(found, _)| found.api_version))
            }
            Ok(Err(kube::Error::Discovery(_))) => Ok(None),
            Ok(Err(error)) => Err(discovery_failed(group, error)),
            Err(_) => Err(discovery_failed(group, late())),
        }
    }

    /// Forgets a kind, because a call for it was answered as if it did not exist.
    pub fn forget(&self, api_version: &str, kind: &str) {
        let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
        if let Ok(gvk) = GroupVersionKind::try_from(types) {
            self.lock().remove(&gvk);
        }
    }

    /// Forgets a kind unless it was served.
    pub fn doubt_absence(&self, api_version: &str, kind: &str) {
        let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
        if let Ok(gvk) = GroupVersionKind::try_from(types)
            && matches!(self.cached(&gvk), Some(Lookup::Absent(_)))
        {
            self.lock().remove(&gvk);
        }
    }

    /// What is known and still believed: the kind, or that it is not served.
    fn recent(&self, gvk: &GroupVersionKind) -> Option<Option<Kind>> {
        match self.cached(gvk)? {
            Lookup::Served(kind) => Some(Some(kind)),
            Lookup::Absent(since) => (since.elapsed() < ABSENT_FOR).then_some(None),
        }
    }

    fn cached(&self, gvk: &GroupVersionKind) -> Option<Lookup> {
        self.lock().get(gvk).cloned()
    }

    fn remember(&self, gvk: GroupVersionKind, lookup: Lookup) {
        self.lock().insert(gvk, lookup);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GroupVersionKind, Lookup>> {
        // The map is valid at every step, so a panic elsewhere while it was held does no harm.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn discovery_failed(what: &str, source: kube::Error) -> Error {
    Error::Discovery { api_version: what.to_owned(), source: Box::new(source) }
}

fn late() -> kube::Error {
    let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer within 15s");
    kube::Error::Service(Box::new(late))
}
