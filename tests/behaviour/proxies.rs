//! `HTTPS_PROXY` and `NO_PROXY` on the way to the API server, with a kubeconfig and as in a pod.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::process::Command;

use super::port;
use crate::support::harness::PERSON;
use crate::support::http_proxy::HttpProxy;
use crate::support::operator::Probe;
use crate::support::packs::config_map;
use crate::support::process::{Process, command};
use crate::support::wait::LONG;
use crate::support::{Harness, Pack, tell};

/// Another spelling of 127.0.0.1, which the system knows and which is no loopback address to whoever only reads it.
const NAME: &str = "0x7f000001";

/// The kubeconfig of the control plane, with the API server under [`NAME`]; gives its port, too.
fn kubeconfig(h: &Harness, proxy: Option<&str>) -> (PathBuf, u16) {
    let config = std::fs::read_to_string(&h.control_plane.kubeconfig).unwrap();
    let mut config = sherpack_operator::manifest::yaml::parse_value(&config, "kubeconfig").unwrap();
    let mut port = 0;
    for entry in config["clusters"].as_array_mut().unwrap() {
        let cluster = &mut entry["cluster"];
        let server = cluster["server"].as_str().unwrap().to_owned();
        port = server.rsplit_once(':').unwrap().1.trim_end_matches('/').parse().unwrap();
        cluster["server"] = json!(format!("https://{NAME}:{port}"));
        cluster["tls-server-name"] = json!("localhost");
        if let Some(proxy) = proxy {
            cluster["proxy-url"] = json!(proxy);
        }
    }
    let path = h.control_plane.kubeconfig.with_file_name(format!("{}.kubeconfig", h.namespace));
    std::fs::write(&path, config.to_string()).unwrap();
    (path, port)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_is_asked_through_the_proxy_unless_it_is_excepted() {
    let h = Harness::without_operator("proxies-api").await;
    let (kubeconfig, port) = kubeconfig(&h, None);
    let server = format!("127.0.0.1:{port}").parse().unwrap();
    let proxy = HttpProxy::start(server, Some("Basic dXNlcjpwQHNz")).await;
    let https = format!("http://user:p%40ss@{}", proxy.address);
    for (no_proxy, through) in [
        ("example.com,10.0.0.0/8,127.0.0.1", true),
        (&*format!("{NAME}:1"), true),
        (&*format!("{NAME}:{port}"), false),
        (NAME, false),
    ] {
        let before = proxy.asked().len();
        let mut operator = command(&h, &[]);
        operator.env("KUBECONFIG", &kubeconfig).env("HTTPS_PROXY", &https).env("NO_PROXY", no_proxy);
        let process = Process::of(operator).await;
        Probe(process.address).ready().await;
        let (code, lines) = process.stop().await;
        assert_eq!(code, Some(0));
        let asked = proxy.asked().split_off(before);
        assert_eq!(!asked.is_empty(), through, "NO_PROXY={no_proxy}: {asked:?}");
        assert!(asked.iter().all(|line| *line == format!("CONNECT {NAME}:{port}")), "{asked:?}");
        assert!(!Value::from(lines).to_string().contains("p%40ss"), "the password is in the log");
    }
}

/// Puts what the kubelet mounts into a pod where a client looks for it.
const AS_A_POD: &str = "mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io \
    && cp -r \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
/// It sees mounts of its own.
const ALONE: [&str; 3] = ["--user", "--map-root-user", "--mount"];

/// The operator with the token and the CA of an account in `directory`, and an API server at 10.0.0.1.
fn in_a_pod(h: &Harness, directory: &Path, port: u16) -> Command {
    let operator = command(h, &[]);
    let mut pod = Command::new("unshare");
    pod.args(ALONE).args(["sh", "-c", AS_A_POD]).arg(directory);
    pod.arg(operator.as_std().get_program()).args(operator.as_std().get_args());
    pod.env_remove("KUBECONFIG").env("HOME", "/nowhere");
    pod.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("KUBERNETES_SERVICE_PORT", port.to_string());
    pod
}

/// Without a kubeconfig. That takes mounts which only the operator sees, and they are not for each user of each machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_the_api_server_is_asked_through_the_proxy_unless_it_is_excepted() {
    if !std::process::Command::new("unshare").args(ALONE).arg("true").status().is_ok_and(|end| end.success())
    {
        return tell("proxies: no mount namespaces here, so the operator is not run as in a pod");
    }
    let h = Harness::without_operator("proxies-pod").await;
    let (kubeconfig, port) = kubeconfig(&h, None);
    h.account("operator").await;
    let admin = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": h.namespace}],
    });
    h.objects.server_side_apply("ClusterRoleBinding/proxies-pod", PERSON, admin).await;
    let directory = kubeconfig.with_extension("pod");
    std::fs::create_dir_all(&directory).unwrap();
    let config = Kubeconfig::read_from(&kubeconfig).unwrap();
    let authority = config.clusters[0].cluster.as_ref().unwrap().certificate_authority_data.clone().unwrap();
    let token = port::token(&h, "operator").await;
    for (file, content) in [
        ("ca.crt", STANDARD.decode(authority).unwrap()),
        ("token", token.into()),
        ("namespace", b"x".to_vec()),
    ] {
        std::fs::write(directory.join(file), content).unwrap();
    }
    let proxy = HttpProxy::start(format!("127.0.0.1:{port}").parse().unwrap(), None).await;
    let url = format!("http://{}", proxy.address);
    let mut operator = in_a_pod(&h, &directory, port);
    operator.env("HTTPS_PROXY", &url).env("NO_PROXY", "example.com,10.1.0.0/16");
    let process = Process::of(operator).await;
    Probe(process.address).ready().await;
    let pack = Pack::new("web", "1.0.0").object(config_map("web", json!({"a": "b"})));
    h.deploy("web", &pack, json!({})).await;
    assert_eq!(process.stop().await.0, Some(0));
    let asked = proxy.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|line| *line == format!("CONNECT 10.0.0.1:{port}")),
        "{asked:?}"
    );
    // Excepted, it is asked directly, and 10.0.0.1 is nowhere.
    let mut operator = in_a_pod(&h, &directory, port);
    operator.env("HTTPS_PROXY", &url).env("NO_PROXY", "10.0.0.0/8").stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(LONG, operator.output()).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(proxy.asked().len(), asked.len());
}

/// Watches, applies and the commands of people go the same way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_installed_and_locked_through_the_proxy_that_the_kubeconfig_names() {
    let h = Harness::without_operator("proxies-release").await;
    let (_, port) = kubeconfig(&h, None);
    let proxy = HttpProxy::start(format!("127.0.0.1:{port}").parse().unwrap(), None).await;
    let (kubeconfig, _) = kubeconfig(&h, Some(&format!("http://{}", proxy.address)));
    let mut operator = command(&h, &[]);
    // What the kubeconfig says is for this cluster alone, so exceptions do not count.
    operator.env("KUBECONFIG", &kubeconfig).env("HTTPS_PROXY", "http://127.0.0.1:1").env("NO_PROXY", "*");
    let process = Process::of(operator).await;
    let pack = Pack::new("web", "1.0.0").object(config_map("web", json!({"a": "b"})));
    h.deploy("web", &pack, json!({})).await;
    h.objects.edit("ConfigMap/web", PERSON, json!({"data": {"a": "c"}})).await;
    h.shows("ConfigMap/web", "/data/a", "b").await;
    assert_eq!(process.stop().await.0, Some(0));
    let asked = proxy.asked().len();
    let status = tokio::process::Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .args(["list", "-n", &h.namespace])
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .await
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert!(proxy.asked().len() > asked);
}
