//! What a tenant with rights in one namespace does to the operator, all at once and for as long as it is let.
//!
//! Each deed is a task that goes on until it is dropped. Its requests may be refused: that is for the API server to say.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

use super::forged::{Record, config_maps, helm, thirty_mib, write_pack};
use super::{ELSEWHERE, EVIL, VICTIM};
use crate::failure::{During, Result};
use crate::objects::text;
use crate::operator::package_directory;
use crate::release;

/// Bombs that are decoded, at the start and later.
const BOMBS: usize = 40;
/// Releases that render for as long as they may.
const RENDERS: usize = 100;
/// Releases that wait with large manifests.
const WAITING: usize = 24;
const INTERVALS: usize = 100;
/// Connections to the operator's own port.
const HALF_OPEN: usize = 8_000;
/// The least pause between two requests of one deed.
const PAUSE: Duration = Duration::from_millis(500);

/// What the tenant has: the rights of an account in one namespace. The requests go in the name of an admin, so
/// that nothing but the operator is tried.
#[derive(Clone)]
pub(super) struct Tenant {
    pub(super) client: Client,
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "SherpackRelease" => ("sherpack.io", "v1alpha1"),
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

impl Tenant {
    fn api(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
    }

    /// Writes an object; a refusal is what was to be seen.
    async fn write(&self, namespace: &str, object: Value) {
        self.write_as("tenant", namespace, object).await;
    }

    async fn write_as(&self, manager: &str, namespace: &str, mut object: Value) {
        let kind = text(&object["kind"]).to_owned();
        let name = text(&object["metadata"]["name"]).to_owned();
        if object["apiVersion"].is_null() {
            object["apiVersion"] = json!(resource(&kind).api_version);
        }
        let params = PatchParams::apply(manager).force();
        let _ = self.api(namespace, &kind).patch(&name, &params, &Patch::Apply(&object)).await;
    }

    async fn release(&self, name: &str, mut spec: Value) {
        spec["serviceAccountName"] = json!("deployer-0");
        let object = json!({"kind": "SherpackRelease", "metadata": {"name": name}, "spec": spec});
        self.write(EVIL, object).await;
    }

    async fn merge(&self, kind: &str, name: &str, patch: &Value) {
        let _ = self.api(EVIL, kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    async fn delete(&self, kind: &str, name: &str) {
        let _ = self.api(EVIL, kind).delete(name, &DeleteParams::default()).await;
    }

    /// Puts a pack of these files into a ConfigMap of the same name.
    async fn pack(&self, name: &str, files: &[(String, String)]) -> Result<()> {
        let archive = package_directory(&write_pack(name, files)?, &format!("attack-{name}")).await?;
        release::store_pack(&self.client, EVIL, name, archive).await
    }

    /// What stands there before the operator starts: records that call themselves the newest, and packs.
    pub(super) async fn prepare(&self) -> Result<()> {
        let description = thirty_mib('A');
        for index in 0..BOMBS {
            let release = format!("b{index}");
            let record = Record {
                kind: "ConfigMap",
                description: &description,
                head: true,
                ..Record::deployed(EVIL, &release, "")
            };
            self.write(EVIL, record.object()?).await;
        }
        let file = |name: &str, content: &str| (format!("templates/{name}"), content.to_owned());
        let config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ release.name }}-cm\"}\n";
        self.pack("plain", &[file("cm.yaml", config_map)]).await?;
        let slow = "{% set l = range(20000)|list %}{% for i in range(900) %}{% set x = l|sort|unique|length %}{% endfor %}\n";
        self.pack("slow", &[file("slow.yaml", slow)]).await?;
        let waits = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ release.name }}\"}\nspec:\n  selector: {matchLabels: {app: w}}\n  template:\n    metadata: {labels: {app: w}, annotations: {devcluster/unready: \"true\"}}\n    spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}\n";
        let mut large = vec![file("wait.yaml", waits)];
        for index in 0..14 {
            let body = format!("{{% for i in range(8500) %}}{}{{% endfor %}}", "a".repeat(100));
            large.push(file(
                &format!("large{index}.yaml"),
                &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ release.name }}}}-{index}\", annotations: {{sherpack.io/sync-wave: \"1\"}}}}\ndata: {{a: {body}}}\n"),
            ));
        }
        self.pack("large", &large).await?;
        let leaks = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ release.name }}\", labels: {a: \"{{ values.a }}\"}}\n";
        self.pack("leaks", &[file("leaks.yaml", leaks)]).await?;
        self.pack(
            "leaks-encoded",
            &[file("leaks.yaml", &leaks.replace("values.a", "('user:' ~ values.a) | b64encode"))],
        )
        .await?;
        let replays = format!("{config_map}data: {{n: \"{{{{ values.n }}}}\"}}\n");
        self.pack("replayed", &[file("cm.yaml", &replays), ("values.yaml".to_owned(), "n: 0\n".to_owned())])
            .await
    }

    /// Everything, each in a task of its own; `only` names some of them.
    pub(super) fn deeds(
        &self,
        operator: SocketAddr,
        closed: SocketAddr,
        only: &[String],
    ) -> Vec<BoxFuture<'static, ()>> {
        let all: [(&str, BoxFuture<'static, ()>); 14] = [
            ("heads", self.clone().heads().boxed()),
            ("watches", self.clone().watches().boxed()),
            ("intervals", self.clone().intervals().boxed()),
            ("renders", self.clone().renders().boxed()),
            ("waits", self.clone().waits().boxed()),
            ("names", self.clone().names().boxed()),
            ("records", self.clone().records_elsewhere().boxed()),
            ("squatter", self.clone().squatter().boxed()),
            ("rivals", self.clone().rivals().boxed()),
            ("lines", self.clone().lines().boxed()),
            ("replays", self.clone().replays().boxed()),
            ("secrets", self.clone().secrets().boxed()),
            ("fetches", self.clone().fetches(closed).boxed()),
            ("connections", half_open(operator).boxed()),
        ];
        let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
        all.into_iter().filter(|(name, _)| wanted(name)).map(|(_, deed)| deed).collect()
    }

    /// Releases whose newest record is a bomb; touched again and again.
    async fn heads(self) {
        for index in 0..BOMBS {
            let spec = json!({"pack": {"configMap": {"name": "plain"}}, "history": {"storage": "ConfigMap"}, "upgrade": {"paused": true}});
            self.release(&format!("b{index}"), spec).await;
        }
        for turn in 0_u64.. {
            let name = format!("sh.sherpack.release.v1.b{}.v1", turn % BOMBS as u64);
            let patch = json!({"metadata": {"annotations": {"turn": turn.to_string()}}});
            self.merge("ConfigMap", &name, &patch).await;
            sleep(PAUSE).await;
        }
    }

    /// Locks what another Sherpack tool says to have installed.
    async fn lock(&self, name: &str, manifest: &str) {
        if let Ok(object) = Record::deployed(EVIL, name, manifest).object() {
            self.write(EVIL, object).await;
        }
        self.release(name, json!({"lock": {"sherpackRelease": {"name": name}}})).await;
    }

    /// A lock of 3,000 objects in another namespace, and one of as many in its own.
    async fn watches(self) {
        for (name, namespace) in [("w-elsewhere", "kube-system"), ("w-own", EVIL)] {
            self.lock(name, &config_maps(namespace, 3_000)).await;
        }
        std::future::pending::<()>().await;
    }

    async fn intervals(self) {
        for index in 0..INTERVALS {
            // The shortest that the API server takes.
            let spec = json!({"pack": {"configMap": {"name": "plain"}}, "interval": "10s"});
            self.release(&format!("i{index}"), spec).await;
        }
        for turn in 0_usize.. {
            let patch = json!({"metadata": {"annotations": {"sherpack.io/reconcile-at": turn.to_string()}}});
            self.merge("SherpackRelease", &format!("i{}", turn % INTERVALS), &patch).await;
            sleep(PAUSE / 5).await;
        }
    }

    async fn renders(self) {
        for index in 0..RENDERS {
            let spec = json!({"pack": {"configMap": {"name": "slow"}}, "values": {"n": 0}});
            self.release(&format!("r{index}"), spec).await;
        }
        for turn in 1_usize.. {
            for index in 0..20 {
                self.merge(
                    "SherpackRelease",
                    &format!("r{index}"),
                    &json!({"spec": {"values": {"n": turn}}}),
                )
                .await;
            }
            sleep(PAUSE * 4).await;
        }
    }

    async fn waits(self) {
        for index in 0..WAITING {
            let spec = json!({"pack": {"configMap": {"name": "large"}}, "timeout": "24h", "waves": {"timeout": "24h"}});
            self.release(&format!("l{index}"), spec).await;
        }
        std::future::pending::<()>().await;
    }

    async fn names(self) {
        if let Ok(object) = helm(EVIL, "big", &thirty_mib('n'), "") {
            self.write(EVIL, object).await;
        }
        self.release("big", json!({"lock": {"helmRelease": {"name": "big"}}})).await;
        std::future::pending::<()>().await;
    }

    /// Another release's records, in a namespace where the account may do nothing.
    async fn records_elsewhere(self) {
        loop {
            let spec = json!({"releaseName": "shop", "targetNamespace": ELSEWHERE, "pack": {"configMap": {"name": "plain"}}});
            self.release("shop", spec).await;
            sleep(PAUSE * 10).await;
            self.delete("SherpackRelease", "shop").await;
            sleep(PAUSE * 4).await;
        }
    }

    /// A Helm release that says to have made what another one locks.
    async fn squatter(self) {
        let document = |name: &str| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {VICTIM}}}\ndata: {{a: stolen}}\n"
            )
        };
        let manifest: String = ["c0-0", "db-0", "db-1", "tool-0", "tool-1"].map(document).concat();
        if let Ok(object) = helm(EVIL, "thief", "thief", &manifest) {
            self.write(EVIL, object).await;
        }
        self.release("thief", json!({"lock": {"helmRelease": {"name": "thief"}}})).await;
        std::future::pending::<()>().await;
    }

    /// Releases that say to install what others lock or install, by the names of their records.
    async fn rivals(self) {
        for name in ["tool", "db", "c0", "bulk"] {
            let spec = json!({"releaseName": name, "targetNamespace": VICTIM, "suspend": true, "pack": {"configMap": {"name": "plain"}}});
            self.release(&format!("as-{name}"), spec).await;
        }
        std::future::pending::<()>().await;
    }

    /// Locks whose manifest has Secrets of a million short lines, and objects that the account may not read.
    async fn lines(self) {
        let line = STANDARD.encode("ab:c\n".repeat(200_000));
        let secret = |index| {
            format!(
                "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: lines-{index}, namespace: {EVIL}}}\ndata: {{a: {line}}}\n"
            )
        };
        let manifest = (0..5).map(secret).collect::<String>() + "---\n" + &config_maps("kube-system", 900);
        for name in ["lines-a", "lines-b"] {
            self.lock(name, &manifest).await;
        }
        for turn in 0_usize.. {
            let patch = json!({"metadata": {"annotations": {"sherpack.io/reconcile-at": turn.to_string()}}});
            self.merge("SherpackRelease", ["lines-a", "lines-b"][turn % 2], &patch).await;
            sleep(PAUSE * 4).await;
        }
    }

    /// Its own record, put back as it was before.
    async fn replays(self) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), EVIL);
        for turn in 0_usize.. {
            self.release("rp", json!({"pack": {"configMap": {"name": "replayed"}}, "values": {"n": turn}}))
                .await;
            sleep(PAUSE).await;
            let name = format!("sh.sherpack.release.v1.rp.v{}", turn + 1);
            let Ok(Some(first)) = secrets.get_opt(&name).await else { continue };
            sleep(PAUSE * 4).await;
            let patch = json!({"data": first.data});
            let _ = secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            sleep(PAUSE * 4).await;
            if turn % 4 == 3 {
                let names = (1..=turn + 1).map(|revision| format!("sh.sherpack.release.v1.rp.v{revision}"));
                for name in names {
                    let _ = secrets.delete(&name, &DeleteParams::default()).await;
                }
            }
        }
    }

    async fn secrets(self) {
        let secret =
            json!({"kind": "Secret", "metadata": {"name": "sec"}, "stringData": {"a": super::PASSWORD}});
        self.write(EVIL, secret).await;
        let from = json!([{"kind": "Secret", "name": "sec", "key": "a", "targetPath": "a"}]);
        for name in ["leaks", "leaks-encoded"] {
            self.release(name, json!({"pack": {"configMap": {"name": name}}, "valuesFrom": from})).await;
        }
        std::future::pending::<()>().await;
    }

    async fn fetches(self, closed: SocketAddr) {
        let metadata = "http://169.254.169.254/latest/meta-data".to_owned();
        let named = "http://metadata.google.internal/computeMetadata/v1/?a=b".to_owned();
        for (index, url) in [metadata, named, format!("http://{closed}/p.tgz")].into_iter().enumerate() {
            self.release(&format!("f{index}"), json!({"pack": {"http": {"url": url}}, "interval": "10s"}))
                .await;
        }
        std::future::pending::<()>().await;
    }
}

/// Another address than the one that the probes of the kubelet come from, as a pod has one.
const POD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 0);

async fn connect_from_pod(operator: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(POD)?;
    socket.connect(operator).await
}

/// Connections that never send a whole request. One that the server closes is opened again.
async fn half_open(operator: SocketAddr) {
    let mut open: Vec<TcpStream> = Vec::new();
    let most = files().map_or(HALF_OPEN, |files| HALF_OPEN.min(files.saturating_sub(500)));
    loop {
        open.retain(|stream| !matches!(stream.try_read(&mut [0; 64]), Ok(0)));
        while open.len() < most {
            let Ok(mut stream) = connect_from_pod(operator).await else { break };
            if stream.write_all(b"GET /met").await.is_err() {
                break;
            }
            open.push(stream);
        }
        sleep(PAUSE).await;
    }
}

/// How many files this process may open.
fn files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What Helm and another Sherpack tool installed for the victim, and the locks of it.
pub(super) async fn locked_by_others(client: &Client) -> Result<()> {
    let tenant = Tenant { client: client.clone() };
    for name in super::LOCKED {
        let helm_made = json!({
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": VICTIM},
        });
        let mut manifest = String::new();
        for index in 0..2 {
            let mut object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-{index}"), "namespace": VICTIM},
                "data": {"a": "right"},
            });
            // Helm adds these when it applies; they are not in its manifest.
            manifest.push_str(&format!("---\n{object}\n"));
            if name == "db" {
                object["metadata"]["labels"] = helm_made["labels"].clone();
                object["metadata"]["annotations"] = helm_made["annotations"].clone();
            }
            // As Helm 4 and the published Sherpack apply.
            tenant.write_as(if name == "db" { "helm" } else { "sherpack" }, VICTIM, object).await;
        }
        let (record, lock) = match name {
            "db" => (helm(VICTIM, name, "db", &manifest)?, json!({"helmRelease": {"name": name}})),
            _ => {
                let record = Record::deployed(VICTIM, name, &manifest);
                (record.object()?, json!({"sherpackRelease": {"name": name}}))
            }
        };
        tenant.write(VICTIM, record).await;
        let spec = json!({"lock": lock, "serviceAccountName": "deployer-0"});
        let object =
            json!({"kind": "SherpackRelease", "metadata": {"name": format!("{name}-lock")}, "spec": spec});
        tenant.write(VICTIM, object).await;
    }
    Ok(())
}

/// The records of another release, made by another tool, in the third namespace.
pub(super) async fn records_of_others(client: &Client) -> Result<()> {
    let tenant = Tenant { client: client.clone() };
    let pending = json!({"status": "pending-upgrade", "started_at": "2026-01-01T00:00:00Z", "timeout": 60, "previous_version": 2});
    for (revision, state) in
        [(1, json!({"status": "superseded"})), (2, json!({"status": "superseded"})), (3, pending)]
    {
        let record =
            Record { revision, state, head: revision == 3, ..Record::deployed(ELSEWHERE, "shop", "") };
        tenant.write(ELSEWHERE, record.object()?).await;
    }
    let found = tenant.api(ELSEWHERE, "Secret").list(&Default::default()).await.during("records")?;
    crate::failure::check(found.items.len() == 3, || "three records of another release".to_owned())
}
