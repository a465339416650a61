//! Drift: one object at a time is edited by hand, and the watch tells when the old value is back.

use std::time::Duration;

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

/// One edit by strategic merge patch: what is sent, where the value stands, what it was.
struct Edit {
    patch: Value,
    pointer: String,
    old: Value,
}

const BY_HAND: &str = "by-hand";

/// Edits the first environment value of up to `most` Deployments.
pub(crate) async fn deployments(client: &Client, namespace: &str, most: usize) -> Result<Latencies> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
    let api = Api::namespaced_with(client.clone(), namespace, &resource);
    measure("env value of a Deployment", &api, most, |object| {
        let containers = object.data.pointer("/spec/template/spec/containers")?.as_array()?;
        containers.iter().enumerate().find_map(|(at, container)| {
            let env = container["env"].as_array()?;
            let (entry, variable) =
                env.iter().enumerate().find(|(_, variable)| variable["value"].is_string())?;
            let changed = json!([{"name": text(&variable["name"]), "value": BY_HAND}]);
            let changed = json!([{"name": text(&container["name"]), "env": changed}]);
            Some(Edit {
                patch: json!({"spec": {"template": {"spec": {"containers": changed}}}}),
                pointer: format!("/spec/template/spec/containers/{at}/env/{entry}/value"),
                old: variable["value"].clone(),
            })
        })
    })
    .await
}

/// Renames the first port of up to `most` Services.
pub(crate) async fn services(client: &Client, namespace: &str, most: usize) -> Result<Latencies> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
    let api = Api::namespaced_with(client.clone(), namespace, &resource);
    measure("port name of a Service", &api, most, |object| {
        let port = object.data.pointer("/spec/ports/0")?;
        Some(Edit {
            patch: json!({"spec": {"ports": [{"port": port["port"], "name": BY_HAND}]}}),
            pointer: "/spec/ports/0/name".to_owned(),
            old: port["name"].clone(),
        })
    })
    .await
}

async fn measure(
    what: &str,
    api: &Api<DynamicObject>,
    most: usize,
    edit: impl Fn(&DynamicObject) -> Option<Edit>,
) -> Result<Latencies> {
    let mut sight = Sight::open(api.clone()).await?;
    let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..Default::default() };
    let listed = api.list(&ListParams::default().labels(RELEASE_LABEL)).await.during(what)?;
    check(!listed.items.is_empty(), || format!("{what}: the releases have none"))?;
    let mut latencies = Vec::with_capacity(most);
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
        tokio::time::sleep(PAUSE).await;
    }
    let latencies = Latencies::new(latencies);
    let [p50, p90, p99, max] = [50, 90, 99, 100].map(|percent| latencies.percentile(percent));
    say(format!(
        "drift of {what}, {} times: p50 {p50}, p90 {p90}, p99 {p99}, max {max} ms",
        latencies.count()
    ));
    Ok(latencies)
}
