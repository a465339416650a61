//! Tells the outside what happens to releases: metrics at once, Events through a bounded queue.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::keys::OnRestore;
use super::metrics::{self, Metrics};
use crate::api::{NAME_MAX, SherpackRelease, conditions, names, reasons};
use crate::reconcile::{Report, Snapshot};
use crate::release::{Action, ReleaseKey};

/// Events that may wait for the API server before new ones are dropped.
const QUEUE: usize = 1024;
const DEADLINE: Duration = Duration::from_secs(10);

/// The reporter of the process.
pub(super) struct Outside {
    metrics: Arc<Metrics>,
    events_tx: mpsc::Sender<(ObjectReference, Event)>,
}

impl Outside {
    /// Starts the task that publishes Events; it ends with the sender or with `shutdown`.
    pub(super) fn start(
        client: Client,
        holder: String,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
    ) -> Self {
        let (events_tx, events_rx) = mpsc::channel(QUEUE);
        let reporter = Reporter { controller: names::MANAGER_OWN.to_owned(), instance: Some(holder) };
        tokio::spawn(publish(Recorders { client, reporter, by_note: HashMap::new() }, events_rx, shutdown));
        Self { metrics, events_tx }
    }
}

impl Outside {
    /// What tells of a Secret that was written again.
    pub(super) fn on_restore(&self) -> OnRestore {
        let events_tx = self.events_tx.clone();
        Box::new(move |secret, note| {
            tracing::warn!(reason = reasons::RECORD_KEY_RESTORED, note, "event");
            let event = Event {
                type_: EventType::Warning,
                reason: reasons::RECORD_KEY_RESTORED.to_owned(),
                note: Some(conditions::clip(note)),
                action: "Restore".to_owned(),
                secondary: None,
            };
            // The line above says the same.
            let _ = events_tx.try_send((secret.clone(), event));
        })
    }
}

/// One recorder for each thing that is told: a recorder counts an Event of the same reason up whatever it says, and
/// the note of the first one would stand for all.
struct Recorders {
    client: Client,
    reporter: Reporter,
    by_note: HashMap<u64, Recorder>,
}

impl Recorders {
    /// Forgetting only means that a repeated Event begins anew.
    const LIMIT: usize = 256;

    fn of(&mut self, event: &Event, about: &ObjectReference) -> &Recorder {
        let mut hasher = DefaultHasher::new();
        (&about.uid, &event.reason, &event.note).hash(&mut hasher);
        let told = hasher.finish();
        if self.by_note.len() >= Self::LIMIT && !self.by_note.contains_key(&told) {
            self.by_note.clear();
        }
        self.by_note.entry(told).or_insert_with(|| Recorder::new(self.client.clone(), self.reporter.clone()))
    }
}

async fn publish(
    mut recorders: Recorders,
    mut events_rx: mpsc::Receiver<(ObjectReference, Event)>,
    shutdown: CancellationToken,
) {
    loop {
        let next = tokio::select! {
            next = events_rx.recv() => next,
            () = shutdown.cancelled() => return,
        };
        let Some((about, event)) = next else { return };
        let recorder = recorders.of(&event, &about);
        match tokio::time::timeout(DEADLINE, recorder.publish(&event, &about)).await {
            Ok(Ok(())) => {}
            // An Event is a courtesy: the condition says the same. In a terminating namespace it is refused.
            Ok(Err(error)) => {
                tracing::debug!(%error, reason = event.reason, "an Event could not be published");
            }
            Err(_) => tracing::debug!(reason = event.reason, "an Event could not be published in time"),
        }
    }
}

impl Report for Outside {
    fn release(&self, key: &ReleaseKey, snapshot: Snapshot<'_>) {
        let Snapshot { status, state } = snapshot;
        let pack = status.pack.clone().unwrap_or_default();
        let conditions = status.conditions.iter().map(|condition| metrics::Condition {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
        });
        self.metrics.release(
            &key.namespace,
            &key.name,
            metrics::Snapshot {
                // Labels of series: bounded, because the author of a pack chooses them.
                pack: conditions::cut(&pack.name, NAME_MAX),
                version: conditions::cut(&pack.version, NAME_MAX),
                revision: status.revision.and_then(|revision| u32::try_from(revision).ok()).unwrap_or(0),
                state,
                conditions: conditions.collect(),
            },
        );
        let contended = status.drift.as_ref().map_or(0, |drift| drift.contended.len());
        self.metrics.drift_contended(&key.namespace, &key.name, contended);
    }

    fn forget(&self, key: &ReleaseKey) {
        self.metrics.forget(&key.namespace, &key.name);
    }

    fn event(&self, release: &SherpackRelease, warning: bool, reason: &str, action: &str, note: String) {
        tracing::info!(release = %ReleaseKey::of(release), reason, note, "event");
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(conditions::clip(&note)),
            action: action.to_owned(),
            secondary: None,
        };
        if self.events_tx.try_send((release.object_ref(&()), event)).is_err() {
            tracing::warn!(release = %ReleaseKey::of(release), reason, "too many Events wait: this one is dropped");
        }
    }

    fn operation(&self, key: &ReleaseKey, action: Action, outcome: &'static str, took: Duration) {
        let action = match action {
            Action::Install => "install",
            Action::Upgrade => "upgrade",
            Action::Rollback => "rollback",
            Action::Uninstall => "uninstall",
        };
        self.metrics.operation(&key.namespace, &key.name, action, "all", outcome, took);
    }

    fn hook(&self, key: &ReleaseKey, phase: &'static str, outcome: &'static str) {
        self.metrics.hook_ended(&key.namespace, &key.name, phase, outcome);
    }

    fn reverted(&self, key: &ReleaseKey, kind: &str, manager: Option<&str>, seconds: Option<f64>) {
        let took = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.metrics.drift_reverted(&key.namespace, &key.name, kind, manager.unwrap_or("unknown"), took);
    }

    fn definition_changes(&self, key: &ReleaseKey, severity: &'static str, count: usize) {
        self.metrics.crd_changes(&key.namespace, &key.name, severity, count);
    }

    fn fetched(&self, kind: &'static str, succeeded: bool) {
        self.metrics.source_fetched(kind, if succeeded { "success" } else { "failure" });
    }

    fn decided(&self, decision: &'static str, took: Duration) {
        self.metrics.reconciled(decision, took);
    }

    fn failed(&self, reason: &'static str) {
        self.metrics.reconcile_failed(reason);
    }
}
