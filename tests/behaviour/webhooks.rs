//! Webhooks: who pushed something has its sources looked at before their interval is over.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::http_server::{HttpServer, Route};
use crate::support::operator::Probe;
use crate::support::packs::config_map;
use crate::support::process::{Process, command};
use crate::support::registry::{Artifact, Options, Registry};
use crate::support::sourced::colored;
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

const OF_NAMESPACE: &str = "0123456789abcdef0123456789abcdef";
const OF_OTHER: &str = "fedcba9876543210fedcba9876543210";
const OF_ALL: &str = "all-all-all-all-all-all-all-all-all";

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("{{ release.name }}", json!({"color": color})))
}

/// A directory with tokens for the namespace of the test, for another one and for all.
struct Tokens(PathBuf);

impl Tokens {
    fn new(h: &Harness) -> Self {
        let directory = std::env::temp_dir().join(format!("{}-tokens", h.namespace));
        std::fs::create_dir_all(&directory).unwrap();
        for (name, token) in [(&*h.namespace, OF_NAMESPACE), ("elsewhere", OF_OTHER), ("_all", OF_ALL)] {
            std::fs::write(directory.join(name), format!("{token}\n")).unwrap();
        }
        Self(directory)
    }

    /// An operator that receives webhooks, and where it does.
    async fn operator(&self, h: &Harness, more: &[&str]) -> (Process, SocketAddr) {
        let flags = ["--webhook-listen=127.0.0.1:0", "--webhook-tokens", self.0.to_str().unwrap()];
        let allowed = ["--allow-source=127.0.0.1"];
        let mut process = Process::of(command(h, &[&flags[..], &allowed, more].concat())).await;
        let address = process.told("webhooks").await;
        (process, address)
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

async fn ask(method: Method, address: SocketAddr, token: &str, body: &str) -> (StatusCode, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::builder().method(method).uri(format!("/hook/{token}")).header("host", "x");
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn post(address: SocketAddr, token: &str, body: &str) -> (StatusCode, String) {
    ask(Method::POST, address, token, body).await
}

fn looks(count: usize) -> (StatusCode, String) {
    (StatusCode::ACCEPTED, format!("{count} sources are looked at\n"))
}

/// The registry itself tells of what it is pushed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_a_registry_tells_of_is_rolled_out_long_before_the_interval_is_over() {
    let h = Harness::without_operator("webhooks-registry").await;
    let tokens = Tokens::new(&h);
    let (process, address) = tokens.operator(&h, &[]).await;
    let notify = Some(format!("http://{address}/hook/{OF_NAMESPACE}"));
    let registry = Registry::start(Options { notify, ..Options::default() }).await;
    registry.push("team/web", "stable", &Artifact::of_pack(pack("blue").archive())).await;
    let repository = format!("oci://{}/team/web", registry.address);
    let oci = json!({"repository": repository, "insecure": true, "tag": "stable"});
    h.release("settings", json!({"pack": {"oci": oci}, "interval": "1h"})).await;
    h.ready("settings").await;
    colored(&h, "blue").await;
    registry.push("team/web", "stable", &Artifact::of_pack(pack("green").archive())).await;
    colored(&h, "green").await;
    // Each look is told of as well, as a pull. It asks for no other one.
    let pull = json!({"events": [{"action": "pull", "target": {"repository": "team/web"}}]});
    assert_eq!(post(address, OF_NAMESPACE, &pull.to_string()).await, looks(0));
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_for_the_sources_of_its_namespace_and_without_a_name_for_all_of_them() {
    let h = Harness::without_operator("webhooks-tokens").await;
    let tokens = Tokens::new(&h);
    let packs = std::env::temp_dir().join(format!("{}-packs", h.namespace));
    std::fs::create_dir_all(&packs).unwrap();
    let server = HttpServer::start().await;
    let serve = |color: &str| {
        server.serve("/web.tgz", Route::File(pack(color).archive()));
        std::fs::write(packs.join("web.tgz"), pack(color).archive()).unwrap();
    };
    serve("blue");
    let (process, address) = tokens.operator(&h, &["--pack-dir", packs.to_str().unwrap()]).await;
    h.release("by-url", json!({"pack": {"http": {"url": server.url("/web.tgz")}}, "interval": "1h"})).await;
    h.release("by-path", json!({"pack": {"path": "web.tgz"}, "interval": "1h"})).await;
    for name in ["by-url", "by-path"] {
        h.ready(name).await;
    }
    serve("green");
    let github = json!({"ref": "refs/heads/main", "repository": {"full_name": "team/packs"}}).to_string();
    assert_eq!(post(address, OF_NAMESPACE, &github).await, looks(2));
    for name in ["ConfigMap/by-url", "ConfigMap/by-path"] {
        h.shows(name, "/data/color", "green").await;
    }
    assert_eq!(post(address, OF_ALL, "").await, looks(2));
    assert_eq!(post(address, OF_OTHER, "").await, looks(0), "it has no releases");
    let elsewhere = json!({"push_data": {"tag": "1"}, "repository": {"repo_name": "team/web"}}).to_string();
    assert_eq!(post(address, OF_ALL, &elsewhere).await, looks(0), "no source is there");
    assert_eq!(post(address, OF_ALL, &"x".repeat(1 << 20)).await, looks(2), "a large body names nothing");

    let unknown = "0123456789abcdef0123456789abcdee";
    assert_eq!(post(address, unknown, "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(Method::GET, address, OF_ALL, "").await.0, StatusCode::METHOD_NOT_ALLOWED);
    let mut last = StatusCode::ACCEPTED;
    for _ in 0..60 {
        last = post(address, OF_OTHER, "").await.0;
        if last != StatusCode::ACCEPTED {
            break;
        }
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS, "one sender makes no load");
    assert_eq!(post(address, OF_NAMESPACE, "").await, looks(2), "another one is not concerned");

    for outcome in ["accepted", "unknown_token", "too_many"] {
        let labels = [&*format!("outcome=\"{outcome}\"")];
        let count = Probe(process.address).metric("sherpack_webhooks_total", &labels).await;
        assert!(count > 0.0, "{outcome}");
    }
    process.stop().await;
    std::fs::remove_dir_all(&packs).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_stands_by_says_so() {
    let h = Harness::without_operator("webhooks-standby").await;
    let tokens = Tokens::new(&h);
    let (leads, leader) = tokens.operator(&h, &["--leader-elect"]).await;
    let probe = Probe(leads.address);
    eventually("it leads", async || probe.metric("sherpack_leader", &[]).await > 0.0).await;
    probe.ready().await;
    let (stands_by, address) = tokens.operator(&h, &["--leader-elect"]).await;
    Probe(stands_by.address).ready().await;
    assert_eq!(post(leader, OF_ALL, "").await, looks(0));
    let (status, said) = post(address, OF_ALL, "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(said.contains("stands by"), "{said}");
    stands_by.stop().await;
    leads.stop().await;
}
