//! An operator process among several: behind a wire of its own, stopped and woken by signals.
//!
//! The process talks plain HTTP to this test, which carries each request to the API server over a [`Wire`]. So what a
//! process that cannot be looked into sends is known, and what it sent can be held back while the process is stopped.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use kube::client::{Body, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use sherpack_operator::cluster::client::{Call, Transport};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::Harness;
use super::operator::{Probe, free_address};
use super::wait::{LONG, eventually};
use super::wire::Wire;

/// A running operator process. It is killed when the value is dropped.
pub struct Replica {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    lives: CancellationToken,
    pub holder: String,
    pub wire: Wire,
    pub probe: Probe,
}

impl Replica {
    /// Starts one with leader election and these flags besides, and waits until it is ready: it leads or stands by.
    pub async fn start(h: &Harness, holder: &str, flags: &[&str]) -> Self {
        let (wire, lives) = (Wire::default(), CancellationToken::new());
        let server = proxy(h, &wire, &lives).await;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{server}")}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        let file = h.control_plane.kubeconfig.with_file_name(format!("{}-{holder}.kubeconfig", h.namespace));
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        let address = free_address();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
            .args(["run", "--leader-elect", "--holder", holder, "--listen", &address.to_string()])
            .args(["--watch-namespace", &h.namespace, "--operator-namespace", &h.namespace])
            .args(flags)
            .env("KUBECONFIG", &file)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, mut stderr) = (Arc::clone(&log), BufReader::new(child.stderr.take().unwrap()).lines());
        tokio::spawn(async move {
            while let Ok(Some(line)) = stderr.next_line().await {
                lines.lock().unwrap().push(line);
            }
        });
        let replica = Self { child, log, lives, holder: holder.to_owned(), wire, probe: Probe(address) };
        replica.probe.ready().await;
        replica
    }

    /// Whether it leads, as far as it says.
    pub async fn leads(&self) -> bool {
        let text = self.probe.http("/metrics").await.unwrap_or_default();
        text.lines().any(|line| line == "sherpack_leader 1")
    }

    /// Waits until it leads.
    pub async fn led(&self) {
        eventually(&format!("{} leads", self.holder), async || self.leads().await).await;
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the process runs")
    }

    /// The process stops where it is: SIGSTOP.
    pub fn freeze(&self) {
        signal(self.pid(), "STOP");
    }

    /// It goes on as if nothing had been: SIGCONT.
    pub fn thaw(&self) {
        signal(self.pid(), "CONT");
    }

    /// SIGTERM. It ends soon.
    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// SIGKILL.
    pub fn kill(&self) {
        signal(self.pid(), "KILL");
    }

    /// Waits until the process has ended; gives its exit code.
    pub async fn exit_code(&mut self) -> Option<i32> {
        tokio::time::timeout(LONG, self.child.wait()).await.expect("the process ends").unwrap().code()
    }

    /// Waits until the process has ended, however long that takes.
    pub async fn ended(&mut self) {
        self.child.wait().await.unwrap();
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Everything that it logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.lives.cancel();
        if std::thread::panicking() {
            eprintln!("the log of {}:\n{}", self.holder, self.log());
        }
    }
}

/// Sends a signal to a process that this test started.
pub fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(sent.unwrap().success(), "SIG{name} to {pid}");
}

/// A server that carries everything over the wire to the API server.
async fn proxy(h: &Harness, wire: &Wire, lives: &CancellationToken) -> SocketAddr {
    let file = Kubeconfig::read_from(&h.control_plane.kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    let client = Client::try_from(config).unwrap();
    let server = Transport::new(tower::service_fn(move |call: Call| {
        let client = client.clone();
        async move {
            let answer = client.send(call).await.map_err(BoxError::from)?;
            Ok::<_, BoxError>(answer.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>))
        }
    }));
    let (wire, ends) = (wire.clone(), lives.clone());
    let carry = move |request: Request| {
        let (wire, server, lives) = (wire.clone(), server.clone(), ends.clone());
        async move {
            let (mut head, body) = request.into_parts();
            for hop in ["host", "connection", "content-length", "transfer-encoding"] {
                head.headers.remove(hop);
            }
            let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            // A task of its own: a sender that gives up takes nothing back from the network.
            let carried = tokio::spawn(async move {
                wire.carry(Call::from_parts(head, Body::from(bytes)), server, lives).await
            });
            match carried.await.unwrap() {
                Ok(answer) => answer.map(axum::body::Body::new).into_response(),
                Err(error) => (http::StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
            }
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = axum::serve(listener, Router::new().fallback(carry));
    let lives = lives.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = serving => {}
            () = lives.cancelled() => {}
        }
    });
    address
}
