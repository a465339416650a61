//! The control plane of `tests/devcluster`: one for the test binary, started by the first test that needs it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::changes::Changes;
use super::objects::Objects;
use super::replica::signal;
use super::wait::eventually;

/// A running control plane with the CustomResourceDefinition of SherpackRelease.
pub struct ControlPlane {
    pub kubeconfig: PathBuf,
    /// Process ids by name when it started: `etcd`, `kube-apiserver`, ...
    pub pids: serde_json::Value,
    pub bin: PathBuf,
    changes: Arc<Changes>,
    /// It stops when its standard input ends, which is when this process ends, in whatever way.
    launcher: Child,
}

static SHARED: OnceLock<ControlPlane> = OnceLock::new();

/// The control plane that all tests of this binary share.
pub async fn shared() -> &'static ControlPlane {
    if let Some(running) = SHARED.get() {
        return running;
    }
    tokio::task::spawn_blocking(|| SHARED.get_or_init(on_a_thread)).await.unwrap()
}

/// A control plane is five processes: no more than two besides the shared one at a time.
static OWN: Semaphore = Semaphore::const_new(2);

/// A control plane of the caller's own, for tests that stop a part of it. It ends when the value is dropped.
pub struct Own {
    pub plane: &'static ControlPlane,
    _only: SemaphorePermit<'static>,
}

/// Starts one, as soon as there is room for it.
pub async fn own() -> Own {
    let only = OWN.acquire().await.unwrap();
    let plane = tokio::task::spawn_blocking(on_a_thread).await.unwrap();
    Own { plane: Box::leak(Box::new(plane)), _only: only }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.plane.changes.stop();
        signal(self.plane.launcher.id(), "TERM");
    }
}

impl ControlPlane {
    /// A client that belongs to the runtime of the caller.
    pub async fn client(&self) -> Client {
        Client::try_from(config(&self.kubeconfig).await).unwrap()
    }

    /// The objects of a namespace.
    pub async fn objects(&self, namespace: &str) -> Objects {
        Objects::new(self.client().await, &self.changes, namespace)
    }

    /// The process id of a part of it, such as `etcd`. One that was killed is started again and has another.
    #[must_use]
    pub fn pid(&self, part: &str) -> u32 {
        let now = std::fs::read(self.kubeconfig.with_file_name("cluster.json")).unwrap();
        let now: serde_json::Value = serde_json::from_slice(&now).unwrap();
        now["pids"][part]
            .as_u64()
            .and_then(|pid| pid.try_into().ok())
            .unwrap_or_else(|| panic!("{now}: {part}"))
    }

    /// Waits until another API server than the one with this process id is ready.
    pub async fn api_server_after(&self, killed: u32) {
        eventually("the API server is started again", async || self.pid("kube-apiserver") != killed).await;
        self.api_server_ready().await;
    }

    /// Waits until the API server says that it is ready, and that etcd answers it.
    pub async fn api_server_ready(&self) {
        let client = self.client().await;
        eventually("the API server is ready", async || {
            let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
            client.request_text(ready).await.is_ok()
        })
        .await;
    }
}

/// A runtime of its own, because the one of the test that happens to come first ends with that test.
fn on_a_thread() -> ControlPlane {
    // A second provider is refused, which is fine: the first one is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let started = start();
    let kubeconfig = started.kubeconfig.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(install_crd(&kubeconfig));
    })
    .join()
    .unwrap();
    started
}

fn start() -> ControlPlane {
    let bin = binaries();
    let launcher = bin.join("devcluster");
    assert!(
        launcher.is_file(),
        "{} is missing: run `tests/devcluster/build.sh` (about 5 minutes the first time), or `make test`, which does",
        launcher.display()
    );
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    std::fs::create_dir_all(&logs).unwrap();
    let log = std::fs::File::create(logs.join(format!("behaviour-{}.log", std::process::id()))).unwrap();
    let mut child = Command::new(&launcher)
        // The tests keep all cores busy; memory is there.
        .args(["-stdin", "-gogc", "400"])
        .args(["-bin".as_ref(), bin.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", launcher.display()));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let started: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| {
        panic!("the control plane did not start ({error}); see target/behaviour-*.log: {line:?}")
    });
    let kubeconfig = PathBuf::from(started["kubeconfig"].as_str().unwrap());
    ControlPlane {
        changes: Arc::new(Changes::new(kubeconfig.clone())),
        kubeconfig,
        pids: started["pids"].clone(),
        bin,
        launcher: child,
    }
}

pub(super) fn binaries() -> PathBuf {
    std::env::var_os("DEVCLUSTER_BIN")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/devcluster/bin"), PathBuf::from)
}

/// How to reach the API server that this file names.
pub(super) async fn config(kubeconfig: &Path) -> Config {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap()
}

async fn install_crd(kubeconfig: &Path) {
    let client = Client::try_from(config(kubeconfig).await).unwrap();
    install(client, &sherpack_operator::api::crd()).await;
}

/// Applies a CustomResourceDefinition and waits until it is served. Tests may do so side by side.
pub(super) async fn install(client: Client, crd: &CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let name = crd.metadata.name.clone().unwrap();
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(crd)).await.unwrap();
    eventually(&format!("{name} is served"), async || {
        let live = api.get(&name).await.unwrap();
        let conditions = live.status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
    })
    .await;
}
