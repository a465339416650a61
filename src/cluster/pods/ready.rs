//! The ready pods of a workload, as probes need to know them.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::Value;

use crate::cluster::{Cluster, Error};
use crate::manifest::ObjectId;
use crate::plan::probes::Port;

/// All pages together.
const DEADLINE: Duration = Duration::from_secs(15);
const PAGE: u32 = 100;
/// As kubectl reads it.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// A pod that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyPod {
    pub id: ObjectId,
    pub address: Option<IpAddr>,
    /// The address is that of its node.
    pub on_node: bool,
    /// The container in which commands run unless one is named.
    pub container: String,
    /// Ports with a name.
    ports: Vec<(String, u16)>,
    /// Its controller: kind, name and uid.
    owner: Option<(String, String, String)>,
    /// Which ReplicaSet of a Deployment made it.
    hash: Option<String>,
}

/// How the pods of a live workload are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    selector: String,
    uid: String,
}

impl Workload {
    /// `None`: it wants no pods.
    #[must_use]
    pub fn of(live: &Value) -> Option<Self> {
        let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        if wants_pods(live) { Some(Self { selector: pod_selector(live)?, uid }) } else { None }
    }
}

impl ReadyPod {
    /// `None`: it is not ready, or going.
    #[must_use]
    pub fn of(pod: &Value) -> Option<Self> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let ready = list("/status/conditions")
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        if !ready || text("/metadata/deletionTimestamp").is_some() {
            return None;
        }
        let named = pod.pointer("/metadata/annotations").and_then(|all| all.get(DEFAULT_CONTAINER));
        let first = list("/spec/containers").find_map(|container| container["name"].as_str());
        let port = |port: &Value| {
            Some((port["name"].as_str()?.to_owned(), u16::try_from(port["containerPort"].as_u64()?).ok()?))
        };
        let ports = list("/spec/containers")
            .flat_map(|container| container["ports"].as_array().into_iter().flatten())
            .filter_map(port);
        let owner = list("/metadata/ownerReferences").find(|owner| owner["controller"] == true);
        let owner = owner.and_then(|owner| {
            let text = |key: &str| owner[key].as_str().map(str::to_owned);
            Some((text("kind")?, text("name")?, text("uid")?))
        });
        let address = text("/status/podIP").and_then(|address| address.parse().ok());
        Some(Self {
            owner,
            hash: text("/metadata/labels/pod-template-hash").map(str::to_owned),
            id: ObjectId {
                group: String::new(),
                kind: "Pod".to_owned(),
                namespace: text("/metadata/namespace").map(str::to_owned),
                name: text("/metadata/name")?.to_owned(),
            },
            on_node: on_node(pod, address),
            address,
            container: named.and_then(Value::as_str).or(first).unwrap_or_default().to_owned(),
            ports: ports.collect(),
        })
    }

    /// Whether it is a pod of the workload, and not of another one with the same labels.
    fn is_of(&self, id: &ObjectId, workload: &Workload) -> bool {
        let Some((kind, name, uid)) = &self.owner else { return false };
        if id.kind != "Deployment" {
            return *uid == workload.uid;
        }
        // A Deployment has its pods made by ReplicaSets, whose names it chooses.
        let expected = self.hash.as_ref().map(|hash| format!("{}-{hash}", id.name));
        kind == "ReplicaSet" && expected.as_ref() == Some(name)
    }

    /// The number of a port.
    #[must_use]
    pub fn port(&self, port: &Port) -> Option<u16> {
        match port {
            Port::Number(number) => Some(*number),
            Port::Name(name) => self.ports.iter().find(|(known, _)| known == name).map(|(_, number)| *number),
        }
    }
}

/// Whether a pod is in the network of its node, by what it wants or by what it has.
fn on_node(pod: &Value, address: Option<IpAddr>) -> bool {
    let parsed = |value: &Value| value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
    let several = pod.pointer("/status/hostIPs").and_then(Value::as_array).into_iter().flatten();
    let of_node = several.filter_map(|entry| parsed(&entry["ip"])).chain(parsed(&pod["status"]["hostIP"]));
    pod["spec"]["hostNetwork"] == true || of_node.into_iter().any(|node| Some(node) == address)
}

/// The label selector of a live workload, as lists take it; `None` when it selects everything or nothing.
pub(in crate::cluster) fn pod_selector(live: &Value) -> Option<String> {
    let selector = live.pointer("/spec/selector")?;
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut terms: Vec<String> =
        labels.map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect::<Option<_>>()?;
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = expression["key"].as_str()?;
        let values = expression["values"].as_array().into_iter().flatten();
        let values = values.filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        terms.push(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!terms.is_empty()).then(|| terms.join(","))
}

fn wants_pods(live: &Value) -> bool {
    let count = |pointer| live.pointer(pointer).and_then(Value::as_i64);
    count("/status/desiredNumberScheduled").or_else(|| count("/spec/replicas")).unwrap_or(1) > 0
}

impl Cluster {
    /// All ready pods of a workload.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn ready_pods(&self, id: &ObjectId, workload: &Workload) -> Result<Vec<ReadyPod>, Error> {
        let listed = tokio::time::timeout(DEADLINE, self.all_ready(id, workload)).await;
        listed.map_err(|_| Error::Timeout { verb: "list pods of", id: id.clone(), after: DEADLINE })?
    }

    async fn all_ready(&self, id: &ObjectId, workload: &Workload) -> Result<Vec<ReadyPod>, Error> {
        let namespace = id.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client().clone(), namespace);
        let mut params = ListParams::default().labels(&workload.selector).limit(PAGE);
        let mut ready = Vec::new();
        loop {
            let page = api.list(&params).await.map_err(|source| Error::Api {
                verb: "list pods of",
                id: id.clone(),
                source: Box::new(source),
            })?;
            let pods = page.items.into_iter().filter_map(|pod| serde_json::to_value(pod).ok());
            ready.extend(pods.filter_map(|pod| ReadyPod::of(&pod)).filter(|pod| pod.is_of(id, workload)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(ready),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Option<ReadyPod> {
        let mut pod = json!({
            "metadata": {"name": "web-1", "namespace": "apps"},
            "spec": {"containers": [
                {"name": "app", "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 1}]},
                {"name": "side", "ports": [{"name": "metrics", "containerPort": 9090}]},
            ]},
            "status": {"podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut pod);
        ReadyPod::of(&pod)
    }

    #[test]
    fn a_pod_that_is_not_ready_or_going_does_not_count() {
        assert!(pod(|_| ()).is_some());
        assert_eq!(pod(|pod| pod["status"]["conditions"][0]["status"] = json!("False")), None);
        assert_eq!(pod(|pod| pod["status"] = json!({})), None);
        assert_eq!(pod(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")), None);
    }

    #[test]
    fn ports_are_found_by_name_in_any_container_and_the_container_as_kubectl_does() {
        let found = pod(|_| ()).unwrap();
        for (port, number) in [
            (Port::Number(7), Some(7)),
            (Port::Name("http".to_owned()), Some(8080)),
            (Port::Name("metrics".to_owned()), Some(9090)),
            (Port::Name("grpc".to_owned()), None),
        ] {
            assert_eq!(found.port(&port), number, "{port}");
        }
        assert_eq!(found.address, Some("10.0.0.7".parse().unwrap()));
        assert_eq!(found.id.to_string(), "Pod apps/web-1");
        assert_eq!(found.container, "app");
        let named = pod(|pod| pod["metadata"]["annotations"] = json!({DEFAULT_CONTAINER: "side"}));
        assert_eq!(named.unwrap().container, "side");
        assert_eq!(pod(|pod| pod["status"]["podIP"] = json!("")).unwrap().address, None);
    }

    #[test]
    fn a_pod_in_the_network_of_its_node_is_known_by_its_address() {
        assert!(!pod(|_| ()).unwrap().on_node);
        for (status, on_node) in [
            (json!({"hostIP": "10.0.0.7"}), true),
            (json!({"hostIP": "10.0.0.1"}), false),
            (json!({"hostIP": "fd00::1", "hostIPs": [{"ip": "fd00::1"}, {"ip": "10.0.0.7"}]}), true),
        ] {
            let found = pod(|pod| {
                pod["status"].as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
            });
            assert_eq!(found.unwrap().on_node, on_node, "{status}");
        }
        assert!(pod(|pod| pod["spec"]["hostNetwork"] = json!(true)).unwrap().on_node);
    }

    #[test]
    fn pods_of_another_workload_with_the_same_labels_do_not_count() {
        let owned = |kind: &str, name: &str, uid: &str| {
            pod(|pod| {
                pod["metadata"]["labels"] = json!({"pod-template-hash": "5d4f"});
                pod["metadata"]["ownerReferences"] =
                    json!([{"kind": kind, "name": name, "uid": uid, "controller": true}]);
            })
            .unwrap()
        };
        let workload = Workload { selector: "app=web".to_owned(), uid: "u".to_owned() };
        let is_of = |kind: &str, pod: &ReadyPod| {
            let id = ObjectId { kind: kind.to_owned(), name: "web".to_owned(), ..pod.id.clone() };
            pod.is_of(&id, &workload)
        };
        assert!(is_of("Deployment", &owned("ReplicaSet", "web-5d4f", "x")));
        for (kind, name) in [("ReplicaSet", "web-b-5d4f"), ("StatefulSet", "web-5d4f"), ("ReplicaSet", "web")]
        {
            assert!(!is_of("Deployment", &owned(kind, name, "u")), "{kind} {name}");
        }
        assert!(is_of("StatefulSet", &owned("StatefulSet", "web", "u")));
        assert!(!is_of("StatefulSet", &owned("StatefulSet", "web", "other")));
        assert!(!is_of("DaemonSet", &pod(|_| ()).unwrap()), "nobody's");
    }

    #[test]
    fn selectors_are_written_as_lists_take_them() {
        let selector = |selector: Value| pod_selector(&json!({"spec": {"selector": selector}}));
        assert_eq!(selector(json!({"matchLabels": {"app": "web", "tier": "a"}})).unwrap(), "app=web,tier=a");
        let expressions = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "track", "operator": "In", "values": ["a", "b"]},
            {"key": "old", "operator": "NotIn", "values": ["yes"]},
            {"key": "new", "operator": "Exists"},
            {"key": "gone", "operator": "DoesNotExist"},
        ]});
        assert_eq!(selector(expressions).unwrap(), "app=web,track in (a,b),old notin (yes),new,!gone");
        assert_eq!(selector(json!({})), None);
        assert_eq!(selector(json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})), None);
        assert_eq!(pod_selector(&json!({})), None);
    }

    #[test]
    fn a_workload_of_nothing_has_nothing_to_probe() {
        for (live, wants) in [
            (json!({"spec": {"replicas": 0}}), false),
            (json!({"spec": {"replicas": 2}}), true),
            (json!({"spec": {}}), true),
            (json!({"spec": {}, "status": {"desiredNumberScheduled": 0}}), false),
        ] {
            assert_eq!(wants_pods(&live), wants, "{live}");
        }
        let mut live = json!({"metadata": {"uid": "u"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}}});
        let found = Workload { selector: "a=b".to_owned(), uid: "u".to_owned() };
        assert_eq!(Workload::of(&live), Some(found));
        live["spec"]["replicas"] = json!(0);
        assert_eq!(Workload::of(&live), None);
    }
}
