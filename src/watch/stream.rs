//! The events of a metadata-only watch of one kind.

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};

use super::trouble::Trouble;
use crate::cluster::Kind;

const PAGE: u32 = 500;
/// Of objects that no label of ours or of an installer selects: they may be anything, and as large as it gets.
const PAGE_OF_ALL: u32 = 100;

pub(super) type Event = watcher::Event<PartialObjectMeta<DynamicObject>>;
pub(super) type Events = BoxStream<'static, watcher::Result<Event>>;

/// A watch of all objects of a kind with these labels. It is tried again for ever.
pub(super) fn events(client: &Client, resource: &ApiResource, selector: &str) -> Events {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), resource);
    let config = watcher::Config::default().labels(selector).page_size(PAGE);
    watcher(api, config).default_backoff().boxed()
}

/// A watch of all objects of a kind in a namespace, or of a kind that has none. It is tried again for ever.
pub(super) fn events_within(client: &Client, kind: &Kind, namespace: Option<&str>) -> Events {
    let api: Api<PartialObjectMeta<DynamicObject>> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        None => Api::all_with(client.clone(), &kind.resource),
    };
    let config = watcher::Config::default().page_size(PAGE_OF_ALL);
    watcher(api, config).default_backoff().boxed()
}

/// The next event. A watch that has been in doubt for long is begun anew.
pub(super) async fn next(
    events: &mut Events,
    trouble: &mut Trouble,
    anew: impl Fn() -> Events,
) -> Option<watcher::Result<Event>> {
    loop {
        let Some(at) = trouble.doubtful_at() else { return events.next().await };
        match tokio::time::timeout_at(at.into(), events.next()).await {
            Ok(event) => return event,
            Err(_) => {
                // A watch that goes on in silence looks like one that is being retried: a list tells.
                trouble.lists();
                *events = anew();
            }
        }
    }
}
