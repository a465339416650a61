//! The operator as a process of its own: what it logs, where it answers, how it ends.

use std::net::SocketAddr;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use super::Harness;
use super::wait::LONG;

pub struct Process {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    pub address: SocketAddr,
    pub lines: Vec<Value>,
}

/// `run` with these arguments in the namespace of a test, not started yet. It logs JSON.
#[must_use]
pub fn command(h: &Harness, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"));
    command
        .args(["run", "--log-format=json", "--listen=127.0.0.1:0"])
        .args(["--watch-namespace", &h.namespace, "--operator-namespace", &h.namespace])
        .args(arguments)
        .env("KUBECONFIG", &h.control_plane.kubeconfig);
    command
}

impl Process {
    /// Starts one that logs at this level, and waits until it told the address that it took.
    pub async fn start(h: &Harness, level: &str) -> Self {
        Self::of(command(h, &["--log-level", level])).await
    }

    /// The same with a command of the caller's.
    pub async fn of(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut process = Self { child, log, address, lines: Vec::new() };
        process.address = process.told("address").await;
        process
    }

    /// Waits until a line of the log has this field, which is an address.
    pub async fn told(&mut self, field: &str) -> SocketAddr {
        loop {
            let line = tokio::time::timeout(LONG, self.log.next_line()).await.unwrap().unwrap();
            let line: Value = serde_json::from_str(&line.expect("it runs")).expect("every line is JSON");
            let told = line.pointer(&format!("/fields/{field}")).or_else(|| line.get(field)).cloned();
            self.lines.push(line);
            if let Some(told) = told {
                return told.as_str().unwrap().parse().unwrap();
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// SIGTERM; gives the exit code and everything that it logged.
    pub async fn stop(mut self) -> (Option<i32>, Vec<Value>) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").arg(pid).status().await.unwrap().success());
        while let Some(line) = tokio::time::timeout(LONG, self.log.next_line()).await.unwrap().unwrap() {
            self.lines.push(serde_json::from_str(&line).expect("every line is JSON"));
        }
        let status = tokio::time::timeout(LONG, self.child.wait()).await.unwrap().unwrap();
        (status.code(), self.lines)
    }
}
