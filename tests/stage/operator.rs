//! One operator process: started, watched, killed, stopped.

use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::cluster::root;
use crate::failure::{During, Failure, Result, check};
use crate::http;

/// Far more than a start ever takes; only there so that a run ends.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// What stays the same over restarts.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) binary: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// Where the operator keeps its own things.
    pub(crate) namespace: String,
    /// Look only at this namespace; `None`: at all.
    pub(crate) watch: Option<String>,
    /// The log of all starts, one after the other.
    pub(crate) log: PathBuf,
    /// Releases that are worked on at once.
    pub(crate) concurrency: usize,
    /// More arguments of `run`.
    pub(crate) arguments: Vec<String>,
}

/// A running operator; killed when this value goes.
pub(crate) struct Operator {
    settings: Settings,
    child: Child,
    address: SocketAddr,
    pub(crate) spawned: Instant,
}

/// The binary under test: `SHERPACK_OPERATOR`, else the one cargo built beside this program.
pub(crate) fn binary() -> PathBuf {
    let other = std::env::var_os("SHERPACK_OPERATOR").map(PathBuf::from);
    other.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sherpack-operator")))
}

/// Runs a subcommand that prints its result, such as `crd` or `render`.
pub(crate) async fn output(args: &[&str]) -> Result<String> {
    let what = format!("sherpack-operator {}", args.join(" "));
    let output = Command::new(binary()).args(args).stdin(Stdio::null()).output().await.during(&what)?;
    check(output.status.success(), || {
        format!("{what} failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    String::from_utf8(output.stdout).during(&what)
}

/// The archive of `tests/packs/<pack>`, as `package` writes it.
pub(crate) async fn package(pack: &str) -> Result<Vec<u8>> {
    package_directory(&root().join("tests/packs").join(pack), pack).await
}

/// The archive of a directory, as `package` writes it.
pub(crate) async fn package_directory(directory: &Path, name: &str) -> Result<Vec<u8>> {
    let file = root().join("target/stage").join(format!("{name}.tgz"));
    output(&["package", &directory.display().to_string(), "-o", &file.display().to_string()]).await?;
    std::fs::read(&file).during(file.display())
}

impl Settings {
    /// An empty log; earlier runs are forgotten.
    pub(crate) fn new(kubeconfig: &Path, namespace: &str, watch: Option<&str>, log: &str) -> Result<Self> {
        let directory = root().join("target/stage");
        std::fs::create_dir_all(&directory)?;
        let log = directory.join(log);
        std::fs::write(&log, "").during(log.display())?;
        Ok(Self {
            binary: binary(),
            kubeconfig: kubeconfig.to_owned(),
            namespace: namespace.to_owned(),
            watch: watch.map(str::to_owned),
            log,
            concurrency: 10,
            arguments: Vec::new(),
        })
    }

    /// The last lines of the log, for the message of a failed run.
    pub(crate) fn log_tail(&self) -> String {
        let tail = || -> std::io::Result<String> {
            let mut file = std::fs::File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(16 * 1024)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            Ok(lines[lines.len().saturating_sub(40)..].join("\n"))
        };
        let text = tail().unwrap_or_else(|error| error.to_string());
        format!("last lines of {}:\n{text}", self.log.display())
    }

    /// Starts a process and returns at once.
    pub(crate) fn spawn(&self) -> Result<Operator> {
        let address = free_address()?;
        let log = std::fs::File::options().append(true).open(&self.log).during(self.log.display())?;
        let mut command = Command::new(&self.binary);
        command.args(["run", "--operator-namespace", &self.namespace]);
        command.args(["--concurrency", &self.concurrency.to_string(), "--listen", &address.to_string()]);
        command.args(&self.arguments);
        if let Some(namespace) = &self.watch {
            command.args(["--watch-namespace", namespace]);
        }
        let child = command
            .envs(environment_of_image()?)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .during(self.binary.display())?;
        Ok(Operator { settings: self.clone(), child, address, spawned: Instant::now() })
    }
}

impl Operator {
    /// Waits until `/readyz` says so.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        loop {
            if matches!(http::get(self.address, "/readyz").await, Ok((200, _))) {
                return Ok(());
            }
            self.lives()?;
            check(self.spawned.elapsed() < READY_LIMIT, || "the operator does not get ready".to_owned())?;
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Fails when the process has ended, which nobody asked for.
    pub(crate) fn lives(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(Failure::new(format!("the operator ended by itself: {status}"))),
            None => Ok(()),
        }
    }

    /// SIGKILL, then a new process at once.
    pub(crate) async fn kill_and_restart(&mut self) -> Result<()> {
        // One that ended by itself would pass for a killed one.
        self.lives()?;
        self.child.kill().await.during("kill -9 of the operator")?;
        *self = self.settings.spawn()?;
        Ok(())
    }

    /// SIGTERM; gives the time until the process was gone.
    pub(crate) async fn stop(mut self) -> Result<Duration> {
        let began = Instant::now();
        let pid = self.pid()?;
        let status = Command::new("kill").arg(pid.to_string()).status().await.during("kill")?;
        check(status.success(), || format!("SIGTERM to the operator failed: {status}"))?;
        let ended = timeout(Duration::from_secs(30), self.child.wait()).await;
        let status = ended.during("the operator does not stop on SIGTERM")??;
        check(status.success(), || format!("the operator stopped with {status}"))?;
        Ok(began.elapsed())
    }

    pub(crate) async fn metrics(&self) -> Result<String> {
        let (status, body) = http::get(self.address, "/metrics").await?;
        check(status == 200, || format!("/metrics answers {status}"))?;
        Ok(body)
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().ok_or_else(|| Failure::new("the operator has ended"))
    }
}

/// What the `ENV` lines of the Dockerfile set, so that what is measured is what ships.
fn environment_of_image() -> Result<Vec<(String, String)>> {
    let file = root().join("Dockerfile");
    let text = std::fs::read_to_string(&file).during(file.display())?;
    let settings = text.lines().filter_map(|line| line.strip_prefix("ENV ")).flat_map(str::split_whitespace);
    let settings: Vec<_> = settings.filter_map(|one| one.split_once('=')).collect();
    check(!settings.is_empty(), || format!("{} sets nothing by ENV", file.display()))?;
    Ok(settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// A port that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).during("a free port")?;
    Ok(listener.local_addr()?)
}
