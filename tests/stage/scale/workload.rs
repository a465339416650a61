//! The workload: a podinfo-shaped pack without replicas, and its objects applied without any operator.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersionKind, TypeMeta};
use serde_json::{Value, json};

use super::{CONCURRENCY, PACK};
use crate::cluster::root;
use crate::failure::{During, Failure, Result, check};
use crate::{operator, release};

/// Rendered once under this name, then copied with each release's own.
const TEMPLATE: &str = "release-name-to-replace";

/// The name of the release with this index; all of one length.
pub(crate) fn name(index: usize) -> String {
    format!("app-{index:05}")
}

/// The values of every release: nothing runs.
pub(crate) fn values(message: &str) -> Value {
    json!({"replicas": 0, "message": message})
}

/// A finished round of bare applies.
pub(crate) struct Bare {
    pub(crate) objects: usize,
    pub(crate) took: Duration,
}

/// Applies the objects of `n` releases, each object a forced server-side apply of its own, ten at once.
/// From the first request to the last answer.
pub(crate) async fn apply_bare(client: &Client, namespace: &str, n: usize) -> Result<Bare> {
    release::create_namespace(client, namespace).await?;
    let template = template(namespace).await?;
    let mut applies = Vec::new();
    for index in 0..n {
        for value in &template {
            let text = serde_json::to_string(value)?.replace(TEMPLATE, &name(index));
            let value: Value = serde_json::from_str(&text)?;
            let types: TypeMeta = serde_json::from_value(value.clone())?;
            let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
            let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
            let object = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            applies.push((api, object, value));
        }
    }
    static PARAMS: OnceLock<PatchParams> = OnceLock::new();
    let params = PARAMS.get_or_init(|| PatchParams::apply("bare").force());
    let began = Instant::now();
    let apply = |(api, object, value): (Api<DynamicObject>, String, Value)| async move {
        api.patch(&object, params, &Patch::Apply(&value)).await.during(&object)?;
        Ok::<_, Failure>(())
    };
    stream::iter(applies).map(apply).buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
    Ok(Bare { objects: template.len(), took: began.elapsed() })
}

/// The manifests of the pack as the operator's own `render` prints them.
async fn template(namespace: &str) -> Result<Vec<Value>> {
    let pack = root().join("tests/packs").join(PACK);
    let file = root().join("target/stage/values.yaml");
    std::fs::write(&file, serde_json::to_string(&values("first"))?).during(file.display())?;
    let (pack, file) = (pack.display().to_string(), file.display().to_string());
    let arguments = ["render", &pack, "--name", TEMPLATE, "--namespace", namespace, "-f", &file];
    let text = operator::output(&arguments).await?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).during("output of `render`")?;
    let documents: Vec<Value> = documents.into_iter().filter(Value::is_object).collect();
    check(!documents.is_empty(), || "the pack renders no object".to_owned())?;
    Ok(documents)
}

/// Applies the Services of so many sets once more, with another name of the first port: what putting a storm of edits back has to be
/// measured by. From the first request to the last answer.
pub(crate) async fn apply_services(client: &Client, namespace: &str, n: usize) -> Result<Duration> {
    let template = template(namespace).await?;
    let service = template.into_iter().find(|value| value["kind"] == "Service");
    let mut service = service.ok_or_else(|| Failure::new("the pack has no Service"))?;
    service["spec"]["ports"][0]["name"] = json!("another");
    let text = serde_json::to_string(&service)?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let params = PatchParams::apply("bare").force();
    let began = Instant::now();
    let apply = |index: usize| {
        let (api, params, text) = (api.clone(), &params, text.replace(TEMPLATE, &name(index)));
        async move {
            let value: Value = serde_json::from_str(&text)?;
            let object = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            api.patch(&object, params, &Patch::Apply(&value)).await.during(&object)?;
            Ok::<_, Failure>(())
        }
    };
    stream::iter((0..n).map(apply)).buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
    Ok(began.elapsed())
}

/// Waits until the controller manager has seen every Deployment, then a little more: nothing of the bare
/// round runs into the next one.
pub(crate) async fn settle(client: &Client, namespace: &str, n: usize) -> Result<()> {
    let gvk = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk));
    let began = Instant::now();
    loop {
        let list = api.list(&Default::default()).await?;
        let seen = list.iter().filter(|object| {
            object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
        });
        if seen.count() >= n {
            break;
        }
        check(began.elapsed() < super::STANDSTILL, || "the controller manager does not catch up".to_owned())?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok(())
}
