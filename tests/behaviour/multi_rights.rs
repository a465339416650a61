//! `tenancy: multi` as the chart renders it: its rules are enough for the main job, and each of them is needed.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sherpack_operator::api::{LockPolicy, Tenancy};
use sherpack_operator::manifest::yaml;
use sherpack_operator::source::http::Options;

use super::deploy::{as_account, right, tool};
use super::timed::leader_election;
use crate::support::accounts::{ALL, rule};
use crate::support::control_plane::{self, ControlPlane};
use crate::support::flux;
use crate::support::harness::{PERSON, condition};
use crate::support::http_server::{HttpServer, Route};
use crate::support::operator::Settings;
use crate::support::packs::{config_map, deployment, hook, with_pod_annotation};
use crate::support::wait::eventually;
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

const OPERATOR: &str = "sherpack-system";
const ACCOUNT: &str = "ops-sherpack-operator";
const TENANT: &str = "multi-rights";
const STRANGER: &str = "multi-rights-stranger";

/// The kinds of Flux sources, and their resources.
const FLUX: [(&str, &str); 5] = [
    ("OCIRepository", "ocirepositories"),
    ("GitRepository", "gitrepositories"),
    ("Bucket", "buckets"),
    ("HelmChart", "helmcharts"),
    ("ExternalArtifact", "externalartifacts"),
];

/// One verb on one resource: what a rule grants, or what a request needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    verb: String,
    group: String,
    resource: String,
    /// `None`: of a ClusterRole, or of an object without a namespace.
    namespace: Option<String>,
}

impl Access {
    fn allows(&self, need: &Self) -> bool {
        let fits = |granted: &str, needed: &str| granted == "*" || granted == needed;
        self.verb == need.verb
            && fits(&self.group, &need.group)
            && fits(&self.resource, &need.resource)
            && (self.namespace.is_none() || self.namespace == need.namespace)
    }
}

pub(super) fn texts(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned))
}

/// What the manifests grant to the operator's account, by whatever role and binding.
fn granted(rendered: &str) -> BTreeSet<Access> {
    let objects = yaml::parse_documents(rendered, "chart").unwrap();
    let ours = |binding: &Value| {
        let subjects = binding["subjects"].as_array();
        subjects.is_some_and(|all| all.iter().any(|subject| subject["name"] == ACCOUNT))
    };
    let mut all = BTreeSet::new();
    for binding in objects.iter().filter(|object| ours(object)) {
        let (kind, name) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
        let namespace = &binding["metadata"]["namespace"];
        let role = objects.iter().find(|object| {
            let meta = &object["metadata"];
            object["kind"] == *kind && meta["name"] == *name && meta["namespace"] == *namespace
        });
        for rule in role.unwrap()["rules"].as_array().unwrap() {
            for (group, resource, verb) in texts(&rule["apiGroups"]).flat_map(|group| {
                texts(&rule["resources"]).flat_map(move |resource| {
                    let group = group.clone();
                    texts(&rule["verbs"]).map(move |verb| (group.clone(), resource.clone(), verb))
                })
            }) {
                let namespace = namespace.as_str().map(str::to_owned);
                all.insert(Access { verb, group, resource, namespace });
            }
        }
    }
    all
}

/// What the API server asks RBAC of the operator's account about a request: the request itself, or whether it may act as
/// another account.
fn need(request: &Request) -> Option<Access> {
    if let Some(user) = &request.user {
        let namespace = user.split(':').nth(2)?.to_owned();
        let [verb, resource] = ["impersonate", "serviceaccounts"].map(str::to_owned);
        return Some(Access { verb, group: String::new(), resource, namespace: Some(namespace) });
    }
    let (verb, group, resource) = right(request)?;
    let parts: Vec<&str> = request.path.split('/').collect();
    let namespace = parts.iter().position(|part| *part == "namespaces").and_then(|at| parts.get(at + 1));
    Some(Access { verb, group, resource, namespace: namespace.map(|name| (*name).to_owned()) })
}

pub(super) fn chart(control_plane: &ControlPlane, more: &[&str]) -> String {
    let base = ["template", "ops", "charts/sherpack-operator", "--namespace", OPERATOR];
    tool(control_plane, "helm", &[&base, more].concat(), "")
}

/// The kinds of the packs below, beside ConfigMaps and Secrets, which the operator watches anyway. The rule for all kinds
/// that the chart has otherwise hides which of its own rules the operator needs.
fn narrowed() -> String {
    let watched = |group: &str, resource: &str| rule(&[group], &[resource], &["list", "watch"]);
    let rules = json!([
        watched("apps", "deployments"),
        watched("batch", "jobs"),
        watched("apiextensions.k8s.io", "customresourcedefinitions"),
        watched("rights.example.com", "widgets"),
    ]);
    format!("rbac.releases.rules={rules}")
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.rights.example.com"},
        "spec": {
            "group": "rights.example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

fn web() -> Pack {
    let widget = json!({
        "apiVersion": "rights.example.com/v1", "kind": "Widget", "metadata": {"name": "web"}, "spec": {"size": 3},
    });
    Pack::new("web", "1.0.0")
        .file("crds/widgets.yaml", definition().to_string())
        .object(hook("before", "pre-install,pre-upgrade"))
        .object(config_map("settings", json!({"color": "{{ values.color }}", "size": "{{ values.size }}"})))
        .object(config_map("other", json!({"a": "b"})))
        .object(deployment("web", 1))
        .object(widget)
}

/// An account of a tenant that may do what the packs need, there and with definitions.
async fn deployer(h: &Harness, namespace: &str) {
    let objects = h.objects.elsewhere(namespace);
    objects.server_side_apply("ServiceAccount/deployer", PERSON, json!({})).await;
    let verbs = [&ALL[..], &["list", "watch"]].concat();
    let rules = [
        rule(&[""], &["configmaps", "secrets", "pods"], &verbs),
        rule(&["apps"], &["deployments"], &verbs),
        rule(&["batch"], &["jobs"], &verbs),
        rule(&["rights.example.com"], &["widgets"], &verbs),
        rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &verbs),
        rule(&["source.toolkit.fluxcd.io"], &FLUX.map(|(_, resource)| resource), &["get"]),
    ];
    let name = format!("{namespace}-deployer");
    objects.server_side_apply(&format!("ClusterRole/{name}"), PERSON, json!({"rules": rules})).await;
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}],
    });
    objects.server_side_apply(&format!("ClusterRoleBinding/{name}"), PERSON, binding).await;
}

async fn installed(h: &Harness, server: &HttpServer) {
    let values = json!({"stringData": {"values.yaml": "color: blue"}});
    h.objects.server_side_apply("Secret/colors", PERSON, values).await;
    h.objects.server_side_apply("ConfigMap/sizes", PERSON, json!({"data": {"values.yaml": "size: 1"}})).await;
    let from = json!([{"kind": "Secret", "name": "colors"}, {"kind": "ConfigMap", "name": "sizes"}]);
    h.deploy("web", &web(), json!({"serviceAccountName": "deployer", "valuesFrom": from})).await;
    let small = |name: &str| Pack::new(name, "1.0.0").object(config_map(name, json!({"a": "b"})));
    let archive = STANDARD.encode(small("by-secret").archive());
    h.objects.server_side_apply("Secret/packed", PERSON, json!({"data": {"pack.tgz": archive}})).await;
    server.serve("/by-http.tgz", Route::File(small("by-http").archive()));
    let packs = [
        ("by-secret", json!({"secret": {"name": "packed"}})),
        ("by-http", json!({"http": {"url": server.url("/by-http.tgz")}})),
    ];
    for (name, pack) in packs {
        h.release(name, json!({"pack": pack, "serviceAccountName": "deployer"})).await;
        h.ready(name).await;
        h.uninstall(name).await;
    }
    flux_sources_are_watched(h, json!({"serviceAccountName": "deployer"})).await;
}

/// A release of each kind of Flux source has its kind watched.
pub(super) async fn flux_sources_are_watched(h: &Harness, more: Value) {
    flux::install_definitions(h.control_plane).await;
    for (kind, _) in FLUX {
        let (name, pack) = (kind.to_lowercase(), json!({"artifact": {"kind": kind, "name": "none"}}));
        let mut spec = more.clone();
        spec["pack"] = pack;
        h.release(&name, spec).await;
        h.condition(&name, "Ready", "False", Some("SourceNotFound")).await;
    }
    eventually("the kinds are watched", async || {
        let seen = h.wire.since(0);
        FLUX.iter().all(|(_, resource)| seen.iter().any(|one| one.verb == "watch" && one.is_about(resource)))
    })
    .await;
    for (kind, _) in FLUX {
        h.uninstall(&kind.to_lowercase()).await;
    }
}

async fn locked_and_changed(h: &Harness) {
    // Twice, so that the second Event about it only counts up the first one.
    for told in ["create", "patch"] {
        h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
        h.shows("ConfigMap/settings", "/data/color", "blue").await;
        eventually("the revert is told", async || {
            let events = h.wire.writes_to("events", 0);
            events.iter().any(|event| event.verb == told && event.body.to_string().contains("settings"))
        })
        .await;
    }
    h.objects.delete("Deployment/web").await;
    h.sees("Deployment/web", |_| true).await;
    h.objects.edit("Secret/colors", PERSON, json!({"stringData": {"values.yaml": "color: green"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.edit_spec("web", json!({"rollbackTo": null, "history": {"limit": 1}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.ready("web").await;
}

/// Both storages: an upgrade, one that fails and is rolled back, too many revisions, and the end.
async fn stored(h: &Harness) {
    for (name, storage) in [("secrets", "Secret"), ("maps", "ConfigMap")] {
        let pack = |color: &str| Pack::new(name, "1.0.0").object(config_map(name, json!({"color": color})));
        let mut more = json!({
            "serviceAccountName": "deployer", "upgrade": {"retries": 0},
            "history": {"storage": storage, "limit": 1},
        });
        h.deploy(name, &pack("blue"), more.clone()).await;
        h.deploy(name, &pack("green"), more.clone()).await;
        // Before the pack is another one: the timeout of an operation is that of its beginning.
        more["timeout"] = json!("3s");
        h.edit_spec(name, json!({"timeout": "3s"})).await;
        h.pass(name).await;
        let stuck = with_pod_annotation(deployment("stuck", 1), "devcluster/unready", "true");
        h.apply(name, &pack("red").object(stuck), more).await;
        h.condition(name, "Ready", "False", Some("RetriesExceeded")).await;
        h.shows(&format!("ConfigMap/{name}"), "/data/color", "green").await;
        h.uninstall(name).await;
    }
}

/// The operator reads a release when its watch does not bring it what it has written last.
async fn read_when_the_watch_lags(h: &Harness) {
    let (mark, edit) = (h.wire.mark(), json!({"data": {"a": "c"}}));
    let own_watch = |request: &Request| request.verb == "watch" && request.is_about("sherpackreleases");
    h.wire.fault(Fault::new(Effect::Hold, own_watch));
    h.wire.cut_watches();
    h.objects.edit("ConfigMap/other", "kubectl-edit", edit.clone()).await;
    eventually("the revert is in the status", async || {
        !h.wire.writes_to("sherpackreleases/web", mark).is_empty()
    })
    .await;
    h.objects.edit("ConfigMap/other", "kubectl-edit", edit).await;
    eventually("the release is read", async || {
        let read = |request: &Request| request.verb == "get" && request.is_about("sherpackreleases/web");
        h.wire.since(mark).iter().any(read)
    })
    .await;
    h.wire.heal();
    h.wire.release();
    h.shows("ConfigMap/other", "/data/a", "b").await;
}

fn settings(control_plane: &ControlPlane) -> Settings {
    Settings {
        watch_labels: None,
        kubeconfig: control_plane.kubeconfig.clone(),
        watch_namespace: None,
        operator_namespace: OPERATOR.to_owned(),
        pack_dir: None,
        sources: Options {
            allow: vec!["127.0.0.1".parse().unwrap()],
            deny_private: true,
            cache_bytes: 64 << 20,
            ..Options::default()
        },
        storage_dir: None,
        storage_namespaces: Vec::new(),
        leader_election: Some(leader_election::quick()),
        default_service_account: None,
        tenancy: Tenancy::Multi,
        trust_pack_crds: false,
        require_signatures: false,
        concurrency: 4,
        drift_ignore: json!([]),
        memory_budget: 128 << 20,
        lock: LockPolicy::default(),
        holder: "multi".to_owned(),
    }
}

fn none_is_refused_and_each_rule_needed(seen: &[Request], rendered: &str) {
    let refused = |request: &&Request| matches!(request.code, 401 | 403);
    let refused: Vec<String> = seen.iter().filter(refused).map(Request::line).collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let granted = granted(rendered);
    assert!(granted.len() > 30, "the walk misses most rules: {granted:#?}");
    let needs: BTreeSet<Access> = seen.iter().filter_map(need).collect();
    let needed: BTreeSet<&Access> = needs
        .iter()
        .filter_map(|need| {
            let mut allow = granted.iter().filter(|grant| grant.allows(need));
            allow.next().filter(|_| allow.next().is_none())
        })
        .collect();
    let superfluous: Vec<&Access> = granted.iter().filter(|grant| !needed.contains(grant)).collect();
    assert!(superfluous.is_empty(), "granted, and the story goes without: {superfluous:#?}");
}

/// A namespace that is not in `tenants`: not even an account that may do everything there helps.
async fn stranger_is_refused(h: &Harness) {
    let stranger = h.objects.elsewhere(STRANGER);
    let archive = STANDARD.encode(web().archive());
    stranger.server_side_apply("ConfigMap/p", PERSON, json!({"binaryData": {"pack.tgz": archive}})).await;
    let spec = json!({"pack": {"configMap": {"name": "p"}}, "serviceAccountName": "deployer"});
    stranger.server_side_apply("SherpackRelease/web", PERSON, json!({"spec": spec})).await;
    eventually("it is refused", async || {
        let release = stranger.get("SherpackRelease/web").await;
        let ready = condition(&release, "Ready");
        ready["status"] == "False"
            && ready["message"].as_str().is_some_and(|text| text.contains("impersonate"))
    })
    .await;
}

/// That each rule is needed is not tried by removing one after the other, which would take the story once for each. RBAC only
/// adds up: the API server lets a request through when at least one rule allows it. So without a rule exactly those requests
/// are refused that no other rule allows, and the story has sent one of these for each verb and resource of each rule.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_multi_tenancy_are_enough_and_none_is_superfluous() {
    let own = control_plane::own().await;
    let control_plane = own.plane;
    let system = control_plane.objects(OPERATOR).await;
    for name in [OPERATOR, STRANGER] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        system.create("test", namespace).await;
    }
    let mut h = Harness::of(control_plane, TENANT, settings(control_plane)).await;
    let tenants = format!("tenants={{{TENANT}}}");
    let rendered =
        chart(control_plane, &["--set", "tenancy=multi", "--set", &tenants, "--set-json", &narrowed()]);
    tool(control_plane, "kubectl", &["apply", "--server-side", "--force-conflicts", "-f", "-"], &rendered);
    deployer(&h, TENANT).await;
    deployer(&h, STRANGER).await;
    h.settings.kubeconfig = as_account(control_plane, OPERATOR, ACCOUNT).await;
    let server = HttpServer::start().await;

    h.start();
    installed(&h, &server).await;
    locked_and_changed(&h).await;
    stored(&h).await;
    read_when_the_watch_lags(&h).await;
    // Another process finds the key of the records, and the lease.
    h.start();
    h.pass("web").await;
    h.uninstall("web").await;
    let seen = h.wire.since(0);
    none_is_refused_and_each_rule_needed(&seen, &rendered);
    stranger_is_refused(&h).await;
    h.stop().await;
}
