//! Tells waits when to look again: one metadata watch for each kind on a control plane, for all tests there.
//!
//! A wait asks the API server only after the watch has told of a change in its namespace, so a test that waits costs
//! nothing while nothing happens.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::control_plane::config;

/// What was changed on one control plane, by kind.
pub struct Changes {
    kubeconfig: PathBuf,
    kinds: Mutex<HashMap<String, Kind>>,
}

/// One watch.
struct Kind {
    namespaces: Arc<Namespaces>,
    listed: watch::Receiver<bool>,
    task: AbortHandle,
}

type Namespaces = Mutex<HashMap<String, watch::Sender<()>>>;

/// Objects of a kind in a namespace; those that have none are in the namespace "".
#[derive(Clone)]
pub struct Place {
    changes: Arc<Changes>,
    resource: ApiResource,
    namespace: String,
}

impl Changes {
    #[must_use]
    pub fn new(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, kinds: Mutex::default() }
    }

    /// Ends all watches: the control plane goes.
    pub fn stop(&self) {
        self.kinds.lock().unwrap().values().for_each(|kind| kind.task.abort());
    }

    fn kind(&self, resource: &ApiResource) -> (Arc<Namespaces>, watch::Receiver<bool>) {
        let mut kinds = self.kinds.lock().unwrap();
        let kind = kinds.entry(resource.kind.clone()).or_insert_with(|| {
            let namespaces = Arc::default();
            let (listed_tx, listed) = watch::channel(false);
            let (told, kubeconfig) = (Arc::clone(&namespaces), self.kubeconfig.clone());
            let follow = follow(kubeconfig, resource.clone(), told, listed_tx);
            Kind { namespaces, listed, task: runtime().spawn(follow).abort_handle() }
        });
        (Arc::clone(&kind.namespaces), kind.listed.clone())
    }
}

impl Place {
    #[must_use]
    pub fn new(changes: &Arc<Changes>, resource: ApiResource, namespace: &str) -> Self {
        Self { changes: Arc::clone(changes), resource, namespace: namespace.to_owned() }
    }

    /// Changes here from now on. Waits until the watch has begun, as long as the API server answers.
    pub async fn news(&self) -> watch::Receiver<()> {
        let (namespaces, mut listed) = self.changes.kind(&self.resource);
        let news = namespaces.lock().unwrap().entry(self.namespace.clone()).or_default().subscribe();
        // A control plane that a test has stopped answers nothing; the wait then goes by its own clock.
        let _ = tokio::time::timeout(super::wait::UNTOLD, listed.wait_for(|listed| *listed)).await;
        news
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.changes, &other.changes)
            && self.resource == other.resource
            && self.namespace == other.namespace
    }
}

/// The watches outlive the test that happens to need one first, so they have a runtime of their own.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    })
}

async fn follow(
    kubeconfig: PathBuf,
    resource: ApiResource,
    namespaces: Arc<Namespaces>,
    listed: watch::Sender<bool>,
) {
    let client = Client::try_from(config(&kubeconfig).await).unwrap();
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
    // A broken watch begins again at once, and a kind that is not served yet is soon asked for again.
    let mut events = watcher(api, watcher::Config::default()).boxed();
    while let Some(event) = events.next().await {
        let namespaces = || namespaces.lock().unwrap();
        match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::Delete(object)) => {
                if let Some(namespace) = namespaces().get(&object.namespace().unwrap_or_default()) {
                    namespace.send_replace(());
                }
            }
            // Anything may have happened while no watch was open.
            Ok(watcher::Event::InitDone) => {
                namespaces().values().for_each(|namespace| namespace.send_replace(()));
                listed.send_replace(true);
            }
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
            Err(_) => tokio::time::sleep(super::wait::UNTOLD).await,
        }
    }
}
