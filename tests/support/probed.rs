//! What probes ask in tests: a command that a file decides, and a server that never answers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sherpack_operator::source::http::Options;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::Harness;
use super::packs::{deployment, with_annotation, with_pod_annotation};

/// `object` with a probe of these settings: `("path", "/healthz")`. It is asked every second.
#[must_use]
pub fn probed(object: Value, settings: &[(&str, &str)]) -> Value {
    let on = with_annotation(object, "sherpack.io/health-check", "true");
    let on = with_annotation(on, "sherpack.io/health-check-interval", "1s");
    settings.iter().fold(on, |object, (key, value)| {
        with_annotation(object, &format!("sherpack.io/health-check-{key}"), value)
    })
}

/// A Deployment whose pods have the address 127.0.0.1 and a port `http` of this number: a server of the test answers
/// for them.
#[must_use]
pub fn served_by(name: &str, replicas: u32, port: u16) -> Value {
    let mut object = with_pod_annotation(deployment(name, replicas), "devcluster/loopback", "true");
    object["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = port.into();
    object
}

/// A harness whose operator may ask 127.0.0.1.
pub async fn harness(name: &str) -> Harness {
    let mut h = Harness::without_operator(name).await;
    h.settings.sources = Options { allow: vec!["127.0.0.1".parse().unwrap()], ..Options::default() };
    h.start();
    h
}

/// A file that decides how [`Switch::command`] ends.
pub struct Switch(PathBuf);

impl Switch {
    /// Off. The name must be used by one test only.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("probe-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        Self(file)
    }

    /// Ends with 3, and says why, unless the switch is on.
    #[must_use]
    pub fn command(&self) -> String {
        format!("test -e {} || {{ echo starting; echo no database >&2; exit 3; }}", self.0.display())
    }

    pub fn on(&self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server that takes every request and answers none.
pub struct Silent {
    pub address: SocketAddr,
    open: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Silent {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open: Arc<AtomicUsize> = Arc::default();
        let theirs = Arc::clone(&open);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let open = Arc::clone(&theirs);
                tokio::spawn(async move {
                    open.fetch_add(1, Ordering::SeqCst);
                    let mut piece = [0; 1024];
                    while let Ok(1..) = stream.read(&mut piece).await {}
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, open, task: task.abort_handle() }
    }

    /// Requests that still wait for an answer.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.task.abort();
    }
}
