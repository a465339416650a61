//! The OCI registry of `tests/devcluster/registry`: real, in memory, one for a test.
//!
//! What a test pushes is neither counted nor refused: [`Registry::requests`] has only what others asked.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use sherpack_operator::source::cache;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_rustls::TlsConnector;

use super::control_plane::binaries;
use super::wait::LONG;

/// The only user of a registry that knows one.
pub const USER: &str = "admin";
/// With a colon, which separates the two in basic authentication.
pub const PASSWORD: &str = "open:sesame";

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// An archive with a pack.
const PACK: &str = "application/vnd.sherpack.pack.v1.tar+gzip";

/// Says to the registry that the test itself asks.
const SETUP: &str = "Devcluster-Setup";

/// Who may do what.
#[derive(Clone, Copy, Debug, Default)]
pub enum Auth {
    /// Everybody may do everything.
    #[default]
    Anybody,
    /// [`USER`] may, with the password in each request.
    Basic,
    /// [`USER`] may, with tokens that last so many seconds. Others may pull what is below `public/`.
    Tokens(u32),
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub auth: Auth,
    /// With a certificate for `localhost` and 127.0.0.1.
    pub tls: bool,
    /// An address that another one has left.
    pub address: Option<SocketAddr>,
    /// URL that is told of each push and pull.
    pub notify: Option<String>,
}

/// What is pushed as one manifest and its blobs.
#[derive(Clone, Debug, Default)]
pub struct Artifact {
    pub artifact_type: Option<String>,
    pub config_media_type: String,
    pub config: Vec<u8>,
    /// Media type and bytes of each.
    pub layers: Vec<(String, Vec<u8>)>,
}

impl Artifact {
    /// A pack as this project pushes it.
    #[must_use]
    pub fn of_pack(archive: Vec<u8>) -> Self {
        Self {
            artifact_type: None,
            config_media_type: "application/vnd.sherpack.pack.config.v1+json".to_owned(),
            config: b"{}".to_vec(),
            layers: vec![(PACK.to_owned(), archive)],
        }
    }

    /// Its manifest; a test may change it and push it by [`Registry::push_manifest`].
    #[must_use]
    pub fn manifest(&self) -> Value {
        let layers: Vec<Value> = self.layers.iter().map(|(media, bytes)| descriptor(media, bytes)).collect();
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(&self.config_media_type, &self.config),
            "layers": layers,
        });
        if let Some(artifact_type) = &self.artifact_type {
            manifest["artifactType"] = json!(artifact_type);
        }
        manifest
    }
}

/// How a manifest or an index refers to these bytes.
#[must_use]
pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": cache::digest(bytes), "size": bytes.len()})
}

/// A running registry. It ends when the value is dropped.
pub struct Registry {
    pub address: SocketAddr,
    /// Certificate in PEM form of the authority that signed its own, with TLS.
    pub ca: Option<String>,
    /// URL that gives tokens, or nothing.
    pub token_server: String,
    auth: Auth,
    admin: SocketAddr,
    /// Ends with its standard input, and so with this value.
    child: Child,
}

impl Registry {
    /// # Panics
    /// Without the binary.
    pub async fn start(options: Options) -> Self {
        let binary = binaries().join("registry");
        assert!(binary.is_file(), "{} is missing: run tests/devcluster/build.sh", binary.display());
        let mut command = Command::new(&binary);
        match options.auth {
            Auth::Anybody => {}
            Auth::Basic => _ = command.args(["-user", USER, "-password", PASSWORD]),
            Auth::Tokens(seconds) => {
                command.args(["-user", USER, "-password", PASSWORD, "-token-seconds", &seconds.to_string()]);
            }
        }
        if options.tls {
            command.arg("-tls");
        }
        if let Some(address) = options.address {
            command.args(["-listen", &address.to_string()]);
        }
        if let Some(url) = options.notify {
            command.args(["-notify", &url]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(LONG, lines.next_line()).await.unwrap().unwrap();
        let line: Value = serde_json::from_str(&line.expect("the registry starts")).unwrap();
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        Self {
            address: text("address").parse().unwrap(),
            ca: Some(text("ca")).filter(|ca| !ca.is_empty()),
            token_server: text("token_server"),
            auth: options.auth,
            admin: text("admin").parse().unwrap(),
            child,
        }
    }

    /// Waits until nobody listens at its address any more. What it held is gone.
    pub async fn stop(mut self) {
        drop(self.child.stdin.take());
        tokio::time::timeout(LONG, self.child.wait()).await.unwrap().unwrap();
    }

    /// Pushes the blobs and the manifest; gives the digest of the manifest.
    pub async fn push(&self, repository: &str, tag: &str, artifact: &Artifact) -> String {
        let layers = artifact.layers.iter().map(|(_, bytes)| bytes);
        for bytes in std::iter::once(&artifact.config).chain(layers) {
            self.push_blob(repository, bytes).await;
        }
        let manifest = serde_json::to_vec(&artifact.manifest()).unwrap();
        self.push_manifest(repository, tag, MANIFEST, &manifest).await
    }

    /// Pushes any manifest or index, by a tag or its own digest; gives its digest. The blobs that a manifest names must be
    /// there; what an index names need not.
    pub async fn push_manifest(
        &self,
        repository: &str,
        reference: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> String {
        let path = format!("/v2/{repository}/manifests/{reference}");
        let request = self.request(repository, Method::PUT, &path).await.header(CONTENT_TYPE, media_type);
        let answer = self.send(request, bytes).await;
        assert_eq!(answer.status(), StatusCode::CREATED, "{path}: {:?}", answer.body());
        answer.headers()["docker-content-digest"].to_str().unwrap().to_owned()
    }

    /// Gives its digest.
    pub async fn push_blob(&self, repository: &str, bytes: &[u8]) -> String {
        let path = format!("/v2/{repository}/blobs/uploads/");
        let begun = self.send(self.request(repository, Method::POST, &path).await, &[]).await;
        assert_eq!(begun.status(), StatusCode::ACCEPTED, "{path}: {:?}", begun.body());
        let location: Uri = begun.headers()[LOCATION].to_str().unwrap().parse().unwrap();
        let digest = cache::digest(bytes);
        let path = format!("{}?{}&digest={digest}", location.path(), location.query().unwrap());
        let request = self.request(repository, Method::PUT, &path).await;
        let answer = self.send(request.header(CONTENT_TYPE, "application/octet-stream"), bytes).await;
        assert_eq!(answer.status(), StatusCode::CREATED, "{path}: {:?}", answer.body());
        digest
    }

    /// Deletes a manifest and its tags, or only a tag.
    pub async fn delete(&self, repository: &str, reference: &str) {
        let path = format!("/v2/{repository}/manifests/{reference}");
        let answer = self.send(self.request(repository, Method::DELETE, &path).await, &[]).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED, "{path}: {:?}", answer.body());
    }

    /// What was asked of it and of its token server, oldest first: `GET /v2/a/manifests/1.0.0 200`.
    pub async fn requests(&self) -> Vec<String> {
        serde_json::from_slice(&self.ask_admin(Method::GET, "/requests").await).unwrap()
    }

    /// How many tokens were given.
    pub async fn tokens(&self) -> usize {
        serde_json::from_slice(&self.ask_admin(Method::GET, "/tokens").await).unwrap()
    }

    /// The next requests get this status, and perhaps are told how many seconds to stay away.
    pub async fn refuse_next(&self, count: usize, status: u16, retry_after: Option<u32>) {
        let after = retry_after.map(|seconds| format!("&retry-after={seconds}")).unwrap_or_default();
        self.ask_admin(Method::POST, &format!("/refuse?count={count}&status={status}{after}")).await;
    }

    async fn ask_admin(&self, method: Method, path: &str) -> Bytes {
        let request = Request::builder().method(method).uri(path).header(HOST, self.admin.to_string());
        let answer = exchange(self.admin, None, request.body(Full::default()).unwrap()).await;
        assert!(answer.status().is_success(), "{path}: {:?}", answer.body());
        answer.into_body()
    }

    /// A request that the registry lets through to a repository.
    async fn request(&self, repository: &str, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path).header(HOST, self.address.to_string());
        match self.auth {
            Auth::Anybody => request,
            Auth::Basic => request.header(AUTHORIZATION, basic()),
            Auth::Tokens(_) => {
                request.header(AUTHORIZATION, format!("Bearer {}", self.token(repository).await))
            }
        }
    }

    async fn token(&self, repository: &str) -> String {
        let server: Uri = self.token_server.parse().unwrap();
        let address = server.authority().unwrap().as_str();
        let scope = format!("repository:{repository}:pull,push,delete");
        let request = Request::builder()
            .uri(format!("{}?service=devcluster&scope={scope}", server.path()))
            .header(HOST, address)
            .header(AUTHORIZATION, basic())
            .header(SETUP, "1");
        let request = request.body(Full::default()).unwrap();
        let answer = exchange(address.parse().unwrap(), self.ca.as_deref(), request).await;
        assert_eq!(answer.status(), StatusCode::OK, "{:?}", answer.body());
        let answer: Value = serde_json::from_slice(answer.body()).unwrap();
        answer["token"].as_str().unwrap().to_owned()
    }

    async fn send(&self, request: http::request::Builder, body: &[u8]) -> Response<Bytes> {
        let request = request.header(SETUP, "1").body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        exchange(self.address, self.ca.as_deref(), request).await
    }
}

fn basic() -> String {
    format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")))
}

/// One request on a connection of its own.
async fn exchange(address: SocketAddr, ca: Option<&str>, request: Request<Full<Bytes>>) -> Response<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    match ca {
        None => over(stream, request).await,
        Some(ca) => over(trusting(ca).connect(address.ip().into(), stream).await.unwrap(), request).await,
    }
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Response<Bytes> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

fn trusting(ca: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
