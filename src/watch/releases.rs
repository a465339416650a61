//! What the controller's own watch of the releases means for those that depend on each other.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;

use futures::channel::mpsc::UnboundedSender;
use jiff::Timestamp;
use kube::runtime::watcher::Event;

use super::objects::lock;
use crate::api::{Policy, SherpackRelease};
use crate::release::ReleaseKey;
use crate::release::depends::{Blocked, Dependents, Graph, Known};

/// Who waits for whom, fed by every event of the releases; a change wakes those that it concerns.
///
/// Asking and being told are one after the other, so no release that was told "not ready" misses the change.
pub struct Dependencies {
    policy: Policy,
    state: Mutex<State>,
    wake_tx: UnboundedSender<ReleaseKey>,
}

#[derive(Default)]
struct State {
    graph: Graph,
    /// Releases that the running list has shown; the others are gone at its end.
    listed: HashSet<ReleaseKey>,
}

impl Dependencies {
    /// Sends the releases to reconcile to `wake_tx`. `policy` says which dependencies count.
    #[must_use]
    pub fn new(policy: Policy, wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        Self { policy, state: Mutex::default(), wake_tx }
    }

    /// Takes note of an event of the watch of the releases.
    pub fn take(&self, event: &Event<SherpackRelease>) {
        let mut state = lock(&self.state);
        let woken = match event {
            Event::Init => {
                state.listed.clear();
                BTreeSet::new()
            }
            Event::InitApply(release) => {
                let key = ReleaseKey::of(release);
                let woken = state.graph.saw(&key, Known::of(release, &self.policy));
                state.listed.insert(key);
                woken
            }
            Event::Apply(release) => {
                state.graph.saw(&ReleaseKey::of(release), Known::of(release, &self.policy))
            }
            Event::Delete(release) => {
                let key = ReleaseKey::of(release);
                let mut woken = state.graph.lost(&key);
                // It has no finalizer, so no pass has seen it go.
                woken.extend(release.spec.lock.as_ref().map(|_| key));
                woken
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut state.listed);
                let gone: Vec<ReleaseKey> =
                    state.graph.releases().filter(|key| !listed.contains(*key)).cloned().collect();
                let mut woken: BTreeSet<ReleaseKey> =
                    gone.iter().flat_map(|key| state.graph.lost(key)).collect();
                // One of them may have gone without a pass.
                woken.extend(gone);
                woken
            }
        };
        drop(state);
        self.wake(woken);
    }

    /// What stands in the way of installing or upgrading `release`; a change of it wakes the release.
    #[must_use]
    pub fn blocked(&self, release: &ReleaseKey, depends_on: &[ReleaseKey]) -> Option<Blocked> {
        lock(&self.state).graph.blocked(release, depends_on)
    }

    /// The shortest circle of dependencies that `release` is part of; its end wakes the release.
    #[must_use]
    pub fn cycle(&self, release: &ReleaseKey) -> Option<Vec<ReleaseKey>> {
        lock(&self.state).graph.cycle(release)
    }

    /// Who depends on `release`; a change of it wakes the release when it is being deleted.
    #[must_use]
    pub fn dependents(&self, release: &ReleaseKey) -> Dependents {
        lock(&self.state).graph.dependents(release)
    }

    /// Takes note until when a release that is being deleted waits for its dependents, if it does.
    pub fn awaits(&self, release: &ReleaseKey, until: Option<Timestamp>) {
        let woken = lock(&self.state).graph.awaits(release, until);
        self.wake(woken);
    }

    fn wake(&self, releases: impl IntoIterator<Item = ReleaseKey>) {
        for release in releases {
            // The receiver lives as long as the controller; afterwards no release needs waking.
            let _ = self.wake_tx.unbounded_send(release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use futures::channel::mpsc::{self, UnboundedReceiver};
    use serde_json::json;

    fn release(name: &str, depends_on: &[&str]) -> SherpackRelease {
        let depends_on: Vec<_> = depends_on.iter().map(|name| json!({"name": name})).collect();
        serde_json::from_value(json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": name, "namespace": "apps"}, "spec": {"dependsOn": depends_on},
        }))
        .unwrap()
    }

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() }
    }

    fn watched() -> (Dependencies, UnboundedReceiver<ReleaseKey>) {
        let (wake_tx, wake_rx) = mpsc::unbounded();
        (Dependencies::new(Policy::default(), wake_tx), wake_rx)
    }

    async fn woken(dependencies: Dependencies, wake_rx: UnboundedReceiver<ReleaseKey>) -> Vec<String> {
        drop(dependencies);
        wake_rx.map(|key| key.name).collect().await
    }

    #[tokio::test]
    async fn what_a_new_list_does_not_show_is_gone() {
        let (dependencies, wake_rx) = watched();
        for event in [
            Event::Init,
            Event::InitApply(release("db", &[])),
            Event::InitApply(release("web", &["db"])),
            Event::InitDone,
        ] {
            dependencies.take(&event);
        }
        let blocked = |dependencies: &Dependencies| {
            dependencies.blocked(&key("web"), &[key("db")]).unwrap().to_string()
        };
        assert!(blocked(&dependencies).contains("newest spec"));
        for event in [Event::Init, Event::InitApply(release("web", &["db"])), Event::InitDone] {
            dependencies.take(&event);
        }
        assert!(blocked(&dependencies).contains("does not exist"));
        assert_eq!(woken(dependencies, wake_rx).await, ["db", "web"], "what has gone is cleared up after");
    }

    #[tokio::test]
    async fn a_cycle_wakes_its_members_when_it_closes_and_when_it_opens() {
        let (dependencies, wake_rx) = watched();
        dependencies.take(&Event::Apply(release("a", &["b"])));
        dependencies.take(&Event::Apply(release("b", &["a"])));
        assert_eq!(dependencies.cycle(&key("a")), Some(vec![key("a"), key("b"), key("a")]));
        dependencies.take(&Event::Delete(release("b", &["a"])));
        assert_eq!(dependencies.cycle(&key("a")), None);
        assert_eq!(woken(dependencies, wake_rx).await, ["a", "a"]);
    }
}
