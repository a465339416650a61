//! Packs from a few lines, and the objects that most of them are made of.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The files of a pack.
#[derive(Clone, Debug)]
pub struct Pack {
    pub files: BTreeMap<String, Vec<u8>>,
    objects: usize,
}

impl Pack {
    /// A pack without objects and values.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        let pack = format!(
            "apiVersion: sherpack/v1\nkind: application\nmetadata: {{name: {name}, version: {version}}}\n"
        );
        Self { files: BTreeMap::from([("Pack.yaml".to_owned(), pack.into_bytes())]), objects: 0 }
    }

    /// One more file, by its path in the pack.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.to_owned(), content.into());
        self
    }

    /// One more template, as text.
    #[must_use]
    pub fn template(self, name: &str, text: &str) -> Self {
        self.file(&format!("templates/{name}"), text)
    }

    /// One more object. A string in it may hold a template expression: `"{{ values.color }}"`.
    #[must_use]
    pub fn object(mut self, object: Value) -> Self {
        self.objects += 1;
        let path = format!("templates/{:03}.yaml", self.objects);
        // JSON is YAML, and indented it holds no `{{` of its own.
        self.file(&path, serde_json::to_vec_pretty(&object).unwrap())
    }

    /// Several objects.
    #[must_use]
    pub fn objects(self, objects: impl IntoIterator<Item = Value>) -> Self {
        objects.into_iter().fold(self, Self::object)
    }

    /// `values.yaml`.
    #[must_use]
    pub fn values(self, yaml: &str) -> Self {
        self.file("values.yaml", yaml)
    }

    /// The pack as an archive.
    #[must_use]
    pub fn archive(&self) -> Vec<u8> {
        sherpack_operator::pack::write_archive(&self.files).unwrap()
    }

    /// The digest by which the operator knows it.
    #[must_use]
    pub fn digest(&self) -> String {
        self.digest_if_valid().expect("a valid pack")
    }

    /// [`Pack::digest`], if the operator takes the pack.
    #[must_use]
    pub fn digest_if_valid(&self) -> Option<String> {
        let limits = sherpack_operator::pack::Limits::default();
        let pack = sherpack_operator::pack::from_files(self.files.clone(), &limits);
        pack.ok().map(|pack| pack.digest)
    }

    /// One of the packs below `tests/packs`.
    #[must_use]
    pub fn sample(name: &str) -> Self {
        let root = super::operator::sample_packs().join(name);
        let mut files = BTreeMap::new();
        let mut directories = vec![root.clone()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let relative = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                files.insert(relative, std::fs::read(&path).unwrap());
            }
        }
        Self { files, objects: 0 }
    }
}

/// A ConfigMap with these data.
#[must_use]
pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A Secret with these data, in clear.
#[must_use]
pub fn secret(name: &str, string_data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "stringData": string_data})
}

/// A Service for the pods of the Deployment of the same name.
#[must_use]
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    })
}

/// A Deployment with one container `app`, two environment variables, atomic `args`, and a cpu request.
#[must_use]
pub fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name, "tier": "front"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
                    "name": "app", "image": "example.com/app:1.0.0",
                    "args": ["--port=8080", "--verbose"],
                    "env": [{"name": "COLOR", "value": "blue"}, {"name": "MODE", "value": "fast"}],
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "resources": {"requests": {"cpu": "1"}},
                }]},
            },
        },
    })
}

/// An autoscaler of the Deployment of the same name.
#[must_use]
pub fn autoscaler(target: &str, min: u32, max: u32) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": target},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": min, "maxReplicas": max,
        },
    })
}

/// Annotates the pods of a Deployment so that the node does with them what `tests/devcluster/README.md` says.
#[must_use]
pub fn with_pod_annotation(mut workload: Value, key: &str, value: &str) -> Value {
    workload["spec"]["template"]["metadata"]["annotations"][key] = json!(value);
    workload
}

/// A Job that is a hook of these phases; its pod succeeds.
#[must_use]
pub fn hook(name: &str, phases: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "annotations": {"sherpack.io/hook": phases}},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "example.com/job:1"}],
            }},
        },
    })
}

/// `object` with one more annotation.
#[must_use]
pub fn with_annotation(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = value.into();
    object
}
