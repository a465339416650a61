mod quantity;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use self::quantity::canonicalise;
use super::{id::group_of, order::is_built_in};

/// Metadata that only the server writes. Applied, it would be owned or refused.
const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Brings a body into the one form that we apply, compare and digest. Doing it twice changes nothing.
///
/// * `status` and server-written metadata go.
/// * Map entries that are null go: they mean "absent" and would be owned. Kept in custom resources, where a
///   schema may allow null and give it a meaning, and in the defaults, enums and examples of CRD schemas. Null
///   elements of lists stay everywhere.
/// * `stringData` of a Secret becomes `data`: it is write-only, so a change of the data would not be seen. An entry
///   that is no string stays for the server to refuse.
/// * Quantities get their canonical spelling: another applier with another spelling takes the field over.
/// * A port of a Service or container without protocol says TCP: the protocol is part of the list key.
/// * A blank `caBundle` is for an injector to fill, and `rules` of an aggregated ClusterRole for the controller.
pub fn normalise(body: &mut Value) {
    let text = |field| body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = group_of(&api_version);
    let Some(top) = body.as_object_mut() else { return };

    top.remove("status");
    top.retain(|_, value| !value.is_null());
    if let Some(metadata) = top.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
        metadata.values_mut().for_each(drop_nulls);
        metadata.retain(|_, value| !value.is_null());
    }
    match (group, kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => drop_nulls_of_schemas(body, false),
        (group, _) if is_built_in(group) => drop_nulls(body),
        _ => drop_null_timestamps(body),
    }
    match (group, kind.as_str()) {
        ("", "Secret") => secret(body),
        ("", "Service") => default_protocol(body.pointer_mut("/spec/ports")),
        ("", "PersistentVolumeClaim") => resources(body.pointer_mut("/spec/resources")),
        ("", "PersistentVolume") => quantities(body.pointer_mut("/spec/capacity")),
        ("", "ResourceQuota") => quantities(body.pointer_mut("/spec/hard")),
        ("", "LimitRange") => {
            for limit in items(body.pointer_mut("/spec/limits")) {
                for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
                    quantities(limit.get_mut(field));
                }
            }
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(body),
        ("node.k8s.io", "RuntimeClass") => quantities(body.pointer_mut("/overhead/podFixed")),
        ("admissionregistration.k8s.io", _) => {
            for webhook in items(body.get_mut("webhooks")) {
                drop_blank_ca_bundle(webhook.get_mut("clientConfig"));
            }
        }
        ("apiregistration.k8s.io", "APIService") => drop_blank_ca_bundle(body.get_mut("spec")),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            drop_blank_ca_bundle(body.pointer_mut("/spec/conversion/webhook/clientConfig"));
        }
        ("rbac.authorization.k8s.io", "ClusterRole") if body.get("aggregationRule").is_some() => {
            if let Some(top) = body.as_object_mut() {
                top.remove("rules");
            }
        }
        ("", "Pod") => pod_spec(body.get_mut("spec")),
        ("", "PodTemplate") => pod_spec(body.pointer_mut("/template/spec")),
        ("", "ReplicationController")
        | ("apps" | "extensions", "Deployment" | "ReplicaSet" | "DaemonSet")
        | ("batch", "Job") => pod_spec(body.pointer_mut("/spec/template/spec")),
        ("apps", "StatefulSet") => {
            pod_spec(body.pointer_mut("/spec/template/spec"));
            for claim in items(body.pointer_mut("/spec/volumeClaimTemplates")) {
                resources(claim.pointer_mut("/spec/resources"));
            }
        }
        ("batch", "CronJob") => pod_spec(body.pointer_mut("/spec/jobTemplate/spec/template/spec")),
        _ => {}
    }
}

// ---- nulls ------------------------------------------------------------------------------------------------

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// `names`: the keys of this map are names of properties, so `default` is no keyword here.
fn drop_nulls_of_schemas(value: &mut Value, names: bool) {
    match value {
        Value::Object(map) => {
            let is_data = |key: &str| !names && matches!(key, "default" | "enum" | "example");
            map.retain(|key, value| !value.is_null() || is_data(key));
            for (key, value) in map {
                if !is_data(key) {
                    let names =
                        !names && matches!(key.as_str(), "properties" | "patternProperties" | "definitions");
                    drop_nulls_of_schemas(value, names);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls_of_schemas(item, false)),
        _ => {}
    }
}

/// Code generators leave `metadata: {creationTimestamp: null}` in embedded templates; no schema gives it a meaning.
fn drop_null_timestamps(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| key != "creationTimestamp" || !value.is_null());
            map.values_mut().for_each(drop_null_timestamps);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null_timestamps),
        _ => {}
    }
}

// ---- kinds ------------------------------------------------------------------------------------------------

fn secret(body: &mut Value) {
    let Some(top) = body.as_object_mut() else { return };
    if let Some(Value::Object(plain)) = top.remove("stringData") {
        let data = top.entry("data").or_insert_with(|| Value::Object(Map::new()));
        let mut refused = Map::new();
        for (key, value) in plain {
            match (data.as_object_mut(), value) {
                (Some(data), Value::String(text)) => {
                    data.insert(key, BASE64.encode(text).into());
                }
                (_, value) => {
                    refused.insert(key, value);
                }
            }
        }
        if data.as_object().is_some_and(Map::is_empty) {
            top.remove("data");
        }
        if !refused.is_empty() {
            top.insert("stringData".into(), Value::Object(refused));
        }
    }
    for value in top.get_mut("data").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        // Wrapped base64 is accepted by the server and given back in one line.
        if let Value::String(text) = value {
            text.retain(|c| c != '\n' && c != '\r');
        }
    }
}

fn autoscaler(body: &mut Value) {
    for metric in items(body.pointer_mut("/spec/metrics")) {
        for source in ["resource", "containerResource", "pods", "object", "external"] {
            let Some(target) = metric.get_mut(source).and_then(|source| source.get_mut("target")) else {
                continue;
            };
            for field in ["value", "averageValue"] {
                if let Some(value) = target.get_mut(field) {
                    canonicalise(value);
                }
            }
        }
    }
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(tolerance) = body.pointer_mut(&format!("/spec/behavior/{direction}/tolerance")) {
            canonicalise(tolerance);
        }
    }
}

fn pod_spec(spec: Option<&mut Value>) {
    let Some(spec) = spec else { return };
    quantities(spec.get_mut("overhead"));
    resources(spec.get_mut("resources"));
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec.get_mut(field)) {
            default_protocol(container.get_mut("ports"));
            resources(container.get_mut("resources"));
            for variable in items(container.get_mut("env")) {
                divisor(variable.get_mut("valueFrom"));
            }
        }
    }
    for volume in items(spec.get_mut("volumes")) {
        if let Some(limit) = volume.pointer_mut("/emptyDir/sizeLimit") {
            canonicalise(limit);
        }
        resources(volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec/resources"));
        items(volume.pointer_mut("/downwardAPI/items")).for_each(|item| divisor(Some(item)));
        for source in items(volume.pointer_mut("/projected/sources")) {
            items(source.pointer_mut("/downwardAPI/items")).for_each(|item| divisor(Some(item)));
        }
    }
}

fn resources(resources: Option<&mut Value>) {
    let Some(resources) = resources else { return };
    quantities(resources.get_mut("limits"));
    quantities(resources.get_mut("requests"));
}

fn divisor(parent: Option<&mut Value>) {
    if let Some(divisor) = parent.and_then(|parent| parent.pointer_mut("/resourceFieldRef/divisor")) {
        canonicalise(divisor);
    }
}

/// Every value of a map is a quantity.
fn quantities(map: Option<&mut Value>) {
    map.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut).for_each(canonicalise);
}

fn default_protocol(ports: Option<&mut Value>) {
    for port in items(ports).filter_map(Value::as_object_mut) {
        let protocol = port.entry("protocol").or_insert(Value::Null);
        if protocol.is_null() || protocol == "" {
            *protocol = "TCP".into();
        }
    }
}

/// Blank: nothing, or base64 of white space only, the usual placeholder for an injector.
fn drop_blank_ca_bundle(parent: Option<&mut Value>) {
    let Some(parent) = parent.and_then(Value::as_object_mut) else {
        return;
    };
    let blank = parent.get("caBundle").and_then(Value::as_str).is_some_and(|text| {
        BASE64.decode(text.trim()).is_ok_and(|bytes| bytes.iter().all(u8::is_ascii_whitespace))
    });
    if blank {
        parent.remove("caBundle");
    }
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
#[path = "normalise_tests.rs"]
mod tests;
