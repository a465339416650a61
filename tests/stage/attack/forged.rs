//! What a tenant may write into a namespace to deceive or to burden the operator.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

const MIB: usize = 1 << 20;

/// The text of 30 MiB that compresses to some kilobytes.
pub(super) fn thirty_mib(letter: char) -> String {
    std::iter::repeat_n(letter, 30 * MIB).collect()
}

fn blob(content: &Value) -> Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&serde_json::to_vec(content)?)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// One revision of a Sherpack release as a Secret or ConfigMap of another tool.
pub(super) struct Record<'r> {
    pub(super) kind: &'static str,
    /// Namespace and name of the release; the record stands there.
    pub(super) namespace: &'r str,
    pub(super) release: &'r str,
    pub(super) revision: u32,
    pub(super) state: Value,
    pub(super) description: &'r str,
    pub(super) manifest: &'r str,
    pub(super) head: bool,
}

impl<'r> Record<'r> {
    /// A deployed first revision in a Secret, which does not call itself the newest.
    pub(super) fn deployed(namespace: &'r str, release: &'r str, manifest: &'r str) -> Self {
        let state = json!({"status": "deployed"});
        Self {
            kind: "Secret",
            namespace,
            release,
            revision: 1,
            state,
            description: "",
            manifest,
            head: false,
        }
    }

    /// The object that holds it.
    pub(super) fn object(&self) -> Result<Value> {
        let Self { kind, namespace, release, revision, state, description, manifest, head } = self;
        let now = "2026-01-01T00:00:00Z";
        let content = json!({
            "name": release, "namespace": namespace, "version": revision, "state": state,
            "pack": {"name": release, "version": "1.0.0", "description": description},
            "values": {}, "manifest": manifest, "createdAt": now, "updatedAt": now,
        });
        let driver = if *kind == "Secret" { "secrets" } else { "configmap" };
        let mut labels = json!({
            "app.kubernetes.io/managed-by": "sherpack",
            "sherpack.io/compression": "gzip",
            "sherpack.io/storage-driver": driver,
            "sherpack.io/release-name": release,
            "sherpack.io/release-namespace": namespace,
            "sherpack.io/release-version": revision.to_string(),
        });
        if *head {
            labels["sherpack.io/head"] = json!("true");
        }
        let mut object = json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": format!("sh.sherpack.release.v1.{release}.v{revision}"), "labels": labels},
        });
        if *kind == "Secret" {
            object["type"] = json!("sherpack.io/release.v1");
            object["data"] = json!({"release": STANDARD.encode(blob(&content)?)});
        } else {
            object["data"] = json!({"release": blob(&content)?});
        }
        Ok(object)
    }
}

/// Revision 1 of a Helm release whose chart has this name.
pub(super) fn helm(namespace: &str, release: &str, chart: &str, manifest: &str) -> Result<Value> {
    let content = json!({
        "name": release, "namespace": namespace, "version": 1,
        "info": {"status": "deployed", "first_deployed": "2026-01-01T00:00:00Z", "last_deployed": "2026-01-01T00:00:00Z", "deleted": "", "description": ""},
        "chart": {"metadata": {"name": chart, "version": "1.0.0", "apiVersion": "v2"}},
        "config": {}, "manifest": manifest,
    });
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {
            "name": format!("sh.helm.release.v1.{release}.v1"),
            "labels": {"owner": "helm", "name": release, "status": "deployed", "version": "1"},
        },
        "data": {"release": STANDARD.encode(blob(&content)?)},
    }))
}

/// Documents of so many ConfigMaps in a namespace.
pub(super) fn config_maps(namespace: &str, count: usize) -> String {
    let one = |index| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x{index}, namespace: {namespace}}}\ndata: {{a: b}}\n"
        )
    };
    (0..count).map(one).collect::<Vec<_>>().join("---\n")
}

/// The directory of a pack.
pub(super) fn write_pack(name: &str, files: &[(String, String)]) -> Result<std::path::PathBuf> {
    let directory = crate::cluster::root().join("target/stage").join(format!("attack-{name}"));
    std::fs::create_dir_all(directory.join("templates"))?;
    let pack =
        format!("apiVersion: sherpack/v1\nkind: application\nmetadata:\n  name: {name}\n  version: 1.0.0\n");
    std::fs::write(directory.join("Pack.yaml"), pack)?;
    for (file, content) in files {
        let path = directory.join(file);
        std::fs::write(&path, content)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    }
    Ok(directory)
}
