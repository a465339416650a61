//! Runs passes: kube's controller over the releases, fed by our own watches.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::{self, UnboundedReceiver};
use futures::{StreamExt, TryStreamExt};
use kube::runtime::controller::{Action, Config as Limits, Error};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, WatchStreamExt, reflector, watcher};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Config;
use super::metrics::Metrics;
use super::reserve::{Queue, Reserve};
use crate::api::{Policy, SherpackRelease};
use crate::reconcile::{self, Context, Reconciler};
use crate::release::ReleaseKey;
use crate::watch::Dependencies;

/// A pass that could tell its error in no status is repeated after this time.
const AFTER_ERROR: Duration = Duration::from_secs(5);
const PAGE: u32 = 250;

/// The controller before it runs: its store is needed to build the context. What its watch shows is told to
/// `dependencies` and `follow` first.
pub(super) fn new(
    client: Client,
    config: &Config,
    policy: Policy,
    dependencies: Arc<Dependencies>,
    follow: impl Fn(&watcher::Event<SherpackRelease>) + Send + Sync + 'static,
) -> Controller<SherpackRelease> {
    let api = match &config.watch_namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let concurrency = u16::try_from(config.concurrency.get()).unwrap_or(u16::MAX);
    let (releases, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default().page_size(PAGE))
        .modify(move |release| slim(release, &policy))
        .inspect_ok(move |event| {
            follow(event);
            dependencies.take(event);
        });
    Controller::for_stream(reflector(writer, events).applied_objects(), releases)
        .with_config(Limits::default().concurrency(concurrency))
}

/// Leaves out of a release what no code reads: all of them are kept in memory.
fn slim(release: &mut SherpackRelease, policy: &Policy) {
    release.metadata.managed_fields = None;
    if !policy.selects(release) {
        // Another operator's: it counts as a dependency, and for what it owns.
        release.spec.values = None;
    }
}

/// Runs until `shutdown`, then lets running passes finish.
pub(super) async fn run(
    controller: Controller<SherpackRelease>,
    ctx: Context,
    wake_rx: UnboundedReceiver<ReleaseKey>,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) {
    let queue = Arc::new(Queue::new(metrics));
    let ctx = Arc::new(Reconciler::new(ctx));
    let reserve = Reserve::new(Arc::clone(&ctx), Arc::clone(&queue), shutdown.clone());
    let (work_tx, work_rx) = mpsc::unbounded();
    let _standing_by = AbortOnDropHandle::new(tokio::spawn(reserve.clone().stand_by(wake_rx, work_tx)));
    let wake = work_rx.map(|key: ReleaseKey| ObjectRef::new(&key.name).within(&key.namespace));
    let (shared, left) = (Arc::clone(&ctx), Arc::clone(&queue));
    let passes =
        controller.reconcile_on(wake).graceful_shutdown_on(async move { shutdown.cancelled().await }).run(
            move |release, ctx: Arc<Reconciler>| {
                queue.leave(&ReleaseKey::of(&release));
                pass(release, ctx)
            },
            |release, error, ctx| {
                ctx.context().report.failed(error.reason());
                if !error.is_conflict() {
                    // Nothing else tells it: the condition could not be written.
                    tracing::warn!(release = %ReleaseKey::of(&release), %error, "a pass ended in an error");
                }
                Action::requeue(AFTER_ERROR)
            },
            ctx,
        );
    passes
        .for_each(|ended| {
            match ended {
                Ok(_) => {}
                // Gone, perhaps because a user removed the finalizer.
                Err(Error::ObjectNotFound(gone)) => {
                    let key = ReleaseKey { namespace: gone.namespace.unwrap_or_default(), name: gone.name };
                    left.leave(&key);
                    shared.forget(&key);
                }
                Err(error) => tracing::debug!(%error, "a pass ended in an error"),
            }
            std::future::ready(())
        })
        .await;
    reserve.end().await;
}

async fn pass(release: Arc<SherpackRelease>, passes: Arc<Reconciler>) -> Result<Action, reconcile::Error> {
    let again = passes.reconcile(release).await?;
    Ok(again.map_or_else(Action::await_change, Action::requeue))
}
