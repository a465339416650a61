//! One plain GET of the operator's own server on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::{During, Failure, Result};

const LIMIT: Duration = Duration::from_secs(5);

/// The status and body of `GET path`.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        // HTTP/1.0: the server closes the connection and sends no chunks.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, Failure>(text)
    };
    let text = timeout(LIMIT, exchange).await.during(format!("GET {path}"))?.during(format!("GET {path}"))?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| Failure::new(format!("GET {path}: no HTTP answer: {head:?}")))?;
    Ok((status, body.to_owned()))
}
