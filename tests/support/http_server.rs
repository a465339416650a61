//! A server of archives that does what servers do, the bad ones too, and remembers what it was asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// What is at a path.
#[derive(Clone, Debug)]
pub enum Route {
    /// These bytes, with an ETag made of them; 304 for who has them already.
    File(Vec<u8>),
    /// The same, for whoever sends this `Authorization`; 401 for others.
    Guarded(String, Vec<u8>),
    /// What this gives for the number of the request to the server: other bytes each time.
    Changing(fn(usize) -> Vec<u8>),
    /// A status without a body.
    Status(u16),
    /// A redirect with this status.
    Redirect(u16, String),
    /// The bytes, said to be encoded with gzip.
    Encoded(Vec<u8>),
    /// No answer at all.
    Silent,
    /// All bytes are promised, half of them come, and then nothing more does.
    Stalling(Vec<u8>),
    /// All bytes are promised, half of them come, and the connection ends.
    Truncated(Vec<u8>),
    /// A byte a second, for longer than anybody waits.
    Dripping,
    /// Piece after piece, without end and without a length.
    Endless,
    /// A length is promised.
    Promising(u64),
}

/// A request, with the names of its headers in small letters.
#[derive(Clone, Debug)]
pub struct Asked {
    pub target: String,
    pub headers: BTreeMap<String, String>,
    /// The status of the answer; 0: none came.
    pub status: u16,
}

#[derive(Default)]
struct Memory {
    routes: BTreeMap<String, Route>,
    asked: Vec<Asked>,
}

/// A running server. It ends when the value is dropped.
pub struct HttpServer {
    pub address: SocketAddr,
    scheme: &'static str,
    memory: Arc<Mutex<Memory>>,
    task: AbortHandle,
}

impl HttpServer {
    pub async fn start() -> Self {
        Self::run("127.0.0.1:0", None).await
    }

    /// At an address that another one has left.
    pub async fn start_at(address: SocketAddr) -> Self {
        Self::run(&address.to_string(), None).await
    }

    /// With a certificate for `localhost`, 127.0.0.1 and `names`, by `authority`. `clients`: the authority of the
    /// certificates that clients must show.
    pub async fn start_tls(authority: &Authority, names: &[&str], clients: Option<&Authority>) -> Self {
        Self::run("127.0.0.1:0", Some(authority.server(names, clients))).await
    }

    async fn run(address: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let memory: Arc<Mutex<Memory>> = Arc::default();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let theirs = Arc::clone(&memory);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (memory, tls) = (Arc::clone(&theirs), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => answer(stream, &memory).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, &memory).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, scheme, memory, task: task.abort_handle() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// The same, by the name `localhost`.
    pub fn named_url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.address.port())
    }

    pub fn serve(&self, path: &str, route: Route) {
        self.memory.lock().unwrap().routes.insert(path.to_owned(), route);
    }

    /// What was asked for at a path, oldest first.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        let memory = self.memory.lock().unwrap();
        memory.asked.iter().filter(|asked| asked.target == path).cloned().collect()
    }

    /// The statuses of its answers at a path.
    pub fn answers(&self, path: &str) -> Vec<u16> {
        self.asked(path).iter().map(|asked| asked.status).collect()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The head of a request: its first line and its headers.
pub(super) async fn head(
    stream: &mut (impl AsyncRead + Unpin),
) -> Option<(String, BTreeMap<String, String>)> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
        if !bytes[0].is_ascii_alphabetic() {
            // Perhaps TLS; in any case it does not end as a head does.
            return None;
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let (first, headers) = text.split_once("\r\n")?;
    let headers = headers.lines().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    Some((first.to_owned(), headers.collect()))
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, memory: &Mutex<Memory>) {
    let Some((first, headers)) = head(&mut stream).await else {
        let _ = stream.write_all(b"HTTP/1.1 400 What\r\nContent-Length: 0\r\n\r\n").await;
        return;
    };
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (route, index) = {
        let mut memory = memory.lock().unwrap();
        let path = target.split('?').next().unwrap_or_default();
        let route = memory.routes.get(path).cloned().unwrap_or(Route::Status(404));
        memory.asked.push(Asked { target: target.clone(), headers: headers.clone(), status: 0 });
        (route, memory.asked.len() - 1)
    };
    let tell = |status: u16| memory.lock().unwrap().asked[index].status = status;
    let (status, more, body): (u16, String, Vec<u8>) = match route {
        Route::File(bytes) => file(&headers, bytes),
        Route::Guarded(authorization, bytes) => {
            if headers.get("authorization") == Some(&authorization) {
                file(&headers, bytes)
            } else {
                (401, "WWW-Authenticate: Basic realm=\"packs\"\r\n".to_owned(), Vec::new())
            }
        }
        Route::Changing(bytes) => file(&headers, bytes(index)),
        Route::Status(status) => (status, String::new(), Vec::new()),
        Route::Redirect(status, location) => (status, format!("Location: {location}\r\n"), Vec::new()),
        Route::Encoded(bytes) => (200, "Content-Encoding: gzip\r\n".to_owned(), bytes),
        Route::Silent => return std::future::pending().await,
        Route::Stalling(bytes) | Route::Truncated(bytes) if bytes.is_empty() => return,
        Route::Stalling(bytes) => {
            tell(200);
            send_half(&mut stream, &bytes).await;
            return std::future::pending().await;
        }
        Route::Truncated(bytes) => {
            tell(200);
            return send_half(&mut stream, &bytes).await;
        }
        Route::Endless => {
            tell(200);
            return send_for_ever(&mut stream).await;
        }
        Route::Dripping => {
            tell(200);
            return drip(&mut stream).await;
        }
        Route::Promising(length) => {
            tell(200);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            return std::future::pending().await;
        }
    };
    // Before the answer, so that who has it finds the note.
    tell(status);
    let length = if status == 304 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status} Whatever\r\nConnection: close\r\n{length}{more}\r\n");
    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
    let _ = stream.shutdown().await;
}

fn file(headers: &BTreeMap<String, String>, bytes: Vec<u8>) -> (u16, String, Vec<u8>) {
    let etag = format!("\"{}\"", &sherpack_operator::source::cache::digest(&bytes)[7..23]);
    if headers.get("if-none-match") == Some(&etag) {
        return (304, String::new(), Vec::new());
    }
    (200, format!("ETag: {etag}\r\n"), bytes)
}

async fn send_for_ever(stream: &mut (impl AsyncWrite + Unpin)) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let piece = [b"10000\r\n", &[7; 0x10000][..], b"\r\n"].concat();
    while stream.write_all(&piece).await.is_ok() {}
}

async fn drip(stream: &mut (impl AsyncWrite + Unpin)) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await;
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn send_half(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
    let _ = stream.write_all(&[head.as_bytes(), &bytes[..bytes.len() / 2]].concat()).await;
    let _ = stream.flush().await;
}

/// A certificate authority that nobody else knows.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// Its certificate in PEM form.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate and its key, for a client.
    pub fn client(&self) -> (String, String) {
        self.issue(&[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A certificate and its key, for servers of these names.
    pub fn for_servers(&self, names: &[&str]) -> (String, String) {
        self.issue(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn issue(&self, names: &[&str], usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn server(&self, names: &[&str], clients: Option<&Self>) -> TlsAcceptor {
        let names = [&["localhost", "127.0.0.1"], names].concat();
        let (certificate, key) = self.issue(&names, ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()))
    }
}
