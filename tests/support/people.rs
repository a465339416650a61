//! The command line as people run it.

use std::process::{Child, Command, Output, Stdio};

use super::Harness;

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[must_use]
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its output, which is JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A command that runs.
pub struct Running(Child);

impl Running {
    /// Waits until it has ended.
    pub async fn ended(self) -> Ran {
        let output = tokio::task::spawn_blocking(move || self.0.wait_with_output().unwrap());
        Ran::of(output.await.unwrap())
    }
}

impl Harness {
    /// Starts a command in the namespace of this test; its output is a pipe.
    #[must_use]
    pub fn begin(&self, arguments: &[&str]) -> Running {
        self.begin_as(&self.settings.kubeconfig, arguments)
    }

    /// [`Harness::begin`] with another kubeconfig.
    #[must_use]
    pub fn begin_as(&self, kubeconfig: &std::path::Path, arguments: &[&str]) -> Running {
        let everywhere = arguments.contains(&"--all-namespaces");
        let namespace: &[&str] = if everywhere { &[] } else { &["--namespace", &self.namespace] };
        let child = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
            .args(arguments)
            .args(namespace)
            .env("KUBECONFIG", kubeconfig)
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Running(child.unwrap())
    }

    /// Runs a command to its end.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.begin(arguments).0.wait_with_output().unwrap())
    }
}
