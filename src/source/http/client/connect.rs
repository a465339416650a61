//! A connection to where a URL leads, directly or through the proxy, and to no address that is forbidden.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use super::{Client, unreachable};
use crate::source::Error;
use crate::source::http::credentials::Credentials;
use crate::source::http::proxy::Proxy;
use crate::source::http::tls;
use crate::source::http::url::Url;
use crate::source::http::walls::{Reach, Refused, Walls};

/// Addresses of one name that are tried.
const ADDRESSES: usize = 6;

pub(in crate::source::http) trait Wire:
    AsyncRead + AsyncWrite + Unpin + Send
{
}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection, and how the request on it has to name its target.
pub(in crate::source::http) struct Connected {
    pub wire: Box<dyn Wire>,
    pub forwarding: Option<Forwarding>,
}

/// The proxy reads the request.
pub(in crate::source::http) struct Forwarding {
    /// The host and port that go into the request line.
    pub authority: String,
    /// This tells the proxy who asks.
    pub authorization: Option<HeaderValue>,
}

/// Where a URL leads, after it was checked.
pub(in crate::source::http) struct Place {
    pub reach: Reach,
    proxy: Option<Proxy>,
    /// What was checked is what is connected to, by a proxy too: the name is not looked up again. None for a host that
    /// is vouched for and behind a proxy, which is told its name.
    addresses: Vec<SocketAddr>,
}

impl Client {
    /// Looks up and checks where a URL leads.
    pub(in crate::source::http) async fn place(
        &self,
        walls: &Walls,
        namespace: &str,
        url: &Url,
    ) -> Result<Place, Error> {
        let proxy = self.proxies.of(url).map_err(|message| unreachable(url, message))?;
        if proxy.is_some() && walls.allow(url.host(), url.port()) {
            return Ok(Place { reach: Reach::Allowed, proxy, addresses: Vec::new() });
        }
        let judge = |addresses: &[IpAddr]| {
            let judged = walls.judge(url.host(), url.port(), addresses);
            judged.map_err(|Refused { host, why }| Error::Forbidden { url: url.to_string(), host, why })
        };
        // A name may be refused for what it is, and then no author of a release learns whether it exists.
        judge(&[])?;
        let resolved = self.resolver.resolve(namespace, url.host(), url.port()).await;
        let mut addresses = resolved.map_err(|message| match &proxy {
            None => unreachable(url, message),
            Some(_) => unreachable(
                url,
                format!(
                    "{message}; behind a proxy, too, nothing is fetched whose address the operator cannot check, unless its flag --allow-source names the host"
                ),
            ),
        })?;
        let reach = judge(&addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>())?;
        if proxy.is_some() {
            // The operator's own routes say nothing about those of the proxy, and any proxy has one for IPv4.
            addresses.sort_by_key(|address| (address.is_ipv6(), address.ip()));
        }
        Ok(Place { reach, proxy, addresses })
    }

    /// `identify`: the credentials are for this host.
    pub(in crate::source::http) async fn connect(
        &self,
        namespace: &str,
        url: &Url,
        place: Place,
        credentials: &Credentials,
        identify: bool,
    ) -> Result<Connected, Error> {
        let Place { proxy, addresses, .. } = place;
        let Some(proxy) = proxy else {
            let stream = self.dial(&addresses).await.map_err(|message| unreachable(url, message))?;
            let wire = self.secure(url, credentials, identify, stream).await?;
            return Ok(Connected { wire, forwarding: None });
        };
        let failed = |message: String| unreachable(url, format!("through the operator's proxy: {message}"));
        let through = self.resolver.resolve(namespace, &proxy.host, proxy.port).await.map_err(failed)?;
        if !url.is_https() {
            let wire = Box::new(self.dial(&through).await.map_err(failed)?);
            let authority = match addresses.first() {
                Some(address) => address.to_string(),
                None => url.host_and_port(),
            };
            return Ok(Connected {
                wire,
                forwarding: Some(Forwarding { authority, authorization: proxy.authorization }),
            });
        }
        let targets = if addresses.is_empty() {
            vec![url.host_and_port()]
        } else {
            addresses.iter().take(ADDRESSES).map(SocketAddr::to_string).collect()
        };
        let stream = self.tunnel_to_any(&through, &proxy, &targets).await.map_err(failed)?;
        Ok(Connected { wire: self.secure(url, credentials, identify, stream).await?, forwarding: None })
    }

    async fn tunnel_to_any(
        &self,
        through: &[SocketAddr],
        proxy: &Proxy,
        targets: &[String],
    ) -> Result<TcpStream, String> {
        let mut last = "no address".to_owned();
        for target in targets {
            let stream = self.dial(through).await?;
            match self.tunnel(target, stream, proxy).await {
                Ok(stream) => return Ok(stream),
                Err(message) => last = message,
            }
        }
        Err(last)
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

    async fn tunnel(&self, target: &str, stream: TcpStream, proxy: &Proxy) -> Result<TcpStream, String> {
        let mut stream = Some(TokioIo::new(stream));
        let ready = tower::service_fn(move |_: http::Uri| {
            std::future::ready(
                stream.take().ok_or_else(|| io::Error::other("the connection is used already")),
            )
        });
        // It only passes this on to `ready`.
        let mut tunnel = Tunnel::new(http::Uri::from_static("http://proxy"), ready);
        if let Some(authorization) = &proxy.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let target: http::Uri = format!("https://{target}/").parse().map_err(|error| format!("{error}"))?;
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
