use serde_json::json;

use super::*;
use crate::manifest::yaml::parse_documents;

/// Normalises one YAML document, twice: the second time must change nothing.
fn normal(yaml: &str) -> Value {
    let mut body = parse_documents(yaml, "t.yaml").unwrap().remove(0);
    normalise(&mut body);
    let once = body.clone();
    normalise(&mut body);
    assert_eq!(body, once, "normalising twice is not the same as once");
    body
}

#[test]
fn what_the_server_writes_is_not_applied() {
    let body = normal(
        "
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  creationTimestamp: null
  deletionTimestamp: 2026-01-01T00:00:00Z
  deletionGracePeriodSeconds: 1
  managedFields: [{manager: x}]
  resourceVersion: '5'
  uid: u
  generation: 3
  selfLink: /x
  annotations: {a: b, gone: null}
  labels: null
data: {a: b, c: null}
status: {x: 1}
",
    );
    assert_eq!(
        body,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"a": "b"}}, "data": {"a": "b"}})
    );
}

#[test]
fn nulls_mean_absent_in_built_in_kinds_but_not_in_lists() {
    let body = normal(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {strategy: null, template: {metadata: \
         {creationTimestamp: null}, spec: {containers: [{name: a, args: [a, null], env: null}]}}}}",
    );
    assert_eq!(
        body["spec"],
        json!({"template": {"metadata": {}, "spec": {"containers": [{"name": "a", "args": ["a", null]}]}}})
    );
}

#[test]
fn nulls_of_a_custom_resource_may_have_a_meaning() {
    let body = normal(
        "{apiVersion: x.io/v1, kind: X, metadata: {name: a, labels: null, annotations: {a: null}}, status: {}, spec: {a: \
         null, template: {metadata: {creationTimestamp: null}}}, other: null}",
    );
    assert_eq!(
        body,
        json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "a", "annotations": {}},
            "spec": {"a": null, "template": {"metadata": {}}}})
    );
}

#[test]
fn nulls_that_are_data_of_a_schema_stay() {
    let body = normal(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xs.x.io, creationTimestamp: null}
spec:
  conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: Cg==, service: null}}}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: null
        properties:
          a: {nullable: true, default: null, enum: [x, null], example: {y: null}, format: null}
          b: {default: {c: null}}
          default: {type: string, description: null}
          enum: null
status: {acceptedNames: {}}
",
    );
    assert_eq!(body["metadata"], json!({"name": "xs.x.io"}));
    assert_eq!(body["spec"]["conversion"]["webhook"]["clientConfig"], json!({}));
    assert_eq!(
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({"properties": {
            "a": {"nullable": true, "default": null, "enum": ["x", null], "example": {"y": null}},
            "b": {"default": {"c": null}},
            "default": {"type": "string"},
        }})
    );
}

#[test]
fn string_data_becomes_data_and_wins() {
    let body = normal(
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: QQ==, b: \"Qk\\nI=\"}, stringData: {a: x, c: 'ü', d: null}}",
    );
    assert_eq!(body["data"], json!({"a": "eA==", "b": "QkI=", "c": "w7w="}));
    assert_eq!(body.get("stringData"), None);
}

#[test]
fn string_data_that_is_no_string_is_left_for_the_server_to_refuse() {
    let body = normal("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {port: 80}}");
    assert_eq!(body["stringData"], json!({"port": 80}));
    assert_eq!(body.get("data"), None);
    let empty = normal("{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {}}");
    assert_eq!(empty.get("data"), None);
    let other = normal("{apiVersion: v1, kind: ConfigMap, metadata: {name: s}, stringData: {a: b}}");
    assert_eq!(other["stringData"], json!({"a": "b"}), "only a Secret has stringData");
}

const POD: &str = "
containers:
- name: a
  ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}, {containerPort: 1, protocol: ''}]
  resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 0.5, memory: 64Mi, example.com/gpu: 1}}
  env: [{name: E, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1000m}}}]
initContainers: [{name: i, resources: {limits: {cpu: 2000m}}}]
ephemeralContainers: [{name: e, resources: {limits: {cpu: 3000m}}}]
overhead: {cpu: 4000m}
resources: {requests: {cpu: 5000m}}
volumes:
- {name: a, emptyDir: {sizeLimit: 1024Mi}}
- {name: b, ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1024Gi}}}}}}
- {name: c, downwardAPI: {items: [{path: p, resourceFieldRef: {divisor: 1024Ki}}]}}
- {name: d, projected: {sources: [{downwardAPI: {items: [{path: p, resourceFieldRef: {divisor: 2048Ki}}]}}]}}
";

fn check_pod(spec: &Value, kind: &str) {
    let rows = [
        ("/containers/0/ports/0/protocol", json!("TCP")),
        ("/containers/0/ports/1/protocol", json!("UDP")),
        ("/containers/0/ports/2/protocol", json!("TCP")),
        ("/containers/0/resources/limits", json!({"cpu": "1", "memory": "1Gi"})),
        (
            "/containers/0/resources/requests",
            json!({"cpu": "500m", "memory": "64Mi", "example.com/gpu": "1"}),
        ),
        ("/containers/0/env/0/valueFrom/resourceFieldRef/divisor", json!("1")),
        ("/initContainers/0/resources/limits/cpu", json!("2")),
        ("/ephemeralContainers/0/resources/limits/cpu", json!("3")),
        ("/overhead/cpu", json!("4")),
        ("/resources/requests/cpu", json!("5")),
        ("/volumes/0/emptyDir/sizeLimit", json!("1Gi")),
        ("/volumes/1/ephemeral/volumeClaimTemplate/spec/resources/requests/storage", json!("1Ti")),
        ("/volumes/2/downwardAPI/items/0/resourceFieldRef/divisor", json!("1Mi")),
        ("/volumes/3/projected/sources/0/downwardAPI/items/0/resourceFieldRef/divisor", json!("2Mi")),
    ];
    for (pointer, expected) in rows {
        assert_eq!(spec.pointer(pointer), Some(&expected), "{kind} {pointer}");
    }
}

#[test]
fn every_kind_with_pods_has_canonical_ports_and_quantities() {
    let spec = parse_documents(POD, "pod").unwrap().remove(0);
    for (api_version, kind, pointer) in [
        ("v1", "Pod", "/spec"),
        ("v1", "PodTemplate", "/template/spec"),
        ("v1", "ReplicationController", "/spec/template/spec"),
        ("apps/v1", "Deployment", "/spec/template/spec"),
        ("apps/v1", "ReplicaSet", "/spec/template/spec"),
        ("apps/v1", "StatefulSet", "/spec/template/spec"),
        ("apps/v1", "DaemonSet", "/spec/template/spec"),
        ("batch/v1", "Job", "/spec/template/spec"),
        ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template/spec"),
    ] {
        let mut body = pointer
            .rsplit('/')
            .filter(|key| !key.is_empty())
            .fold(spec.clone(), |inner, key| json!({key: inner}));
        body["apiVersion"] = api_version.into();
        body["kind"] = kind.into();
        normalise(&mut body);
        check_pod(body.pointer(pointer).unwrap(), kind);
    }
}

#[test]
fn quantities_elsewhere_are_canonical() {
    let rows = [
        (
            "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {resources: {requests: {storage: 1024Mi}}}}",
            "/spec/resources/requests/storage",
            "1Gi",
        ),
        (
            "{apiVersion: v1, kind: PersistentVolume, spec: {capacity: {storage: 1024Gi}}}",
            "/spec/capacity/storage",
            "1Ti",
        ),
        (
            "{apiVersion: v1, kind: ResourceQuota, spec: {hard: {pods: 10, limits.cpu: 1000m}}}",
            "/spec/hard/pods",
            "10",
        ),
        (
            "{apiVersion: v1, kind: LimitRange, spec: {limits: [{type: Pod, defaultRequest: {cpu: 0.1}}]}}",
            "/spec/limits/0/defaultRequest/cpu",
            "100m",
        ),
        (
            "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {metrics: [{pods: {target: {averageValue: 1000m}}}]}}",
            "/spec/metrics/0/pods/target/averageValue",
            "1",
        ),
        (
            "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {metrics: [{external: {target: {value: 0.5}}}]}}",
            "/spec/metrics/0/external/target/value",
            "500m",
        ),
        (
            "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, overhead: {podFixed: {cpu: 1000m}}}",
            "/overhead/podFixed/cpu",
            "1",
        ),
        (
            "{apiVersion: apps/v1, kind: StatefulSet, spec: {volumeClaimTemplates: [{spec: {resources: {requests: {storage: 1024Mi}}}}]}}",
            "/spec/volumeClaimTemplates/0/spec/resources/requests/storage",
            "1Gi",
        ),
    ];
    for (yaml, pointer, expected) in rows {
        assert_eq!(normal(yaml).pointer(pointer), Some(&json!(expected)), "{yaml}");
    }
}

#[test]
fn what_only_looks_like_a_quantity_is_left_alone() {
    let config = normal("{apiVersion: v1, kind: ConfigMap, data: {cpu: 1000m}}");
    assert_eq!(config["data"]["cpu"], "1000m");
    let custom =
        normal("{apiVersion: x.io/v1, kind: Deployment, spec: {template: {spec: {overhead: {cpu: 1000m}}}}}");
    assert_eq!(custom["spec"]["template"]["spec"]["overhead"]["cpu"], "1000m");
    let budget = normal("{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: 1}}");
    assert_eq!(budget["spec"]["minAvailable"], 1);
}

#[test]
fn a_service_port_without_protocol_is_tcp() {
    let body =
        normal("{apiVersion: v1, kind: Service, spec: {ports: [{port: 80}, {port: 53, protocol: UDP}]}}");
    assert_eq!(
        body["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}])
    );
    let policy = normal(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {ingress: [{ports: [{port: 80}]}]}}",
    );
    assert_eq!(policy["spec"]["ingress"][0]["ports"], json!([{"port": 80}]), "an atomic list has no keys");
}

#[test]
fn a_blank_ca_bundle_is_left_to_the_injector() {
    for (blank, stays) in [("''", false), ("Cg==", false), ("QQ==", true), ("'not base64!'", true)] {
        let webhook = format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: [{{name: a, clientConfig: {{caBundle: {blank}}}}}]}}"
        );
        assert_eq!(normal(&webhook).pointer("/webhooks/0/clientConfig/caBundle").is_some(), stays, "{blank}");
        let service = format!(
            "{{apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {{caBundle: {blank}}}}}"
        );
        assert_eq!(normal(&service).pointer("/spec/caBundle").is_some(), stays, "{blank}");
    }
}

#[test]
fn rules_of_an_aggregated_role_belong_to_the_controller() {
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nrules: []\n";
    assert_eq!(normal(role).get("rules"), Some(&json!([])));
    let aggregated = format!("{role}aggregationRule: {{clusterRoleSelectors: []}}\n");
    assert_eq!(normal(&aggregated).get("rules"), None);
}

#[test]
fn a_body_of_the_wrong_shape_is_survived() {
    for body in [
        json!(null),
        json!([]),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": 5}),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": {"a": 1}, "volumes": "x"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "data": "x", "stringData": {"a": "b"}}),
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [5]}}),
        json!({"apiVersion": 1, "kind": [], "metadata": "x"}),
    ] {
        let mut normal = body.clone();
        normalise(&mut normal);
    }
}
