//! A connection to where a URL leads, directly or through the proxy, and to no address that is forbidden.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use super::client::{Client, unreachable};
use super::credentials::Credentials;
use super::proxy::Proxy;
use super::url::Url;
use super::{address, tls};
use crate::source::Error;

/// Addresses of one name that are tried.
const ADDRESSES: usize = 6;

pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection, and how the request on it has to name its target.
pub(super) struct Connected {
    pub wire: Box<dyn Wire>,
    /// The proxy reads the request: the whole URL goes into it, and this tells it who asks.
    pub forwarding: Option<Proxy>,
}

impl Client {
    /// `identify`: the credentials are for this host.
    pub(super) async fn connect(
        &self,
        namespace: &str,
        url: &Url,
        credentials: &Credentials,
        identify: bool,
    ) -> Result<Connected, Error> {
        let proxy = self.proxies.of(url).map_err(|message| unreachable(url, message))?;
        let resolved = self.resolver.resolve(namespace, url.host(), url.port()).await;
        self.check(url, resolved.as_deref().unwrap_or_default())?;
        let Some(proxy) = proxy else {
            // What was checked is what is connected to: the name is not looked up again.
            let addresses = resolved.map_err(|message| unreachable(url, message))?;
            let stream = self.dial(&addresses).await.map_err(|message| unreachable(url, message))?;
            return Ok(Connected {
                wire: self.secure(url, credentials, identify, stream).await?,
                forwarding: None,
            });
        };
        // A name that only the proxy knows is the proxy's to judge.
        let failed = |message: String| unreachable(url, format!("through the operator's proxy: {message}"));
        let addresses = self.resolver.resolve(namespace, &proxy.host, proxy.port).await.map_err(failed)?;
        let stream = self.dial(&addresses).await.map_err(failed)?;
        if !url.is_https() {
            return Ok(Connected { wire: Box::new(stream), forwarding: Some(proxy) });
        }
        let stream = self.tunnel(url, stream, proxy).await.map_err(failed)?;
        Ok(Connected { wire: self.secure(url, credentials, identify, stream).await?, forwarding: None })
    }

    /// Refuses a host if one of its addresses is forbidden: what changes from one look to the next is not trusted.
    fn check(&self, url: &Url, addresses: &[SocketAddr]) -> Result<(), Error> {
        if self.allowed.iter().any(|allowed| allowed.covers(url.host(), url.port())) {
            return Ok(());
        }
        let refused = addresses.iter().find_map(|at| address::forbidden(at.ip()).map(|why| (at.ip(), why)));
        let Some((ip, why)) = refused else { return Ok(()) };
        let literal = url.host().parse::<std::net::IpAddr>().is_ok();
        let address = if literal { ip.to_string() } else { format!("{} ({ip})", url.host()) };
        Err(Error::Forbidden { url: url.to_string(), address, why })
    }

    async fn dial(&self, addresses: &[SocketAddr]) -> Result<TcpStream, String> {
        let mut last = "no address".to_owned();
        let tried = addresses.len().min(ADDRESSES);
        for address in &addresses[..tried] {
            match within(self.timing.connect, TcpStream::connect(address)).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) if tried == 1 => last = format!("{address}: {error}"),
                // Their order differs from one attempt to the next, and what is told should not.
                Err(error) => last = format!("none of {tried} addresses answers: {error}"),
            }
        }
        Err(last)
    }

    async fn tunnel(&self, url: &Url, stream: TcpStream, proxy: Proxy) -> Result<TcpStream, String> {
        let mut stream = Some(TokioIo::new(stream));
        let ready = tower::service_fn(move |_: http::Uri| {
            std::future::ready(
                stream.take().ok_or_else(|| io::Error::other("the connection is used already")),
            )
        });
        // It only passes this on to `ready`.
        let mut tunnel = Tunnel::new(http::Uri::from_static("http://proxy"), ready);
        if let Some(authorization) = proxy.authorization {
            tunnel = tunnel.with_auth(authorization);
        }
        let target: http::Uri =
            format!("https://{}/", url.host_and_port()).parse().map_err(|error| format!("{error}"))?;
        match tokio::time::timeout(self.timing.handshake, tunnel.call(target)).await {
            Ok(Ok(stream)) => Ok(stream.into_inner()),
            Ok(Err(error)) => Err(format!("it opens no tunnel: {error}")),
            Err(_) => Err("it opens no tunnel in time".to_owned()),
        }
    }

    async fn secure(
        &self,
        url: &Url,
        credentials: &Credentials,
        identify: bool,
        stream: TcpStream,
    ) -> Result<Box<dyn Wire>, Error> {
        if !url.is_https() {
            return Ok(Box::new(stream));
        }
        let untrusted = |message: String| Error::Tls { url: url.to_string(), message };
        let config = self.trust.config(credentials, identify).await.map_err(untrusted)?;
        let name = ServerName::try_from(url.host().to_owned())
            .map_err(|_| unreachable(url, format!("`{}` is no name for a TLS server", url.host())))?;
        let connector = TlsConnector::from(Arc::new(config));
        match within(self.timing.handshake, connector.connect(name, stream)).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(match tls::cause(&error) {
                // What is on the other side does not speak TLS, or not for long.
                Some(rustls::Error::InvalidMessage(_)) => {
                    unreachable(url, "the server does not speak TLS on this port".to_owned())
                }
                Some(cause) => untrusted(tls::explain(cause, credentials)),
                None => unreachable(url, format!("the TLS handshake failed: {error}")),
            }),
        }
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}"))),
    }
}
