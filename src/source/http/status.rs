//! A GET to an address of the cluster, for probes: only the status counts.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::header::{ACCEPT, CONNECTION, HOST, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::{Allowed, forbidden};
use super::client::Wire;
use super::tls;

/// Bytes of an answer's head.
const HEAD: usize = 64 << 10;

/// Asks addresses for a status. Holds no connection between two requests.
#[derive(Clone, Debug)]
pub struct StatusClient {
    allowed: Vec<Allowed>,
}

/// Why there is no status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// Another try would be refused, too.
    #[error(
        "{address} is not asked: it is {why}; only the operator's flag --allow-source can open it, by its address"
    )]
    Forbidden { address: SocketAddr, why: &'static str },
    #[error("{0}")]
    Failed(String),
}

impl StatusClient {
    #[must_use]
    pub fn new(allowed: &[Allowed]) -> Self {
        Self { allowed: allowed.to_vec() }
    }

    /// Whether the address of a node may be asked: behind it is what listens on the node, for each user who runs a pod in its
    /// network to choose.
    ///
    /// # Errors
    /// No flag allowed it.
    pub fn may_ask_node(&self, address: SocketAddr) -> Result<(), StatusError> {
        if self.allow(address) {
            return Ok(());
        }
        Err(StatusError::Forbidden { address, why: "the address of the pod's node" })
    }

    fn allow(&self, address: SocketAddr) -> bool {
        self.allowed.iter().any(|known| known.covers(&address.ip().to_string(), address.port()))
    }

    /// The status with which `address` answers a GET of `target`. Redirects are not followed, the body is not read, and
    /// certificates are not verified, as the kubelet does. The caller bounds the time.
    ///
    /// # Errors
    /// An address that only the operator itself can reach and no flag allowed, no connection, no HTTP.
    pub async fn get(&self, address: SocketAddr, tls: bool, target: &str) -> Result<u16, StatusError> {
        if let Some(why) = forbidden(address.ip())
            && !self.allow(address)
        {
            return Err(StatusError::Forbidden { address, why });
        }
        let failed = |text: String| StatusError::Failed(text);
        let stream = TcpStream::connect(address).await.map_err(|error| failed(error.kind().to_string()))?;
        let wire: Box<dyn Wire> = if tls {
            let config = tls::unverified().map_err(|error| failed(error.to_string()))?;
            let name = ServerName::from(address.ip());
            let connect = TlsConnector::from(Arc::new(config)).connect(name, stream);
            Box::new(connect.await.map_err(|error| failed(format!("no TLS: {error}")))?)
        } else {
            Box::new(stream)
        };
        let broken = |error: hyper::Error| failed(format!("no HTTP answer: {error}"));
        let mut connection = http1::Builder::new();
        connection.max_buf_size(HEAD);
        let (mut sender, driver) = connection.handshake(TokioIo::new(wire)).await.map_err(broken)?;
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = target.parse::<Uri>().map_err(|error| failed(error.to_string()))?;
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(&address.to_string()) {
            headers.insert(HOST, host);
        }
        let agent = concat!("sherpack-operator/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let mut answer = pin!(sender.send_request(request));
        // The connection moves only as long as a probe waits here.
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            // What came last is delivered already; otherwise this is the error.
            _ = driver => answer.await,
        };
        Ok(answer.map_err(broken)?.status().as_u16())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn open() -> StatusClient {
        StatusClient::new(&["127.0.0.1".parse().unwrap()])
    }

    /// Answers one request with this, and gives its head.
    async fn answering(answer: &'static str) -> (SocketAddr, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        (address, served)
    }

    #[tokio::test]
    async fn the_status_is_all_that_is_read() {
        for (answer, status) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nx", 200),
            ("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\n\r\n", 302),
            ("HTTP/1.1 503 Down\r\n\r\n", 503),
        ] {
            let (address, served) = answering(answer).await;
            assert_eq!(open().get(address, false, "/healthz?full=1").await, Ok(status));
            let head = served.await.unwrap();
            assert!(head.starts_with("GET /healthz?full=1 HTTP/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("host: {address}\r\n")), "{head}");
        }
    }

    #[tokio::test]
    async fn addresses_of_the_operator_itself_are_asked_only_when_they_are_allowed() {
        let (address, served) = answering("HTTP/1.1 200 OK\r\n\r\n").await;
        let closed = StatusClient::new(&[]);
        let refused = closed.get(address, false, "/").await.unwrap_err();
        assert!(matches!(refused, StatusError::Forbidden { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("a loopback address") && text.contains("--allow-source"), "{text}");
        for metadata in ["169.254.169.254:80", "[fd00:ec2::254]:80", "[::ffff:127.0.0.1]:80"] {
            let refused = closed.get(metadata.parse().unwrap(), false, "/").await.unwrap_err();
            assert!(matches!(refused, StatusError::Forbidden { .. }), "{refused}");
        }
        let node = closed.may_ask_node("10.0.0.4:10250".parse().unwrap()).unwrap_err().to_string();
        assert!(
            node.starts_with("10.0.0.4:10250 is not asked: it is the address of the pod's node"),
            "{node}"
        );
        let open = StatusClient::new(&["10.0.0.4".parse().unwrap()]);
        assert_eq!(open.may_ask_node("10.0.0.4:80".parse().unwrap()), Ok(()));
        let port = format!("127.0.0.1:{}", address.port());
        let exactly = StatusClient::new(&[port.parse().unwrap()]);
        assert_eq!(exactly.get(address, false, "/").await, Ok(200));
        served.await.unwrap();
    }

    #[tokio::test]
    async fn what_does_not_answer_says_why() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = open().get(address, false, "/").await.unwrap_err().to_string();
        assert_eq!(refused, "connection refused");
        for answer in ["SSH-2.0-x\r\n", ""] {
            let (address, _served) = answering(answer).await;
            let broken = open().get(address, false, "/").await.unwrap_err().to_string();
            assert!(broken.contains("answer"), "{broken}");
        }
        let (address, _served) = answering("HTTP/1.1 200 OK\r\n\r\n").await;
        let no_tls = open().get(address, true, "/").await.unwrap_err().to_string();
        assert!(no_tls.starts_with("no TLS"), "{no_tls}");
    }

    #[tokio::test]
    async fn a_certificate_for_another_name_does_not_matter() {
        let made = rcgen::generate_simple_self_signed(["pod.example.com".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        });
        assert_eq!(open().get(address, true, "/").await, Ok(204));
    }
}
