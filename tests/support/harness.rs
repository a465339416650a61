//! One test: a namespace, an operator that watches it alone, and everything that the test does there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use sherpack_operator::api::{LockPolicy, SherpackRelease, Tenancy};
use sherpack_operator::source::http::Options;

use super::control_plane::{self, ControlPlane};
use super::objects::Objects;
use super::operator::{Operator, Probe, Settings};
use super::packs::Pack;
use super::wait::{eventually, wait_for};
use super::wire::Wire;

/// The manager that plays the person who owns the releases.
pub const PERSON: &str = "test-person";

/// How many requests a failed test shows.
const LAST_WRITES: usize = 60;

pub struct Harness {
    pub control_plane: &'static ControlPlane,
    pub client: Client,
    pub namespace: String,
    /// Objects of the namespace, read and changed by the test itself, past the operator's wire.
    pub objects: Objects,
    /// What the operator sends.
    pub wire: Wire,
    pub settings: Settings,
    /// Set when the test has asked for the end of a release.
    pub uninstalls: Arc<AtomicBool>,
    /// The digest of the pack that is in each ConfigMap, as far as it is known.
    packs: Mutex<HashMap<String, String>>,
    operator: Mutex<Option<Operator>>,
}

impl Harness {
    /// A namespace of this name and an operator for it. The name must be used by one test only.
    pub async fn new(name: &str) -> Self {
        let harness = Self::without_operator(name).await;
        harness.start();
        harness
    }

    /// A namespace of this name, and no operator yet.
    pub async fn without_operator(name: &str) -> Self {
        Self::on(control_plane::shared().await, name).await
    }

    /// [`Harness::without_operator`] on a control plane of the test's own.
    pub async fn on(control_plane: &'static ControlPlane, name: &str) -> Self {
        let settings = Settings {
            kubeconfig: control_plane.kubeconfig.clone(),
            watch_namespace: Some(name.to_owned()),
            watch_labels: None,
            operator_namespace: name.to_owned(),
            pack_dir: None,
            sources: Options::default(),
            storage_dir: None,
            storage_namespaces: Vec::new(),
            leader_election: None,
            default_service_account: None,
            tenancy: Tenancy::Single,
            trust_pack_crds: false,
            require_signatures: false,
            concurrency: 4,
            drift_ignore: json!([]),
            memory_budget: 128 << 20,
            lock: LockPolicy::default(),
            holder: format!("{name}-1"),
        };
        Self::of(control_plane, name, settings).await
    }

    /// A namespace of this name on a control plane of the caller's, and no operator yet.
    pub async fn of(control_plane: &'static ControlPlane, name: &str, settings: Settings) -> Self {
        let objects = control_plane.objects(name).await;
        let client = objects.client.clone();
        objects
            .create(PERSON, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await;
        Self {
            control_plane,
            client,
            namespace: name.to_owned(),
            objects,
            wire: Wire::default(),
            settings,
            uninstalls: Arc::default(),
            packs: Mutex::default(),
            operator: Mutex::default(),
        }
    }

    // ---- the operator -------------------------------------------------------------------------------------

    /// Starts an operator. One that is already there is killed.
    pub fn start(&self) {
        self.kill();
        *self.operator.lock().unwrap() = Some(Operator::start(&self.settings, &self.wire));
    }

    /// As `kill -9`. Nothing happens when there is none.
    pub fn kill(&self) {
        self.wire.die();
        if let Some(operator) = self.operator.lock().unwrap().take() {
            operator.kill();
        }
    }

    /// As SIGTERM; waits until it has ended.
    pub async fn stop(&self) {
        let operator = self.operator.lock().unwrap().take().expect("an operator runs");
        operator.stop().await;
    }

    /// Asks for passes of a release for some seconds, and makes sure that few are made unasked.
    pub async fn rests(&self, name: &str) {
        let passes = async || self.metric("sherpack_reconcile_duration_seconds_count", &[]).await;
        let (before, began, mut asked) = (passes().await, Instant::now(), 0.0);
        while began.elapsed() < Duration::from_secs(4) {
            self.pass(name).await;
            asked += 1.0;
        }
        // The annotation makes one, and the status that acknowledges it another.
        let made = passes().await - before;
        assert!(made <= asked * 2.0 + 20.0, "{made} passes where {asked} were asked for");
    }

    fn probe(&self) -> Probe {
        Probe(self.operator.lock().unwrap().as_ref().expect("an operator runs").address)
    }

    /// Waits until the running operator is ready.
    pub async fn operator_ready(&self) {
        self.probe().ready().await;
    }

    /// What the running operator answers when it is asked whether it is ready.
    pub async fn readiness(&self) -> Option<String> {
        self.probe().http("/readyz").await
    }

    /// The sum of all series of a metric of the running operator whose labels contain every text in `labels`.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        self.probe().metric(name, labels).await
    }

    /// The metrics of the running operator, as text.
    pub async fn metrics(&self) -> String {
        self.probe().metrics().await
    }

    // ---- packs and releases -------------------------------------------------------------------------------

    /// Stores a pack in the ConfigMap `name`; one that is there is overwritten.
    pub async fn pack(&self, name: &str, pack: &Pack) {
        self.pack_archive(name, pack.archive()).await;
        if let Some(digest) = pack.digest_if_valid() {
            self.packs.lock().unwrap().insert(name.to_owned(), digest);
        }
    }

    /// The same with bytes that may be no pack.
    pub async fn pack_archive(&self, name: &str, archive: Vec<u8>) {
        self.packs.lock().unwrap().remove(name);
        let body = json!({"binaryData": {"pack.tgz": STANDARD.encode(archive)}});
        self.objects.server_side_apply(&format!("ConfigMap/{name}"), PERSON, body).await;
    }

    /// Applies a SherpackRelease with this spec.
    pub async fn release(&self, name: &str, spec: Value) -> Value {
        self.objects
            .server_side_apply(&format!("SherpackRelease/{name}"), PERSON, json!({"spec": spec}))
            .await
    }

    /// Stores the pack as ConfigMap `<name>-pack`, applies a release of it with more fields of the spec, and waits until it is deployed.
    pub async fn deploy(&self, name: &str, pack: &Pack, more: Value) -> Value {
        self.apply(name, pack, more).await;
        let digest = pack.digest();
        self.ready_if(name, |release| release["status"]["pack"]["digest"] == digest.as_str()).await
    }

    /// [`Harness::deploy`] without the wait.
    pub async fn apply(&self, name: &str, pack: &Pack, more: Value) -> Value {
        let source = format!("{name}-pack");
        self.pack(&source, pack).await;
        let mut spec = json!({"pack": {"configMap": {"name": source}}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.release(name, spec).await
    }

    /// Changes the spec of a release as `kubectl edit` does: null removes.
    pub async fn edit_spec(&self, name: &str, spec: Value) -> Value {
        self.objects.edit(&format!("SherpackRelease/{name}"), PERSON, json!({"spec": spec})).await
    }

    /// Sets an annotation of a release; null removes it.
    pub async fn annotate(&self, name: &str, key: &str, value: impl Into<Value>) -> Value {
        let patch = json!({"metadata": {"annotations": {key: value.into()}}});
        self.objects.edit(&format!("SherpackRelease/{name}"), PERSON, patch).await
    }

    /// Asks for a pass and waits until it was made: the operator acknowledges it in the status.
    pub async fn pass(&self, name: &str) {
        let at = format!("{}", jiff::Timestamp::now());
        self.annotate(name, "sherpack.io/reconcile-at", at.as_str()).await;
        wait_for("the pass that was asked for", async || {
            let release = self.objects.get(&format!("SherpackRelease/{name}")).await;
            let handled = &release["status"]["lastHandled"]["reconcileAt"];
            if *handled == json!(at) { Ok(()) } else { Err(release["status"].to_string()) }
        })
        .await;
    }

    /// The status of a release as JSON; null without one.
    pub async fn status(&self, name: &str) -> Value {
        self.objects.get(&format!("SherpackRelease/{name}")).await["status"].clone()
    }

    /// The release, typed.
    pub async fn typed(&self, name: &str) -> SherpackRelease {
        Api::namespaced(self.client.clone(), &self.namespace).get(name).await.unwrap()
    }

    /// Waits until a release is Ready for its newest spec and its newest pack; gives the whole object.
    pub async fn ready(&self, name: &str) -> Value {
        // Another pack in the same ConfigMap is no new generation, so Ready may still speak of the last one.
        self.ready_if(name, |release| self.has_the_pack(release)).await
    }

    async fn ready_if(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("{name} is Ready"), async || {
            let release = self.objects.get(&format!("SherpackRelease/{name}")).await;
            let ready = has(&release, "Ready", "True", None) && fits(&release);
            if ready { Ok(release) } else { Err(release["status"].to_string()) }
        })
        .await
    }

    /// Waits until a condition of a release has this status, and this reason if one is given, for its newest spec.
    /// What changed besides the spec makes no new generation: wait for what the condition says of it.
    pub async fn condition(&self, name: &str, type_: &str, status: &str, reason: Option<&str>) -> Value {
        let what = format!("condition {type_} of {name} is {status} {}", reason.unwrap_or_default());
        wait_for(&what, async || {
            let release = self.objects.get(&format!("SherpackRelease/{name}")).await;
            let fits = has(&release, type_, status, reason);
            if fits { Ok(release) } else { Err(release["status"].to_string()) }
        })
        .await
    }

    /// Whether the status is that of the pack which this test stored last where the release takes it from. True of a
    /// release that is not to take it.
    fn has_the_pack(&self, release: &Value) -> bool {
        let spec = &release["spec"];
        let holds = spec["suspend"] == true
            || !spec["rollbackTo"].is_null()
            || spec["upgrade"]["paused"] == true
            || spec["approval"] == "Manual";
        let packs = self.packs.lock().unwrap();
        let digest = spec["pack"]["configMap"]["name"].as_str().and_then(|source| packs.get(source));
        holds || digest.is_none_or(|digest| release["status"]["pack"]["digest"] == digest.as_str())
    }

    /// Deletes a release and waits until it is gone.
    pub async fn uninstall(&self, name: &str) {
        self.uninstalls.store(true, Ordering::SeqCst);
        self.objects.delete(&format!("SherpackRelease/{name}")).await;
        self.gone(&format!("SherpackRelease/{name}")).await;
    }

    // ---- objects ------------------------------------------------------------------------------------------

    /// Waits until `expected` holds of the object, such as `Deployment/web`; gives it.
    pub async fn sees(&self, what: &str, expected: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("{what} is as expected"), async || match self.objects.find(what).await {
            Some(object) if expected(&object) => Ok(object),
            Some(object) => Err(object.to_string()),
            None => Err(format!("{what} is not there")),
        })
        .await
    }

    /// Waits until the value at a JSON pointer of the object is `expected`; gives the object.
    pub async fn shows(&self, what: &str, pointer: &str, expected: impl Into<Value>) -> Value {
        let expected = expected.into();
        wait_for(&format!("{what} has {expected} at {pointer}"), async || {
            match self.objects.find(what).await {
                Some(object) if object.pointer(pointer) == Some(&expected) => Ok(object),
                Some(object) => Err(format!("{:?} in {object}", object.pointer(pointer))),
                None => Err(format!("{what} is not there")),
            }
        })
        .await
    }

    /// The one pod of the workload, such as `Job/before`, was told not to get ready, and does.
    pub async fn heal(&self, workload: &str) {
        let selector = match workload.split_once('/').expect("Kind/name") {
            ("Job", name) => format!("batch.kubernetes.io/job-name={name}"),
            (_, name) => format!("app={name}"),
        };
        let waits = |pod: &Value| {
            let meta = &pod["metadata"];
            meta["deletionTimestamp"].is_null() && !meta["annotations"]["devcluster/unready"].is_null()
        };
        let pod = wait_for(&format!("the pod of {workload}"), async || {
            let pods = self.objects.list("Pod", &selector).await;
            pods.into_iter().find(waits).ok_or_else(|| "there is none that is told so".to_owned())
        })
        .await;
        let name = pod["metadata"]["name"].as_str().unwrap();
        let healed = json!({"metadata": {"annotations": {"devcluster/unready": null}}});
        self.objects.edit(&format!("Pod/{name}"), "test", healed).await;
    }

    /// Waits until the object is not there.
    pub async fn gone(&self, what: &str) {
        eventually(&format!("{what} is gone"), async || self.objects.find(what).await.is_none()).await;
    }

    /// The revision records of a release, oldest first: Secrets.
    pub async fn records(&self, name: &str) -> Vec<Value> {
        let selector = format!("sherpack.io/storage-driver,sherpack.io/release-name={name}");
        let mut records = self.objects.list("Secret", &selector).await;
        let revision = |record: &Value| {
            let label = record["metadata"]["labels"]["sherpack.io/release-version"].as_str();
            label.and_then(|label| label.parse::<u32>().ok()).unwrap_or(0)
        };
        records.sort_by_key(revision);
        records
    }

    /// Notes of the Events about a release that have this reason.
    pub async fn events(&self, name: &str, reason: &str) -> Vec<String> {
        use k8s_openapi::api::events::v1::Event;
        self.objects.read("Event");
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let events = events.list(&kube::api::ListParams::default()).await.unwrap();
        let about = |event: &Event| {
            event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()) == Some(name)
        };
        let matching =
            events.items.into_iter().filter(|event| about(event) && event.reason.as_deref() == Some(reason));
        matching.map(|event| event.note.unwrap_or_default()).collect()
    }

    /// Overwrites a part of the status of a release, as a backup tool or a clumsy hand would.
    pub async fn forge_status(&self, name: &str, status: Value) {
        let api: Api<SherpackRelease> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let writes = self.wire.writes_since(0);
            let last = writes.iter().skip(writes.len().saturating_sub(LAST_WRITES));
            let lines: Vec<String> = last.map(super::wire::Request::line).collect();
            eprintln!("the last writes of the operator in {}: {lines:#?}", self.namespace);
            let operator = self.operator.get_mut().ok().and_then(Option::as_mut);
            if let Some(why) = operator.and_then(Operator::why_it_ended) {
                eprintln!("the operator in {} has ended: {why}", self.namespace);
            }
        }
        self.kill();
    }
}

/// Whether the condition is this, for the newest spec.
fn has(release: &Value, type_: &str, status: &str, reason: Option<&str>) -> bool {
    let current = release["status"]["observedGeneration"] == release["metadata"]["generation"];
    let found = condition(release, type_);
    current && found["status"] == status && reason.is_none_or(|reason| found["reason"] == reason)
}

/// A condition of a release; null when it has none of that type.
#[must_use]
pub fn condition(release: &Value, type_: &str) -> Value {
    let conditions = release["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}
