//! The operator as people install it: `config/` by kustomize, `charts/` by Helm, and the permissions in both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use sherpack_operator::source::http::Options;

use super::multi_rights::flux_sources_are_watched;
use super::port;
use super::timed::leader_election;
use crate::support::accounts::{ALL, rule};
use crate::support::control_plane::{self, ControlPlane};
use crate::support::objects::Objects;
use crate::support::operator::Settings;
use crate::support::packs::config_map;
use crate::support::process::{Process, command};
use crate::support::wait::eventually;
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

/// Verb, API group, resource with its subresource.
pub(super) type Right = (String, String, String);

pub(super) fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a tool of the control plane with these arguments and this standard input; gives what it printed.
pub(super) fn tool(control_plane: &ControlPlane, name: &str, arguments: &[&str], input: &str) -> String {
    use std::io::Write;
    let mut child = Command::new(control_plane.bin.join(name))
        .args(arguments)
        .current_dir(project())
        .env("KUBECONFIG", &control_plane.kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{name}: {error}; `make test` builds it"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// A kubeconfig with a token of the service account.
pub(super) async fn as_account(control_plane: &ControlPlane, namespace: &str, name: &str) -> PathBuf {
    let accounts: Api<ServiceAccount> = Api::namespaced(control_plane.client().await, namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let token = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    let mut config = Kubeconfig::read_from(&control_plane.kubeconfig).unwrap();
    for user in &mut config.auth_infos {
        user.auth_info = Some(kube::config::AuthInfo {
            token: Some(token.status.as_ref().unwrap().token.clone().into()),
            ..kube::config::AuthInfo::default()
        });
    }
    let mut config = serde_json::to_value(&config).unwrap();
    for user in config["users"].as_array_mut().unwrap() {
        // The type hides secrets when it is written.
        user["user"]["token"] = json!(token.status.as_ref().unwrap().token);
    }
    let path = control_plane.kubeconfig.with_file_name(format!("{namespace}-{name}.kubeconfig"));
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// What the API server asks RBAC about a request; nothing for discovery and health.
pub(super) fn right(request: &Request) -> Option<Right> {
    let mut parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let group = match parts[0] {
        "api" => {
            parts.drain(..2.min(parts.len()));
            String::new()
        }
        "apis" => {
            let group = parts.get(1).copied().unwrap_or_default().to_owned();
            parts.drain(..3.min(parts.len()));
            group
        }
        _ => return None,
    };
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    let resource = match parts.as_slice() {
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, subresource] => format!("{resource}/{subresource}"),
        _ => return None,
    };
    let verb = if request.verb == "apply" { "patch" } else { request.verb };
    Some((verb.to_owned(), group, resource))
}

fn rights(rules: Option<&Vec<PolicyRule>>) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for rule in rules.into_iter().flatten() {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    all.insert((verb.clone(), group.clone(), resource.clone()));
                }
            }
        }
    }
    all
}

/// What the packs of the story contain, with the verbs that `config/rbac/releases_role.yaml` asks for.
fn kinds_of_the_packs() -> Value {
    let verbs = ["get", "list", "watch", "create", "patch", "update", "delete"];
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    json!([
        rule("", &["configmaps", "secrets", "services", "serviceaccounts", "persistentvolumeclaims"]),
        rule("apps", &["deployments", "statefulsets"]),
        rule("networking.k8s.io", &["ingresses"]),
        rule("autoscaling", &["horizontalpodautoscalers"]),
        rule("policy", &["poddisruptionbudgets"]),
    ])
}

/// Storage for one claim; nothing provisions any in the test cluster.
fn persistent_volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "50Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"},
        },
    })
}

/// `config/default` with its components, as its comment tells.
fn with_components() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("with-components");
    std::fs::create_dir_all(&directory).unwrap();
    let up = "../".repeat(directory.strip_prefix(project()).unwrap().components().count());
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [format!("{up}config/default")],
        "components": [format!("{up}config/metrics-auth"), format!("{up}config/network-policy")],
    });
    std::fs::write(directory.join("kustomization.yaml"), kustomization.to_string()).unwrap();
    directory
}

/// With the rights of the component, and those of the role for readers, the metrics are read.
async fn metrics_are_read(h: &Harness, kubeconfig: &Path) {
    let mut operator = command(h, &["--metrics-auth=token", "--metrics-listen=127.0.0.1:0"]);
    operator.env("KUBECONFIG", kubeconfig);
    let mut process = Process::of(operator).await;
    let address = process.told("metrics").await;
    h.account("scraper").await;
    let headers = port::bearer(&port::token(h, "scraper").await);
    assert!(port::ask(address, None, "/metrics", &headers).await.starts_with("HTTP/1.1 403"));
    let role = "sherpack-operator-metrics-reader";
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": h.namespace}],
    });
    h.objects.server_side_apply("ClusterRoleBinding/scraper", "test", binding).await;
    eventually("the metrics are read", async || {
        port::ask(address, None, "/metrics", &headers).await.starts_with("HTTP/1.1 200")
    })
    .await;
    process.stop().await;
}

fn settings(kubeconfig: PathBuf) -> Settings {
    Settings {
        watch_labels: None,
        kubeconfig,
        watch_namespace: None,
        operator_namespace: "sherpack-system".to_owned(),
        pack_dir: None,
        sources: Options::default(),
        storage_dir: None,
        storage_namespaces: Vec::new(),
        leader_election: Some(leader_election::quick()),
        default_service_account: None,
        tenancy: sherpack_operator::api::Tenancy::Single,
        trust_pack_crds: false,
        require_signatures: false,
        concurrency: 4,
        drift_ignore: json!([]),
        memory_budget: 128 << 20,
        lock: sherpack_operator::api::LockPolicy::default(),
        holder: "deployed".to_owned(),
    }
}

/// Both samples are installed, changed by others, and upgraded.
async fn samples_live(h: &Harness) {
    h.deploy("web", &Pack::sample("webapp"), json!({"values": {"autoscaling": {"enabled": true}}})).await;
    h.deploy(
        "db",
        &Pack::sample("database"),
        json!({
            "targetNamespace": "deployed-db", "createNamespace": true, "history": {"storage": "ConfigMap"},
        }),
    )
    .await;
    h.objects
        .edit_subresource("Deployment/web-webapp", "scale", "kubectl", json!({"spec": {"replicas": 7}}))
        .await;
    // Twice, so that the second Event about it only counts up the first one.
    for told in ["create", "patch"] {
        h.objects.edit("ConfigMap/web-webapp", "kubectl-edit", json!({"data": {"app.yaml": "x"}})).await;
        h.sees("ConfigMap/web-webapp", |object| object["data"]["app.yaml"] != "x").await;
        eventually("the revert is told", async || {
            let events = h.wire.writes_to("events", 0);
            events.iter().any(|event| event.verb == told && event.body.to_string().contains("ConfigMap"))
        })
        .await;
    }
    h.objects.delete("Service/web-webapp").await;
    h.sees("Service/web-webapp", |_| true).await;
    h.edit_spec("web", json!({"values": {"autoscaling": {"enabled": false}}, "history": {"limit": 1}})).await;
    h.gone("HorizontalPodAutoscaler/web-webapp").await;
    h.ready("web").await;
    h.objects
        .edit_subresource("Deployment/web-webapp", "scale", "kubectl", json!({"spec": {"replicas": 7}}))
        .await;
    h.shows("Deployment/web-webapp", "/spec/replicas", 2).await;
}

/// Each right that `config/rbac/` grants was used by these requests.
async fn none_is_idle(client: &Client, roles: &Api<ClusterRole>, seen: Vec<Request>) {
    let (own, impersonated): (Vec<Request>, Vec<Request>) =
        seen.into_iter().partition(|request| request.user.is_none());
    let mut used: BTreeSet<Right> = own.iter().filter_map(right).collect();
    if !impersonated.is_empty() {
        used.insert(("impersonate".to_owned(), String::new(), "serviceaccounts".to_owned()));
    }
    let mut granted = rights(roles.get("sherpack-operator").await.unwrap().rules.as_ref());
    // Only when the cache lags behind the operator's own last write, and for a workload that does not get ready.
    for (verb, group, resource) in [("get", "sherpack.io", "sherpackreleases"), ("list", "", "pods")] {
        assert!(granted.remove(&(verb.to_owned(), group.to_owned(), resource.to_owned())), "{resource}");
    }
    let elects: Api<Role> = Api::namespaced(client.clone(), "sherpack-system");
    let elects = elects.get("sherpack-operator-leader-election").await.unwrap();
    granted.extend(rights(elects.rules.as_ref()));
    let reviews = roles.get("sherpack-operator-metrics-auth").await.unwrap();
    assert_eq!(rights(reviews.rules.as_ref()).len(), 2, "{reviews:?}");
    let idle: Vec<&Right> = granted.difference(&used).collect();
    assert!(idle.is_empty(), "granted in config/rbac/ and never used: {idle:#?}");
}

/// Applies `config/default`, narrows what releases may be as its comment tells, and runs the operator with
/// nothing but the permissions of its service account, on all namespaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kustomization_installs_and_its_permissions_are_those_in_use() {
    let own = control_plane::own().await;
    let control_plane = own.plane;
    let rendered = tool(control_plane, "kubectl", &["kustomize", with_components().to_str().unwrap()], "");
    tool(control_plane, "kubectl", &["apply", "--server-side", "--force-conflicts", "-f", "-"], &rendered);

    let client = control_plane.client().await;
    let system = control_plane.objects("sherpack-system").await;
    let deployment = system.get("Deployment/sherpack-operator").await;
    assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], "sherpack-operator");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert!(container["args"].as_array().unwrap().contains(&json!("--metrics-auth=token")), "{container}");
    let closed = system.get("NetworkPolicy/sherpack-operator").await;
    assert_eq!(closed["spec"]["policyTypes"], json!(["Ingress"]));
    let rules = kinds_of_the_packs();
    system.edit("ClusterRole/sherpack-operator-releases", "test", json!({"rules": rules})).await;

    let kubeconfig = as_account(control_plane, "sherpack-system", "sherpack-operator").await;
    let h = Harness::of(control_plane, "deployed", settings(kubeconfig)).await;
    for volume in ["one", "two"] {
        h.objects.create("test", persistent_volume(volume)).await;
    }
    h.start();
    samples_live(&h).await;
    flux_sources_are_watched(&h, json!({})).await;
    // In the name of an account, which is granted to nobody else.
    h.account("deployer").await;
    h.grant("deployer", &[rule(&[""], &["configmaps"], &ALL)]).await;
    eventually("the rights are known", async || h.may("deployer", "get", "configmaps").await).await;
    let own = Pack::new("own", "1.0.0").object(config_map("own", json!({"a": "b"})));
    h.deploy("own", &own, json!({"serviceAccountName": "deployer"})).await;
    h.uninstall("own").await;
    // A second operator finds the key of the records instead of making it. It stands by until the lease of the first,
    // which was killed, is over.
    h.start();
    h.pass("web").await;
    h.uninstall("web").await;
    h.uninstall("db").await;
    h.stop().await;
    metrics_are_read(&h, &h.settings.kubeconfig).await;

    let seen = h.wire.since(0);
    let refused: Vec<String> =
        seen.iter().filter(|request| matches!(request.code, 401 | 403)).map(Request::line).collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");

    none_is_idle(&h.client, &Api::all(client), seen).await;
}

/// Every switch thrown the other way gives something that is valid too.
fn switches_give_what_they_say(control_plane: &ControlPlane, template: &dyn Fn(&[&str]) -> String) {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    let other = "crds.install=false,rbac.releases.create=false,watchNamespace=apps,packDir=/packs,storageDir=/records,\
                 allowStorageNamespaces[0]=vault,allowLookups[0]=shared,\
                 priorityClassName=system-cluster-critical,serviceAccount.name=other,\
                 tenancy=multi,defaultServiceAccount=tenant,rbac.impersonate=false,\
                 nodeSelector.disk=ssd,podAnnotations.a=b,imagePullSecrets[0].name=pull,\
                 allowSources[0]=charts.local:8080,sourceController=source.flux:80,denyPrivateSources=false,\
                 metrics.auth=token,metrics.certSecret=cert,webhook.tokenSecret=tokens,networkPolicy.enabled=true,extraEnv[0].name=NO_PROXY,extraEnv[0].value=x,\
                 volumes[0].name=v,volumeMounts[0].name=v,volumeMounts[0].mountPath=/v";
    let dry = [&apply[..], &["--dry-run=server"]].concat();
    let all = template(&["--set", other]);
    tool(control_plane, "kubectl", &dry, &all);
    for said in [
        "--source-controller=source.flux:80",
        "--deny-private-sources=false",
        "--metrics-auth=token",
        "--metrics-cert-dir=/metrics-certs",
        "--webhook-listen=0.0.0.0:9292",
        "--webhook-tokens=/webhook-tokens",
        "targetPort: webhook",
    ] {
        assert!(all.contains(said), "{said}: {all}");
    }
    for unasked in ["tokenreviews", "NetworkPolicy", "--deny-private", "--metrics", "webhook"] {
        assert!(!template(&[]).contains(unasked), "{unasked}");
    }
    let open = template(&["--set", "networkPolicy.enabled=true"]);
    let port = |rendered: &str| {
        let documents = sherpack_operator::manifest::yaml::parse_documents(rendered, "chart").unwrap();
        let policy = documents.into_iter().find(|object| object["kind"] == "NetworkPolicy").unwrap();
        policy["spec"]["ingress"][0]["ports"][0]["port"].clone()
    };
    assert_eq!((port(&open), port(&all)), (json!(8080), json!(8443)));
    // Two that do not know of each other would both act.
    let several = template(&["--set", "replicas=2"]);
    tool(control_plane, "kubectl", &dry, &several);
    assert!(several.contains("- --leader-elect\n") && !several.contains("type: Recreate"), "{several}");
    assert!(!template(&[]).contains("--leader-elect") && template(&[]).contains("type: Recreate"));
}

async fn roles_are_those_of_the_kustomization(control_plane: &ControlPlane, objects: &Objects) {
    let roles: Api<ClusterRole> = Api::all(objects.client.clone());
    let elects: Api<Role> = Api::namespaced(objects.client.clone(), &objects.namespace);
    let kustomized = tool(control_plane, "kubectl", &["kustomize", "config/default"], "");
    let kustomized =
        sherpack_operator::manifest::yaml::parse_documents(&kustomized, "config/default").unwrap();
    let find = |kind: &str, name: &str| {
        let found = kustomized
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("config/ has no {kind} {name}"));
        found.clone()
    };
    let theirs: Role = serde_json::from_value(find("Role", "sherpack-operator-leader-election")).unwrap();
    let ours = elects.get("guard-sherpack-operator-leader-election").await.unwrap();
    assert_eq!(ours.rules, theirs.rules);
    for (chart, config) in [
        ("guard-sherpack-operator", "sherpack-operator"),
        ("guard-sherpack-operator-releases", "sherpack-operator-releases"),
        ("guard-sherpack-operator-sherpackrelease-editor", "sherpack-operator-sherpackrelease-editor"),
        ("guard-sherpack-operator-sherpackrelease-viewer", "sherpack-operator-sherpackrelease-viewer"),
        ("guard-sherpack-operator-metrics-reader", "sherpack-operator-metrics-reader"),
    ] {
        let theirs: ClusterRole = serde_json::from_value(find("ClusterRole", config)).unwrap();
        assert_eq!(roles.get(chart).await.unwrap().rules, theirs.rules, "{chart} and {config}");
    }
}

/// The chart, rendered by Helm: the same permissions as `config/`, and objects that the API server takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_installs_with_the_same_permissions() {
    let control_plane = control_plane::shared().await;
    let namespace = "chart-installs";
    let template = |more: &[&str]| {
        let arguments = ["template", "guard", "charts/sherpack-operator", "--namespace", namespace];
        let arguments = [&arguments[..], &["--set", "tenancy=single"]].concat();
        tool(control_plane, "helm", &[&arguments, more].concat(), "")
    };
    let objects = control_plane.objects(namespace).await;
    objects
        .create("test", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        .await;
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    tool(control_plane, "kubectl", &apply, &template(&[]));
    switches_give_what_they_say(control_plane, &template);

    let deployment = objects.get("Deployment/guard-sherpack-operator").await;
    let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
    assert_eq!(account, "guard-sherpack-operator");
    objects.get("ServiceAccount/guard-sherpack-operator").await;

    roles_are_those_of_the_kustomization(control_plane, &objects).await;
}

/// The samples: packaged, stored and applied with the commands of `config/samples/README.md`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_becomes_ready() {
    let h = Harness::new("samples").await;
    let archive = std::env::temp_dir().join(format!("hello-{}.tgz", std::process::id()));
    let archive = archive.to_str().unwrap();
    let packaged = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .args(["package", "config/samples/hello", "-o", archive])
        .current_dir(project())
        .output()
        .unwrap();
    assert!(packaged.status.success(), "{}", String::from_utf8_lossy(&packaged.stderr));
    let file = format!("--from-file=hello-0.1.0.tgz={archive}");
    let create = ["-n", &h.namespace, "create", "configmap", "hello-pack", &file];
    tool(h.control_plane, "kubectl", &create, "");
    std::fs::remove_file(archive).unwrap();
    let rendered = tool(h.control_plane, "kubectl", &["kustomize", "config/samples"], "");
    let rendered = rendered.replace("namespace: default", &format!("namespace: {}", h.namespace));
    tool(h.control_plane, "kubectl", &["apply", "-f", "-"], &rendered);
    h.ready("hello").await;
    assert_eq!(h.objects.get("ConfigMap/hello").await["data"]["greeting"], "Good morning");
}
