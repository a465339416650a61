//! A proxy that leads every request to one server, whatever host it names.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::http_server::head;

/// A running proxy. It ends when the value is dropped.
pub struct HttpProxy {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl HttpProxy {
    /// `login`: the `Proxy-Authorization` that it wants.
    pub async fn start(server: SocketAddr, login: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (theirs, login) = (Arc::clone(&asked), login.map(str::to_owned));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(forward(stream, server, Arc::clone(&theirs), login.clone()));
            }
        });
        Self { address, asked, task: task.abort_handle() }
    }

    /// The first lines of the requests, without the version.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(
    mut stream: TcpStream,
    server: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    login: Option<String>,
) {
    let Some((first, headers)) = head(&mut stream).await else { return };
    let (line, _) = first.rsplit_once(' ').unwrap();
    asked.lock().unwrap().push(line.to_owned());
    if login.is_some() && headers.get("proxy-authorization") != login.as_ref() {
        let _ = stream.write_all(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n").await;
        return;
    }
    // Without one the client sees its connection end, as with a proxy that gives up.
    let Ok(mut upstream) = TcpStream::connect(server).await else { return };
    if line.starts_with("CONNECT ") {
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
    } else {
        // From the whole URL to its path, and without what was for the proxy.
        let (method, url) = line.split_once(' ').unwrap();
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        let kept = headers.iter().filter(|(name, _)| !name.starts_with("proxy-"));
        let headers: String = kept.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("{method} /{path} HTTP/1.1\r\n{headers}\r\n");
        upstream.write_all(request.as_bytes()).await.unwrap();
    }
    let _ = copy_bidirectional(&mut stream, &mut upstream).await;
}
