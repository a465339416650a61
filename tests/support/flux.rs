//! The source-controller of Flux from `tests/devcluster/flux`: real, for the objects of one namespace.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::control_plane::{ControlPlane, binaries, install};
use super::objects::Objects;
use super::wait::{LONG, eventually, wait_for};

/// What Flux calls an annotation that asks for a look at the source before its interval is over.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// How many lines of its log a failed test shows.
const LAST_LINES: usize = 40;

/// Ends source-controller with the standard input of this shell, which ends with the test in whatever way, and throws
/// away what it stored.
const KEEPER: &str = r#"
trap : INT TERM HUP
"$@" </dev/null &
cat >/dev/null
kill $!
wait
rm -rf "$TMPDIR"
"#;

/// A running source-controller. It ends when the value is dropped; its objects stay, with their finalizers.
pub struct Flux {
    /// Where it serves artifacts: the address in `status.artifact.url`.
    pub storage: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    keeper: Child,
}

impl Flux {
    /// Installs the CustomResourceDefinitions of Flux and starts source-controller for this namespace.
    ///
    /// # Panics
    /// Without the binary.
    pub async fn start(control_plane: &ControlPlane, namespace: &str) -> Self {
        let binary = binaries().join("source-controller");
        assert!(binary.is_file(), "{} is missing: run tests/devcluster/build.sh", binary.display());
        install_definitions(control_plane).await;
        let storage = free_address();
        let home = std::env::temp_dir().join(format!("flux-{namespace}-{}", storage.port()));
        let artifacts = home.join("artifacts");
        std::fs::create_dir_all(&artifacts).unwrap();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "source-controller"])
            .arg(binary)
            .args(["--watch-all-namespaces=false", "--enable-leader-election=false"])
            .args(["--metrics-addr=0", "--health-addr=0", "--events-addr="])
            .args([format!("--storage-addr={storage}"), format!("--storage-adv-addr={storage}")])
            .arg(format!("--storage-path={}", artifacts.display()))
            // What failed is tried again before a test loses its patience.
            .args(["--min-retry-delay=200ms", "--max-retry-delay=1s", "--requeue-dependency=1s"])
            .env("RUNTIME_NAMESPACE", namespace)
            .env("KUBECONFIG", &control_plane.kubeconfig)
            // Credentials and caches of the person who runs the tests are not looked for, and nothing is left in /tmp.
            .envs([("HOME", &home), ("TMPDIR", &home)])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, mut stderr) = (Arc::clone(&log), BufReader::new(keeper.stderr.take().unwrap()).lines());
        tokio::spawn(async move {
            while let Ok(Some(line)) = stderr.next_line().await {
                lines.lock().unwrap().push(line);
            }
        });
        let flux = Self { storage, log, keeper };
        // It listens when its controllers have begun.
        eventually("source-controller serves artifacts", async || TcpStream::connect(storage).await.is_ok())
            .await;
        flux
    }

    /// Asks for a look at the source of an object such as `GitRepository/app`, and waits until it was made, in whatever
    /// way it ended; gives the object. One that is suspended is never looked at.
    pub async fn reconcile(&self, objects: &Objects, what: &str) -> Value {
        let at = jiff::Timestamp::now().to_string();
        objects.edit(what, "test-person", json!({"metadata": {"annotations": {REQUESTED_AT: at}}})).await;
        wait_for(&format!("the look at {what}"), async || {
            let object = objects.get(what).await;
            let handled = object["status"]["lastHandledReconcileAt"] == at.as_str();
            if handled { Ok(object) } else { Err(object["status"].to_string()) }
        })
        .await
    }

    /// Everything that it logged: a JSON object in each line.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until it has ended. Its objects keep the status that they have, and what their URLs name is gone.
    pub async fn stop(mut self) {
        drop(self.keeper.stdin.take());
        tokio::time::timeout(LONG, self.keeper.wait()).await.unwrap().unwrap();
    }
}

impl Drop for Flux {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let last = log.iter().skip(log.len().saturating_sub(LAST_LINES));
            eprintln!("the last lines of source-controller:");
            last.for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Tests do so side by side: all apply the same, as the same field manager.
/// Installs the CustomResourceDefinitions of Flux.
pub async fn install_definitions(control_plane: &ControlPlane) {
    let folder = binaries().with_file_name("flux-crds");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let client = control_plane.client().await;
    let installed = files.map(|file| {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let crd: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        let client = client.clone();
        async move { install(client, &crd).await }
    });
    futures::future::join_all(installed).await;
}

/// A port of 127.0.0.1 that nobody listens on. It lies below those that the system gives away, so none of the connections
/// beside this one takes it before source-controller listens, which is seconds later.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let number =
            std::process::id().wrapping_mul(31).wrapping_add(u32::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        let port = 20_000 + (number % 12_000) as u16;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener.local_addr().unwrap();
        }
    }
}
