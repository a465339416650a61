//! The control plane of a run: one of its own from tests/devcluster, or the one of `KUBECONFIG`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::failure::{During, Failure, Result, check as ensure};

/// What the launcher says when pods can be scheduled.
#[derive(Deserialize)]
struct Started {
    kubeconfig: PathBuf,
    dir: PathBuf,
    pids: BTreeMap<String, u32>,
}

/// A running control plane. One that was started here ends with this value, or with this process.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    /// The launcher's children by name; empty for a cluster that was there before.
    pub(crate) pids: BTreeMap<String, u32>,
    own: Option<Own>,
}

struct Own {
    launcher: Child,
    stdin: ChildStdin,
    dir: PathBuf,
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn binaries() -> PathBuf {
    root().join("target/devcluster/bin")
}

/// The kubectl that was built with the control plane, else the one on the PATH.
pub(crate) fn kubectl() -> PathBuf {
    let built = binaries().join("kubectl");
    if built.exists() { built } else { PathBuf::from("kubectl") }
}

impl Cluster {
    /// Starts a control plane with these flags of the launcher.
    pub(crate) async fn start(flags: &[&str]) -> Result<Self> {
        let launcher = binaries().join("devcluster");
        ensure(launcher.exists(), || {
            format!("{} is missing; build it with tests/devcluster/build.sh cluster", launcher.display())
        })?;
        let log = root().join("target/stage");
        std::fs::create_dir_all(&log)?;
        let log = std::fs::File::create(log.join("launcher.log"))?;
        let mut launcher = Command::new(&launcher)
            .arg("-stdin")
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .during("start of tests/devcluster's launcher")?;
        let (Some(stdin), Some(stdout)) = (launcher.stdin.take(), launcher.stdout.take()) else {
            return Err(Failure::new("the launcher has no pipes"));
        };
        // The launcher has its own time limit and leaves a word about it in its log.
        let line = BufReader::new(stdout).lines().next_line().await?;
        let line = line.ok_or_else(|| Failure::new("no control plane; see target/stage/launcher.log"))?;
        let Started { kubeconfig, dir, pids } =
            serde_json::from_str(&line).during(format!("answer of the launcher: {line}"))?;
        let client = client(&kubeconfig).await?;
        Ok(Self { client, kubeconfig, pids, own: Some(Own { launcher, stdin, dir }) })
    }

    /// The cluster of `KUBECONFIG`, its current context.
    pub(crate) async fn current() -> Result<Self> {
        let kubeconfig = std::env::var_os("KUBECONFIG").map(PathBuf::from);
        let kubeconfig = kubeconfig
            .or_else(|| std::env::home_dir().map(|home| home.join(".kube/config")))
            .filter(|file| file.exists())
            .ok_or_else(|| Failure::new("CLUSTER=current needs KUBECONFIG to name one existing file"))?;
        let client = client(&kubeconfig).await?;
        Ok(Self { client, kubeconfig, pids: BTreeMap::new(), own: None })
    }

    pub(crate) async fn version(&self) -> Result<String> {
        Ok(self.client.apiserver_version().await.during("version of the API server")?.git_version)
    }

    /// Runs kubectl against this cluster and gives its standard output.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(kubectl())
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .during("kubectl")?;
        ensure(output.status.success(), || {
            format!("kubectl {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim())
        })?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Ends a control plane that was started here and waits until nothing of it is left.
    pub(crate) async fn end(self) -> Result<()> {
        let Some(Own { mut launcher, stdin, dir }) = self.own else {
            return Ok(());
        };
        drop(stdin); // its sign to stop
        let ended = tokio::time::timeout(Duration::from_secs(30), launcher.wait()).await;
        ended.during("end of the control plane")??;
        ensure(!dir.exists(), || format!("the control plane left {} behind", dir.display()))
    }
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = kubeconfig.display();
    let read = Kubeconfig::read_from(kubeconfig).during(&file)?;
    let config =
        kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.during(&file)?;
    Client::try_from(config).during(&file)
}

/// Starts a control plane, runs one pod on it and ends it: is the machine fit for the rest?
pub(crate) async fn check() -> Result<()> {
    let began = Instant::now();
    let cluster = Cluster::start(&[]).await?;
    println!("control plane {} up in {:.1} s", cluster.version().await?, began.elapsed().as_secs_f64());
    cluster.kubectl(&["create", "deployment", "check", "--image=registry.k8s.io/pause:3.10"]).await?;
    cluster.kubectl(&["rollout", "status", "deployment/check", "--timeout=60s"]).await?;
    println!("a pod runs after {:.1} s", began.elapsed().as_secs_f64());
    cluster.end().await?;
    println!("ended, nothing left, after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}
