//! Drift: one object at a time is edited by hand, and the watch tells when the old value is back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::say;
use crate::failure::{During, Failure, Result, check};
use crate::objects::{RELEASE_LABEL, text};
use crate::sight::{Change, Sight};

const LIMIT: Duration = Duration::from_secs(60);

/// Between two edits, as in the measurements this is compared with.
const PAUSE: Duration = Duration::from_millis(300);

/// Sorted latencies.
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn new(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Self(latencies)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Nearest rank, in milliseconds with one digit.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        let value = self.0.get(rank - 1).copied().unwrap_or_default();
        (value.as_secs_f64() * 10_000.0).round() / 10.0
    }
}

/// How long edits were there.
pub(crate) struct Reverts {
    /// From an edit sent to the old value seen.
    pub(crate) latencies: Latencies,
    /// The part of the edits themselves: what no operator can be faster than.
    pub(crate) edits: Latencies,
}

/// One edit by strategic merge patch: what is sent, where the value stands, what it was.
struct Edit {
    patch: Value,
    pointer: String,
    old: Value,
}

const BY_HAND: &str = "by-hand";

/// Edits under way at the same time.
const AT_ONCE: usize = 100;

/// The Deployments, and how to edit the first environment value of one.
fn deployments_api(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn env_value(object: &DynamicObject) -> Option<Edit> {
    let containers = object.data.pointer("/spec/template/spec/containers")?.as_array()?;
    containers.iter().enumerate().find_map(|(at, container)| {
        let env = container["env"].as_array()?;
        let (entry, variable) = env.iter().enumerate().find(|(_, variable)| variable["value"].is_string())?;
        let changed = json!([{"name": text(&variable["name"]), "value": BY_HAND}]);
        let changed = json!([{"name": text(&container["name"]), "env": changed}]);
        Some(Edit {
            patch: json!({"spec": {"template": {"spec": {"containers": changed}}}}),
            pointer: format!("/spec/template/spec/containers/{at}/env/{entry}/value"),
            old: variable["value"].clone(),
        })
    })
}

fn services_api(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn port_name(object: &DynamicObject) -> Option<Edit> {
    let port = object.data.pointer("/spec/ports/0")?;
    Some(Edit {
        patch: json!({"spec": {"ports": [{"port": port["port"], "name": BY_HAND}]}}),
        pointer: "/spec/ports/0/name".to_owned(),
        old: port["name"].clone(),
    })
}

/// Edits the first environment value of up to `most` Deployments, one after the other.
pub(crate) async fn deployments(client: &Client, namespace: &str, most: usize) -> Result<Reverts> {
    measure("env value of a Deployment", &deployments_api(client, namespace), most, env_value).await
}

/// Renames the first port of up to `most` Services, one after the other.
pub(crate) async fn services(client: &Client, namespace: &str, most: usize) -> Result<Reverts> {
    measure("port name of a Service", &services_api(client, namespace), most, port_name).await
}

/// Edits up to `most` Deployments at the same moment.
pub(crate) async fn deployments_at_once(client: &Client, namespace: &str, most: usize) -> Result<Reverts> {
    let Together { reverts, .. } =
        at_once("env value of a Deployment", &deployments_api(client, namespace), most, env_value).await?;
    let [p50, max] = [50, 100].map(|percent| reverts.latencies.percentile(percent));
    let [answered, last] = [50, 100].map(|percent| reverts.edits.percentile(percent));
    say(format!(
        "drift of {} Deployments at once: p50 {p50}, max {max} ms; the edits themselves p50 {answered}, max {last} ms",
        reverts.latencies.count()
    ));
    Ok(reverts)
}

/// One edit in every release at the same moment.
pub(crate) struct Storm {
    /// From the first edit sent to the answer to the last one.
    pub(crate) edits: Duration,
    /// From the first edit sent to the event that shows the last old value back.
    pub(crate) reverted: Duration,
}

pub(crate) async fn storm(client: &Client, namespace: &str, n: usize) -> Result<Storm> {
    let all = at_once("port name of a Service", &services_api(client, namespace), n, port_name).await?;
    Ok(Storm { edits: all.edits, reverted: all.took })
}

/// Edits that were sent together.
struct Together {
    /// Of the edits, from each one sent to its answer.
    reverts: Reverts,
    edits: Duration,
    took: Duration,
}

async fn at_once(
    what: &str,
    api: &Api<DynamicObject>,
    most: usize,
    edit: impl Fn(&DynamicObject) -> Option<Edit>,
) -> Result<Together> {
    let mut edits = BTreeMap::new();
    for object in api.list(&ListParams::default().labels(RELEASE_LABEL)).await.during(what)?.items {
        let name = object.name_any();
        let edit = edit(&object).ok_or_else(|| Failure::new(format!("{name} has no {what}")))?;
        edits.insert(name, edit);
        if edits.len() == most {
            break;
        }
    }
    check(edits.len() == most, || format!("{what}: only {} of {most} to edit", edits.len()))?;
    let mut sight = Sight::open(api.clone()).await?;
    connect(api, &edits).await?;
    let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..Default::default() };
    let began = Instant::now();
    let send = stream::iter(&edits)
        .map(|(name, edit)| {
            let (api, params) = (api.clone(), &params);
            async move {
                let sent = Instant::now();
                api.patch(name, params, &Patch::Strategic(&edit.patch)).await.during(name)?;
                Ok::<_, Failure>((name.clone(), (sent, sent.elapsed())))
            }
        })
        .buffer_unordered(AT_ONCE);
    let send = async {
        let sent: BTreeMap<String, (Instant, Duration)> = send.try_collect().await?;
        Ok::<_, Failure>((sent, began.elapsed()))
    };
    let by_hand = json!(BY_HAND);
    let watch = async {
        let mut edited = BTreeSet::new();
        let mut back: BTreeMap<String, Instant> = BTreeMap::new();
        while back.len() < most {
            let standstill = format!("{} of {most} times {what} put back", back.len());
            let next = sight.until(&standstill, LIMIT, |change| {
                let object = change.present()?;
                let name = object.name_any();
                let Edit { pointer, old, .. } = edits.get(&name)?;
                let value = object.data.pointer(pointer);
                if value == Some(&by_hand) {
                    edited.insert(name);
                    return None;
                }
                (value == Some(old) && edited.contains(&name) && !back.contains_key(&name)).then_some(name)
            });
            let (at, name) = next.await?;
            back.insert(name, at);
        }
        Ok(back)
    };
    let ((sent, edits), back) = tokio::try_join!(send, watch)?;
    let latencies = back.iter().filter_map(|(name, at)| Some(*at - sent.get(name)?.0)).collect();
    let answers = sent.values().map(|(_, answered)| *answered).collect();
    let reverts = Reverts { latencies: Latencies::new(latencies), edits: Latencies::new(answers) };
    let took = back.values().max().map(|last| *last - began).unwrap_or_default();
    Ok(Together { reverts, edits, took })
}

/// Opens as many connections as will be used at the same time: whoever edits has shaken hands before.
async fn connect(api: &Api<DynamicObject>, edits: &BTreeMap<String, Edit>) -> Result<()> {
    let reads =
        edits.keys().take(AT_ONCE).map(|name| async move { api.get_metadata(name).await.during(name) });
    futures::future::try_join_all(reads).await.map(drop)
}

async fn measure(
    what: &str,
    api: &Api<DynamicObject>,
    most: usize,
    edit: impl Fn(&DynamicObject) -> Option<Edit>,
) -> Result<Reverts> {
    let mut sight = Sight::open(api.clone()).await?;
    let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..Default::default() };
    let listed = api.list(&ListParams::default().labels(RELEASE_LABEL)).await.during(what)?;
    check(!listed.items.is_empty(), || format!("{what}: the releases have none"))?;
    let mut latencies = Vec::with_capacity(most);
    // From an edit sent to the event with it.
    let mut edits = Vec::with_capacity(most);
    for object in listed.items.into_iter().take(most) {
        let name = &object.name_any();
        let Edit { patch, pointer, old } =
            edit(&object).ok_or_else(|| Failure::new(format!("{name} has no {what}")))?;
        let send = async {
            api.patch(name, &params, &Patch::Strategic(&patch)).await.during(name)?;
            Ok(())
        };
        let shows = |change: &Change, value: &Value| {
            change.present().is_some_and(|object| {
                object.name_any() == *name && object.data.pointer(&pointer) == Some(value)
            })
        };
        let by_hand = json!(BY_HAND);
        let put_back = sight
            .put_back(
                &format!("{what} {name} at {old}"),
                LIMIT,
                send,
                |change| shows(change, &by_hand),
                |change| shows(change, &old),
            )
            .await?;
        latencies.push(put_back.since_sent);
        edits.push(put_back.since_sent - put_back.since_seen);
        tokio::time::sleep(PAUSE).await;
    }
    let (latencies, edits) = (Latencies::new(latencies), Latencies::new(edits));
    let [p50, p90, p99, max] = [50, 90, 99, 100].map(|percent| latencies.percentile(percent));
    say(format!(
        "drift of {what}, {} times: p50 {p50}, p90 {p90}, p99 {p99}, max {max} ms; the edits themselves p50 {} ms",
        latencies.count(),
        edits.percentile(50)
    ));
    Ok(Reverts { latencies, edits })
}
