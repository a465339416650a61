//! Real Helm, in the line of before and the present one: charts from a few objects, installed and upgraded.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::Value;

use super::Harness;
use super::people::Ran;
use super::wait::wait_for;

/// Which Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Creates and patches.
    Three,
    /// Applies on the server.
    Four,
}

impl Line {
    pub const BOTH: [Self; 2] = [Self::Three, Self::Four];
}

/// One release of Helm in the namespace of a test.
pub struct Helm {
    binary: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    release: String,
    /// Chart and caches; goes with the value.
    home: PathBuf,
}

impl Drop for Helm {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

impl Helm {
    /// A release of this name; nothing is installed yet.
    ///
    /// # Panics
    /// Without the binary.
    #[must_use]
    pub fn new(h: &Harness, line: Line, release: &str) -> Self {
        let name = match line {
            Line::Three => "helm3",
            Line::Four => "helm",
        };
        let binary = h.control_plane.bin.join(name);
        assert!(binary.is_file(), "{} is missing: run tests/devcluster/build.sh", binary.display());
        let home = std::env::temp_dir().join(format!("{}-{release}-{}", h.namespace, std::process::id()));
        let kubeconfig = h.control_plane.kubeconfig.clone();
        Self { binary, kubeconfig, namespace: h.namespace.clone(), release: release.to_owned(), home }
    }

    /// Writes the chart. A string in an object may hold a template expression: `"{{ .Values.color }}"`.
    pub fn chart(&self, version: &str, objects: &[Value]) {
        let templates = self.home.join("chart/templates");
        let _ = std::fs::remove_dir_all(&templates);
        std::fs::create_dir_all(&templates).unwrap();
        let chart = format!("apiVersion: v2\nname: shop\nversion: {version}\nappVersion: \"9\"\n");
        std::fs::write(self.home.join("chart/Chart.yaml"), chart).unwrap();
        for (number, object) in objects.iter().enumerate() {
            let text = serde_json::to_vec_pretty(object).unwrap();
            std::fs::write(templates.join(format!("{number:03}.yaml")), text).unwrap();
        }
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.binary);
        command
            .args(arguments)
            .args(["--namespace", &self.namespace, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .env("HELM_CACHE_HOME", self.home.join("cache"))
            .env("HELM_CONFIG_HOME", self.home.join("config"))
            .env("HELM_DATA_HOME", self.home.join("data"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    fn path(&self) -> String {
        Path::new(&self.home).join("chart").to_string_lossy().into_owned()
    }

    /// `helm install`, or `upgrade`, with these further arguments.
    pub async fn run(&self, verb: &str, more: &[&str]) -> Ran {
        let path = self.path();
        let mut arguments = vec![verb, self.release.as_str()];
        if matches!(verb, "install" | "upgrade") {
            arguments.push(&path);
        }
        arguments.extend(more);
        Ran::of(self.command(&arguments).output().await.unwrap())
    }

    /// [`Helm::run`] that must succeed.
    pub async fn does(&self, verb: &str, more: &[&str]) {
        let ran = self.run(verb, more).await;
        assert_eq!(ran.code, 0, "helm {verb} {more:?}: {}", ran.err);
    }

    /// Begins an upgrade and does not wait for its end.
    pub fn begin_upgrade(&self, more: &[&str]) -> tokio::process::Child {
        let path = self.path();
        let arguments = [&["upgrade", self.release.as_str(), path.as_str()], more].concat();
        self.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The Secret of a revision.
    pub async fn record(&self, h: &Harness, revision: u32) -> Secret {
        let api: Api<Secret> = Api::namespaced(h.client.clone(), &self.namespace);
        api.get(&self.key(revision)).await.unwrap()
    }

    /// Name of that Secret.
    #[must_use]
    pub fn key(&self, revision: u32) -> String {
        format!("sh.helm.release.v1.{}.v{revision}", self.release)
    }

    /// Waits until the newest revision has this state.
    pub async fn is(&self, h: &Harness, status: &str) {
        let selector = format!("owner=helm,name={}", self.release);
        wait_for(&format!("the newest revision of Helm is {status}"), async || {
            let records = h.objects.list("Secret", &selector).await;
            let label = |record: &Value, key: &str| {
                record["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned()
            };
            let newest = records.iter().max_by_key(|record| label(record, "version").parse::<u32>().ok());
            match newest.map(|record| label(record, "status")) {
                Some(found) if found == status => Ok(()),
                found => Err(format!("{found:?}")),
            }
        })
        .await;
    }
}
