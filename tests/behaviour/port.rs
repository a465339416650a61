//! The port of the operator: clients that send nothing, and who may read the metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde_json::json;
use sherpack_operator::source::http::StatusClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::support::Harness;
use crate::support::harness::PERSON;
use crate::support::http_server::Authority;
use crate::support::operator::Probe;
use crate::support::process::{Process, command};
use crate::support::wait::{eventually, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn livez_answers_beside_clients_that_never_finish_their_requests() {
    // `HALF_OPEN=8000` makes it an attack.
    let many = std::env::var("HALF_OPEN").ok().and_then(|many| many.parse().ok()).unwrap_or(1100);
    let h = Harness::without_operator("port-half-open").await;
    // More than the files that it may have open.
    let inner = command(&h, &[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 1024 && exec \"$0\" \"$@\""]);
    limited.arg(inner.as_std().get_program()).args(inner.as_std().get_args());
    limited.env("KUBECONFIG", &h.control_plane.kubeconfig);
    let process = Process::of(limited).await;
    let probe = Probe(process.address);
    let lives = async || probe.http("/livez").await.is_some_and(|answer| answer.starts_with("HTTP/1.1 200"));
    let mut half_open = Vec::with_capacity(many);
    for number in 0..many {
        let mut stream = TcpStream::connect(process.address).await.unwrap();
        // One that made room already may refuse it.
        let _ = stream.write_all(b"GET /met").await;
        half_open.push(stream);
        if number % 100 == 99 {
            eventually("/livez answers beside them", lives).await;
        }
    }
    let open = |half_open: &mut Vec<TcpStream>| {
        half_open.retain(|stream| {
            let read = stream.try_read(&mut [0; 16]);
            matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
        half_open.len()
    };
    wait_for("all but a few make room", async || {
        let left = open(&mut half_open);
        if left <= 128 { Ok(()) } else { Err(format!("{left} are open")) }
    })
    .await;
    probe.ready().await;
    wait_for("the rest is not waited for", async || {
        let left = open(&mut half_open);
        if left == 0 { Ok(()) } else { Err(format!("{left} are open")) }
    })
    .await;
    let memory = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    println!("{many} half-open connections: VmHWM {}", peak.trim());
    assert_eq!(process.stop().await.0, Some(0));
}

/// Takes whatever certificate it is shown.
#[derive(Debug)]
struct Anyone(rustls::crypto::WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Asks for a path over TLS, with a certificate by this authority if one is given; what went wrong is shown instead of an
/// answer.
pub(super) async fn ask(
    address: SocketAddr,
    authority: Option<&Authority>,
    path: &str,
    headers: &str,
) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let anyone = Arc::new(Anyone(provider.signature_verification_algorithms));
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = match authority {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
            config.with_root_certificates(roots)
        }
        None => config.dangerous().with_custom_certificate_verifier(anyone),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let mut stream = match connector.connect(ServerName::try_from("localhost").unwrap(), stream).await {
        Ok(stream) => stream,
        Err(error) => return error.to_string(),
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

pub(super) async fn token(h: &Harness, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(h.client.clone(), &h.namespace);
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let made = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
    made.status.unwrap().token
}

pub(super) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

async fn may_read_metrics(h: &Harness, account: &str) {
    let role = json!({"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    h.objects.server_side_apply("ClusterRole/port-metrics-reader", PERSON, role).await;
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "port-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": h.namespace}],
    });
    h.objects.server_side_apply("ClusterRoleBinding/port-metrics-reader", PERSON, binding).await;
}

/// What the metrics say of creates.
fn created(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.starts_with("sherpack_api_requests_total") && line.contains("verb=\"create\""));
    line.map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_for_tokens_that_may_get_them_and_the_probes_for_anyone() {
    let h = Harness::without_operator("port-metrics").await;
    let certificates = std::env::temp_dir().join(format!("port-metrics-{}", std::process::id()));
    std::fs::create_dir_all(&certificates).unwrap();
    let write = |authority: &Authority| {
        let (certificate, key) = authority.for_servers(&["localhost"]);
        std::fs::write(certificates.join("tls.crt"), certificate).unwrap();
        std::fs::write(certificates.join("tls.key"), key).unwrap();
    };
    let authority = Authority::new();
    write(&authority);
    let directory = certificates.to_str().unwrap();
    let listen = "--metrics-listen=127.0.0.1:0";
    let arguments = ["--metrics-auth=token", listen, "--metrics-cert-dir", directory];
    let mut process = Process::of(command(&h, &arguments)).await;
    let address = process.told("metrics").await;
    let metrics = async |headers: &str| ask(address, Some(&authority), "/metrics", headers).await;

    let open = Probe(process.address);
    open.ready().await;
    let elsewhere = open.http("/metrics").await.unwrap();
    assert!(elsewhere.starts_with("HTTP/1.1 404") && elsewhere.contains("over https"), "{elsewhere}");
    for nobody in ["", "Authorization: Basic YTpi\r\n", "Authorization: Bearer no-such-token\r\n"] {
        let answer = metrics(nobody).await;
        assert!(
            answer.starts_with("HTTP/1.1 401") && answer.contains("www-authenticate: Bearer"),
            "{answer}"
        );
    }
    h.account("stranger").await;
    h.account("scraper").await;
    let (stranger, scraper) = (bearer(&token(&h, "stranger").await), bearer(&token(&h, "scraper").await));
    let answer = metrics(&stranger).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("system:serviceaccount:port-metrics:stranger"), "{answer}");
    may_read_metrics(&h, "scraper").await;
    let allowed = wait_for("the right is known", async || {
        let answer = metrics(&scraper).await;
        if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(answer) }
    })
    .await;
    assert!(allowed.contains("\nsherpack_leader 1\n"), "{allowed}");
    assert!(ask(address, Some(&authority), "/livez", &scraper).await.starts_with("HTTP/1.1 404"));

    // The answer of the API server is remembered.
    let first = created(&metrics(&scraper).await);
    assert!(first.is_some());
    for _ in 0..5 {
        assert_eq!(created(&metrics(&scraper).await), first);
    }

    let next = Authority::new();
    write(&next);
    wait_for("the new certificate is shown", async || {
        let answer = ask(address, Some(&next), "/metrics", &scraper).await;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
    })
    .await;
    assert_eq!(process.stop().await.0, Some(0));
    std::fs::remove_dir_all(&certificates).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_certificate_one_is_made_and_a_broken_one_ends_the_start() {
    let h = Harness::without_operator("port-certificate").await;
    let arguments = ["--metrics-auth=token", "--metrics-listen=127.0.0.1:0"];
    let mut process = Process::of(command(&h, &arguments)).await;
    let address = process.told("metrics").await;
    let unverified = StatusClient::new(&["127.0.0.1".parse().unwrap()]);
    assert_eq!(unverified.get(address, true, "/metrics").await, Ok(401));
    assert!(unverified.get(address, false, "/metrics").await.is_err(), "plain HTTP is not answered");
    process.stop().await;

    let nowhere = [&arguments[..], &["--metrics-cert-dir=/nonexistent"]].concat();
    let ended = command(&h, &nowhere).output().await.unwrap();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{error}");
    assert!(error.contains("/nonexistent/tls.crt") && error.contains("--metrics-cert-dir"), "{error}");
}
