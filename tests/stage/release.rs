//! SherpackReleases as a user sees them: written as JSON, judged by their status.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::failure::{During, Failure, Result};
use crate::objects::{set, text};

pub(crate) const CRD: &str = "sherpackreleases.sherpack.io";

pub(crate) fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("sherpack.io", "v1alpha1", "SherpackRelease"))
}

pub(crate) fn api(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource())
}

/// A release of the archive in ConfigMap `pack`.
pub(crate) fn release(name: &str, pack: &str, values: &Value) -> Result<DynamicObject> {
    let value = json!({
        "apiVersion": "sherpack.io/v1alpha1",
        "kind": "SherpackRelease",
        "metadata": {"name": name},
        "spec": {"pack": {"configMap": {"name": pack}}, "values": values},
    });
    serde_json::from_value(value).during("SherpackRelease")
}

/// Ready for the newest spec, at this revision.
pub(crate) fn is_ready_at(object: &DynamicObject, revision: u64) -> bool {
    let status = &object.data["status"];
    let observed = status["observedGeneration"].as_i64();
    let ready = condition(object, "Ready");
    observed.is_some()
        && observed == object.metadata.generation
        && ready.is_some_and(|ready| {
            ready["status"] == "True"
                && ready["observedGeneration"].as_i64().is_none_or(|seen| Some(seen) == observed)
        })
        && status["revision"].as_u64() == Some(revision)
}

/// The newest spec was looked at and nothing will change until somebody acts.
pub(crate) fn is_stalled(object: &DynamicObject) -> bool {
    object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
        && condition(object, "Stalled").is_some_and(|stalled| stalled["status"] == "True")
}

pub(crate) fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// One line about where a release stands, for messages.
pub(crate) fn standing(object: &DynamicObject) -> String {
    let ready = condition(object, "Ready");
    let of = |field: &str| ready.map_or("", |ready| text(&ready[field]));
    format!(
        "{}: generation {}, observed {}, revision {}, Ready={} {}: {}",
        object.name_any(),
        object.metadata.generation.unwrap_or_default(),
        object.data["status"]["observedGeneration"],
        object.data["status"]["revision"],
        of("status"),
        of("reason"),
        of("message"),
    )
}

pub(crate) async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespace = Namespace {
        metadata: kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        ..Default::default()
    };
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(Failure::from(error).during(format!("namespace {name}"))),
    }
}

/// Puts the archive of a pack into a ConfigMap.
pub(crate) async fn store_pack(client: &Client, namespace: &str, name: &str, archive: Vec<u8>) -> Result<()> {
    let configmap = ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        binary_data: Some([(format!("{name}.tgz"), ByteString(archive))].into()),
        ..Default::default()
    };
    let api = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &configmap).await.during(format!("ConfigMap {name}"))?;
    Ok(())
}

/// Applies the CRD that the operator prints and waits until it is served.
pub(crate) async fn install_crd(client: &Client, yaml: &str, mark: Option<(&str, &str)>) -> Result<()> {
    let mut crd: Value = serde_saphyr::from_str(yaml).during("output of `sherpack-operator crd`")?;
    if let Some((label, value)) = mark {
        set(&mut crd, &["metadata", "labels", label], json!(value));
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("sherpack-stage").force();
    api.patch(CRD, &params, &Patch::Apply(&crd)).await.during("CRD")?;
    let established = kube::runtime::wait::conditions::is_crd_established();
    let wait = kube::runtime::wait::await_condition(api, CRD, established);
    tokio::time::timeout(std::time::Duration::from_secs(60), wait)
        .await
        .during("CRD is not established")??;
    // Established a moment before the endpoints answer.
    loop {
        let listed = Api::<DynamicObject>::all_with(client.clone(), &resource());
        match listed.list_metadata(&kube::api::ListParams::default().limit(1)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            done => return done.map(|_| ()).during("list of SherpackReleases"),
        }
    }
}
