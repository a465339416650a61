//! What a release is asked to be: pure data, and the objects that follow from it.

use serde_json::{Value, json};

use crate::objects::set;
use crate::random::Random;

/// What has to become of a wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Good,
    /// Its pods never get ready.
    Unready,
    /// Its hook before everything else fails.
    HookFails,
    NotRenderable,
    InvalidValues,
}

/// The archives that a release's pack can be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Archive {
    First,
    /// Has one object more.
    Second,
    /// Does not render.
    Broken,
}

/// By which an object in the cluster tells whose wish it comes from: the turn of the values, the version of the pack.
pub(super) type Id = (u32, Archive);

/// One wish. Values and pack change apart, so each change of either is a wish of its own.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) turn: u32,
    pub(super) archive: Archive,
    /// As the values alone ask.
    values: Fate,
    service: bool,
    secret: bool,
    late: bool,
    job: bool,
    /// With the objects that may have been made by hand before.
    pub(super) hands: bool,
}

/// What never changes of one release.
#[derive(Clone, Debug)]
pub(super) struct Traits {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) retries: usize,
    pub(super) rollback: bool,
    uninstall: bool,
    pub(super) limit: usize,
    timeout: usize,
    pub(super) hook_retries: bool,
    pre_delete: bool,
}

impl Traits {
    pub(super) fn draw(random: &mut Random, index: usize, namespaces: usize) -> Self {
        Self {
            namespace: format!("soak-{}", index % namespaces),
            name: format!("r{index:02}"),
            retries: random.below(2),
            rollback: !random.one_in(4),
            uninstall: random.one_in(2),
            limit: 2 + random.below(4),
            timeout: 10 + random.below(5),
            hook_retries: random.one_in(3),
            pre_delete: random.one_in(3),
        }
    }

    pub(super) fn object(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    /// The ConfigMap with its pack.
    pub(super) fn pack(&self) -> String {
        format!("pack-{}", self.name)
    }
}

/// What the spec says beside the wish.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Settings {
    pub(super) suspended: bool,
    pub(super) paused: bool,
    pub(super) rollback_to: Option<u32>,
}

impl Wish {
    pub(super) fn draw(random: &mut Random, turn: u32, archive: Archive, values: Fate) -> Self {
        let mut maybe = || random.one_in(2);
        let (service, secret, late) = (maybe(), maybe(), maybe());
        Self { turn, archive, values, service, secret, late, job: random.one_in(3), hands: random.one_in(3) }
    }

    pub(super) fn id(&self) -> Id {
        (self.turn, self.archive)
    }

    pub(super) fn with(&self, archive: Archive) -> Self {
        Self { archive, ..self.clone() }
    }

    /// What has to become of values and pack together. The schema is looked at before the templates are.
    pub(super) fn fate(&self) -> Fate {
        match (self.values, self.archive) {
            (Fate::InvalidValues, _) => Fate::InvalidValues,
            (_, Archive::Broken) => Fate::NotRenderable,
            (values, _) => values,
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.fate() == Fate::Good
    }

    /// The lasting objects of it, as `Kind/name`.
    pub(super) fn lasting(&self, of: &Traits) -> Vec<String> {
        let mut titles = vec![format!("ConfigMap/{}", of.object("id"))];
        if self.archive == Archive::Second {
            titles.push(format!("ConfigMap/{}", of.object("two")));
        }
        let is_lasting = |object: &&Value| object["kind"] != "Job";
        let title =
            |object: &Value| format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]));
        titles.extend(self.objects(of).iter().filter(is_lasting).map(title));
        titles
    }

    pub(super) fn spec(&self, of: &Traits, settings: Settings) -> Value {
        let mut spec = json!({
            "pack": {"configMap": {"name": of.pack()}},
            "values": {"turn": self.turn.to_string(), "objects": self.objects(of), "replicas": 1},
            "timeout": format!("{}s", of.timeout),
            "suspend": settings.suspended,
            "history": {"limit": of.limit},
            "install": {
                "retries": of.retries, "adopt": "Unowned",
                "onFailure": if of.uninstall { "Uninstall" } else { "Retain" },
            },
            "upgrade": {
                "retries": of.retries, "paused": settings.paused,
                "onFailure": if of.rollback { "Rollback" } else { "Retain" },
            },
        });
        if let Some(revision) = settings.rollback_to {
            spec["rollbackTo"] = json!(revision);
        }
        match self.values {
            Fate::NotRenderable => spec["values"]["broken"] = json!(true),
            Fate::InvalidValues => spec["values"]["replicas"] = json!("many"),
            Fate::Good | Fate::Unready | Fate::HookFails => {}
        }
        spec
    }

    fn objects(&self, of: &Traits) -> Vec<Value> {
        let turn = self.turn.to_string();
        let map = |suffix: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": of.object(suffix)},
                "data": {"turn": turn}})
        };
        let mut objects = vec![map("main"), map("drift"), self.deployment(of)];
        if self.service {
            objects
                .push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": of.object("svc")},
                "spec": {"selector": {"app": of.object("app")}, "ports": [{"name": "http", "port": 80}]}}));
        }
        if self.secret {
            objects.push(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": of.object("secret")},
                "stringData": {"turn": turn}}),
            );
        }
        if self.late {
            let mut late = map("late");
            set(&mut late, &["metadata", "annotations", "sherpack.io/sync-wave"], json!("1"));
            objects.push(late);
        }
        if self.hands {
            objects.extend(by_hand(of, "pack"));
        }
        if self.job {
            let mut job = job(&of.object(&format!("job-{turn}")));
            set(&mut job, &["spec", "ttlSecondsAfterFinished"], json!(1));
            objects.push(job);
        }
        objects.extend(self.hooks(of));
        objects
    }

    fn deployment(&self, of: &Traits) -> Value {
        let app = of.object("app");
        let mut deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": app, "annotations": {"soak/turn": self.turn.to_string()}},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": app}}, "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "app", "image": "example.com/app:1.0.0"}]},
            }},
        });
        if self.values == Fate::Unready {
            let path = ["spec", "template", "metadata", "annotations", "devcluster/unready"];
            set(&mut deployment, &path, json!("true"));
        }
        deployment
    }

    fn hooks(&self, of: &Traits) -> Vec<Value> {
        let mut hooks =
            vec![("pre", "pre-install,pre-upgrade"), ("post", "post-install,post-upgrade,post-rollback")];
        if of.pre_delete {
            hooks.push(("bye", "pre-delete"));
        }
        let make = |(suffix, phases): (&str, &str)| {
            let mut hook = job(&of.object(suffix));
            set(&mut hook, &["metadata", "annotations", "sherpack.io/hook"], json!(phases));
            if of.hook_retries {
                set(&mut hook, &["metadata", "annotations", "sherpack.io/hook-retries"], json!("1"));
            }
            if suffix == "pre" && self.values == Fate::HookFails {
                let path = ["spec", "template", "metadata", "annotations", "devcluster/fail"];
                set(&mut hook, &path, json!("true"));
            }
            hook
        };
        hooks.into_iter().map(make).collect()
    }
}

fn job(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/job:1"}]}}}})
}

/// The objects that a person may make before the release has them; `whose` is who says so.
pub(super) fn by_hand(of: &Traits, whose: &str) -> [Value; 3] {
    let name = of.object("hand");
    [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"whose": whose}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"whose": whose}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "labels": {"whose": whose}, "annotations": {"sherpack.io/skip-wait": "true"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    ]
}

fn text(value: &Value) -> &str {
    crate::objects::text(value)
}

/// The files of the packs.
pub(super) fn files(archive: Archive) -> Vec<(&'static str, String)> {
    let version = match archive {
        Archive::First => "1.0.0",
        Archive::Second => "2.0.0",
        Archive::Broken => "3.0.0",
    };
    let map = |suffix: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ release.name }}}}-{suffix}\"}}\n\
             data: {{turn: \"{{{{ values.turn }}}}\", pack: \"{version}\"}}\n"
        )
    };
    let mut files = vec![
        (
            "Pack.yaml",
            format!(
                "apiVersion: sherpack/v1\nkind: application\nmetadata: {{name: soak, version: {version}}}\n"
            ),
        ),
        ("values.yaml", "objects: []\nbroken: false\nreplicas: 1\nturn: \"0\"\n".to_owned()),
        (
            "values.schema.json",
            json!({"type": "object", "properties": {"replicas": {"type": "integer"}}}).to_string(),
        ),
        ("templates/id.yaml", map("id")),
        (
            "templates/objects.yaml",
            "{% if values.broken %}{{ fail(\"asked to fail\") }}{% endif %}\n\
             {% for object in values.objects %}\n---\n{{ object | tojson }}\n{% endfor %}\n"
                .to_owned(),
        ),
    ];
    match archive {
        Archive::First => {}
        Archive::Second => files.push(("templates/two.yaml", map("two"))),
        Archive::Broken => files.push(("templates/two.yaml", "{{ fail(\"a broken pack\") }}\n".to_owned())),
    }
    files
}

/// The archive whose version an object names.
pub(super) fn archive_of(version: &str) -> Option<Archive> {
    match version {
        "1.0.0" => Some(Archive::First),
        "2.0.0" => Some(Archive::Second),
        _ => None,
    }
}
