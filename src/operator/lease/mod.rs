//! The leader lease: of several processes only its holder acts.
//!
//! * [`election`](self): what to do next, decided from what was seen of the lease. Pure.
//! * [`validity`](self): until when this process may act; the client asks it before each request.
//! * This file: reads, writes and watches the Lease, with a client of its own that nothing else delays.
//!
//! # Expected flow
//! `Lease::acquire` stands by until the lease is ours. `Lease::keep` renews it until it is lost, and then the
//! process must end: a new one remembers nothing that is not so any more. `Lease::release` hands it over.
//!
//! Imports cluster. Written here and not taken from a library: those that fit this client compare the holder's
//! timestamps with the own clock, or write without a resourceVersion, and none can be asked before each request.

mod election;
#[cfg(test)]
mod election_properties;
#[cfg(test)]
mod election_tests;
mod timing;
mod validity;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::core::Selector;
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

pub use timing::{Timing, TimingError};

use self::election::{Election, Step, Uptime, View, Written};
use self::validity::{Validity, uptime};
use crate::api::names;
use crate::cluster::client::Permission;
use crate::cluster::{describe, status_code};
use crate::manifest::digest_of;

/// After the end was asked for, what runs may send requests for this long. Then the lease can soon be given away.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

/// The Lease of one operator and this process's part in it.
pub(super) struct Lease {
    api: Api<Object>,
    name: String,
    me: String,
    timing: Timing,
    election: Election,
    validity: Arc<Validity>,
    /// As last seen, so that what others put into its metadata stays.
    object: Option<Object>,
    /// Tells a process that stands by of changes.
    changes: Option<BoxStream<'static, kube::Result<WatchEvent<Object>>>>,
    /// What stands in the way was said.
    complained: bool,
}

/// The name of the Lease: operators that look at different namespaces or labels do not stand in each other's way.
pub(super) fn name(watch_namespace: Option<&str>, watch_labels: Option<&Selector>) -> String {
    let mut name = names::MANAGER_OWN.to_owned();
    if let Some(namespace) = watch_namespace {
        name = format!("{name}-{namespace}");
    }
    if let Some(labels) = watch_labels {
        // Not every selector may be part of a name.
        let digest = digest_of(labels.to_string().as_bytes());
        let short = digest.trim_start_matches("sha256:").get(..10).unwrap_or_default();
        name = format!("{name}-{short}");
    }
    name
}

impl Lease {
    /// Knows nothing yet and sends nothing.
    pub(super) fn new(client: Client, namespace: &str, name: String, me: String, timing: Timing) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name,
            election: Election::new(me.clone(), timing),
            me,
            timing,
            validity: Arc::default(),
            object: None,
            changes: None,
            complained: false,
        }
    }

    /// What the client of everything else has to ask.
    pub(super) fn permission(&self) -> Arc<dyn Permission> {
        Arc::clone(&self.validity) as Arc<dyn Permission>
    }

    /// Stands by until this process holds the lease; `false`: `shutdown` came first, and it holds nothing.
    ///
    /// `stands_by` is called when another process is seen to hold it.
    pub(super) async fn acquire(
        &mut self,
        shutdown: &CancellationToken,
        mut stands_by: impl FnMut(),
    ) -> bool {
        let mut told: Option<String> = None;
        loop {
            match self.election.next(uptime()) {
                Step::Wait { until } => {
                    let holder = self.election.holder().map(str::to_owned);
                    if let Some(holder) = holder.filter(|holder| told.as_ref() != Some(holder)) {
                        tracing::info!(lease = self.name, holder, "standing by: another process leads");
                        stands_by();
                        told = Some(holder);
                    }
                    // A write is never broken off: it would take the lease for a process that is gone.
                    tokio::select! {
                        () = self.changed(until) => {}
                        () = shutdown.cancelled() => return false,
                    }
                }
                _ if shutdown.is_cancelled() => return false,
                step => self.carry_out(step).await,
            }
            if self.election.held_until().is_some() {
                self.changes = None;
                tracing::info!(lease = self.name, "this process leads");
                return true;
            }
        }
    }

    /// Renews the lease for as long as that works; ends when this process must not act any more.
    ///
    /// A moment after `shutdown` nothing new may be sent, so that what runs comes to its end.
    pub(super) async fn keep(&mut self, shutdown: &CancellationToken) {
        let validity = Arc::clone(&self.validity);
        let closing = async {
            shutdown.cancelled().await;
            tokio::time::sleep(LAST_REQUESTS).await;
            validity.close();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.renew() => {}
            () = closing => {}
        }
        self.validity.set(None);
        let holder = self.election.holder().filter(|holder| *holder != self.me).unwrap_or("nobody");
        tracing::error!(lease = self.name, holder, "the leader lease is lost: this process ends");
    }

    async fn renew(&mut self) {
        loop {
            match self.election.next(uptime()) {
                Step::Lost => return,
                Step::Wait { until } => tokio::time::sleep(until.saturating_sub(uptime())).await,
                step => self.carry_out(step).await,
            }
        }
    }

    /// Gives the lease away, so that the next process need not wait until it is over. Nothing may be under way any more.
    pub(super) async fn release(mut self) {
        self.validity.set(None);
        if let Err(error) = self.give_away().await {
            // A renewal that was under way when the work ended may have come between.
            self.look().await;
            if self.election.holder() != Some(&self.me) {
                return;
            }
            if self.give_away().await.is_err() {
                // It runs out by itself.
                tracing::warn!(lease = self.name, error, "the leader lease could not be released");
                return;
            }
        }
        tracing::info!(lease = self.name, "the leader lease is released");
    }

    async fn give_away(&mut self) -> Result<(), String> {
        let Some(mut object) = self.object.clone() else { return Err("it is gone".to_owned()) };
        let spec = object.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(now());
        let params = written_by_us();
        bounded(&self.timing, self.api.replace(&self.name, &params, &object)).await.map(drop)
    }
}

impl Lease {
    async fn carry_out(&mut self, step: Step) {
        match step {
            Step::Look => self.look().await,
            Step::Create => self.write(None, true).await,
            Step::Take { version } => self.write(Some(version), true).await,
            Step::Renew { version } => self.write(Some(version), false).await,
            Step::Wait { .. } | Step::Lost => {}
        }
        self.validity.set(self.election.held_until());
    }

    async fn look(&mut self) {
        self.changes = None;
        match bounded(&self.timing, self.api.get_opt(&self.name)).await {
            Ok(found) => {
                self.complained = false;
                self.saw(found);
            }
            Err(error) => {
                self.complain("read", &error);
                self.election.blind(uptime());
            }
        }
    }

    fn saw(&mut self, found: Option<Object>) {
        self.election.saw(uptime(), found.as_ref().map(view));
        self.object = found;
    }

    /// Writes us into the lease. `version`: on top of this one, else it is made. `takes`: it was not ours before.
    async fn write(&mut self, version: Option<String>, takes: bool) {
        let mut object = self.object.clone().unwrap_or_default();
        let creates = version.is_none();
        let kept = object.metadata;
        object.metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: kept.namespace,
            resource_version: version,
            labels: kept.labels,
            annotations: kept.annotations,
            owner_references: kept.owner_references,
            ..ObjectMeta::default()
        };
        let spec = object.spec.get_or_insert_default();
        let now = now();
        if takes {
            self.election.claims(now.0);
            spec.acquire_time = Some(now.clone());
            let before = spec.lease_transitions.unwrap_or(0);
            let hands_over = spec.holder_identity.as_ref() != Some(&self.me) && !creates;
            spec.lease_transitions = Some(if hands_over { before.saturating_add(1) } else { before });
        }
        spec.holder_identity = Some(self.me.clone());
        spec.lease_duration_seconds = Some(whole_seconds(self.timing.lease_duration()));
        spec.renew_time = Some(now);

        let sent = uptime();
        let params = written_by_us();
        let call = async {
            if creates {
                self.api.create(&params, &object).await
            } else {
                self.api.replace(&self.name, &params, &object).await
            }
        };
        let written = match tokio::time::timeout(self.timing.request_timeout(), call).await {
            Ok(Ok(object)) => {
                self.complained = false;
                let view = view(&object);
                self.object = Some(object);
                Written::Done(view)
            }
            Ok(Err(error)) if matches!(status_code(&error), Some(404 | 409)) => Written::Refused,
            Ok(Err(error)) => {
                self.complain("written", &describe(&error));
                Written::Unknown
            }
            Err(_) => {
                self.complain("written", "no answer in time");
                Written::Unknown
            }
        };
        self.election.wrote(sent, uptime(), written);
    }

    /// Waits until then, or until the lease was seen to change.
    async fn changed(&mut self, until: Uptime) {
        let enough = tokio::time::sleep(until.saturating_sub(uptime()));
        let Some(version) = self.election.version().map(str::to_owned) else { return enough.await };
        let (api, timeout) = (self.api.clone(), self.timing.request_timeout());
        let only = WatchParams::default().fields(&format!("metadata.name={}", self.name));
        let changes = &mut self.changes;
        let next = async {
            if changes.is_none() {
                let started = tokio::time::timeout(timeout, api.watch(&only, &version)).await;
                *changes = started.ok().and_then(Result::ok).map(StreamExt::boxed);
            }
            match changes {
                Some(changes) => changes.next().await,
                None => None,
            }
        };
        let event = tokio::select! {
            event = next => event,
            () = enough => return,
        };
        match event {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => self.saw(Some(object)),
            Some(Ok(WatchEvent::Deleted(_))) => {
                self.changes = None;
                self.saw(None);
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                self.changes = None;
                self.election.blind(uptime());
            }
        }
    }

    /// Once, until it works again: it is tried every few seconds.
    fn complain(&mut self, what: &str, error: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            let namespace = self.api.namespace().unwrap_or_default();
            tracing::warn!(
                lease = self.name,
                namespace,
                error,
                "the leader lease cannot be {what}: trying again"
            );
        }
    }
}

async fn bounded<T>(timing: &Timing, call: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(timing.request_timeout(), call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(describe(&error)),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

fn view(object: &Object) -> View {
    let spec = object.spec.clone().unwrap_or_default();
    View {
        version: object.resource_version().unwrap_or_default(),
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        duration: spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
        acquired: spec.acquire_time.map(|MicroTime(at)| at),
    }
}

fn written_by_us() -> PostParams {
    PostParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PostParams::default() }
}

/// As exact as the API server keeps it.
fn now() -> MicroTime {
    let now = Timestamp::now();
    MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
}

/// The API knows whole seconds; a longer time is the safe side.
fn whole_seconds(duration: Duration) -> i32 {
    let more = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs().saturating_add(more)).unwrap_or(i32::MAX)
}
