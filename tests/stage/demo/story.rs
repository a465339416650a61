//! The story: install, three kinds of drift, upgrade with prune, uninstall.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Narrator;
use super::kills::Kills;
use super::scenery::{PACK, Scenery};
use crate::failure::{Failure, Result, check};
use crate::objects::{Snapshot, is_record, labelled, snapshot, title};
use crate::operator::Operator;
use crate::release;
use crate::sight::{Change, PutBack, Sight};

/// The release of the story.
const NAME: &str = "web";

/// Nothing takes this long; only there so that a run ends.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scene {
    Install,
    Scale,
    Edit,
    Delete,
    Upgrade,
    Uninstall,
}

impl Scene {
    /// How often the operator is killed in this scene.
    pub(crate) fn kills(self) -> usize {
        match self {
            Self::Install => 3,
            Self::Upgrade | Self::Uninstall => 2,
            Self::Scale | Self::Edit | Self::Delete => 1,
        }
    }
}

pub(crate) struct Story<'a> {
    pub(crate) scenery: &'a Scenery,
    pub(crate) narrator: &'a Narrator,
    pub(crate) operator: Operator,
    /// `None`: a calm run.
    pub(crate) kills: Option<Kills>,
}

/// What a story leaves for comparison.
pub(crate) struct Told {
    pub(crate) durations: BTreeMap<Scene, Duration>,
    /// After the upgrade.
    pub(crate) final_objects: Snapshot,
}

impl Story<'_> {
    pub(crate) async fn tell(&mut self) -> Result<Told> {
        let mut durations = BTreeMap::new();
        durations.insert(Scene::Install, self.install().await?);
        let first = self.objects().await?;
        durations.insert(Scene::Scale, self.scale(named(&first, "Deployment")?).await?);
        durations.insert(Scene::Edit, self.edit(named(&first, "ConfigMap")?).await?);
        durations.insert(Scene::Delete, self.delete(named(&first, "Service")?).await?);
        durations.insert(Scene::Upgrade, self.upgrade(&snapshot(&first)).await?);
        let last = self.objects().await?;
        self.check_records(&last)?;
        if self.kills.is_none() {
            let namespace = self.scenery.namespace.as_str();
            self.narrator.aside("$ kubectl get srel");
            self.narrator.aside(self.scenery.cluster.kubectl(&["get", "srel", "-n", namespace]).await?);
        }
        durations.insert(Scene::Uninstall, self.uninstall().await?);
        Ok(Told { durations, final_objects: snapshot(&last) })
    }

    /// Runs one scene, under kills if there are any, and says what it came to.
    async fn play<T>(
        &mut self,
        scene: Scene,
        action: impl Future<Output = Result<T>>,
        words: impl FnOnce(&T) -> String,
    ) -> Result<Duration> {
        let began = Instant::now();
        let timed = async {
            let outcome = action.await?;
            Ok((outcome, began.elapsed()))
        };
        let (outcome, took, moments) = match &mut self.kills {
            None => {
                let (outcome, took) = timed.await?;
                (outcome, took, Vec::new())
            }
            Some(kills) => {
                let ((outcome, took), moments) =
                    tokio::try_join!(timed, kills.strike(scene, &mut self.operator))?;
                (outcome, took, moments)
            }
        };
        let mut text = words(&outcome);
        if !moments.is_empty() {
            let moments: Vec<_> = moments.iter().map(|moment| moment.as_millis().to_string()).collect();
            text = format!("{text}; killed after {} ms", moments.join(", then "));
        }
        self.narrator.tell(text, began);
        Ok(took)
    }

    async fn install(&mut self) -> Result<Duration> {
        let api = self.releases();
        let mut sight = Sight::open(api.clone()).await?;
        let object = release::release(NAME, PACK, &json!({}))?;
        let action = async move {
            api.patch(NAME, &PatchParams::apply("kubectl"), &Patch::Apply(&object)).await?;
            ready_at(&mut sight, 1).await
        };
        self.play(Scene::Install, action, |()| format!("SherpackRelease {NAME} applied: Ready at revision 1"))
            .await
    }

    async fn scale(&mut self, deployment: DynamicObject) -> Result<Duration> {
        let name = deployment.name_any();
        let replicas = deployment.data.pointer("/spec/replicas").and_then(Value::as_i64);
        let replicas = replicas.ok_or_else(|| Failure::new(format!("Deployment {name} has no replicas")))?;
        let other = replicas + 3;
        let mut sight = Sight::open(self.api(&deployment)?).await?;
        let cluster = &self.scenery.cluster;
        let namespace = self.scenery.namespace.as_str();
        let words = format!("kubectl scale deployment/{name} --replicas={other}: back at {replicas}");
        let action = async move {
            let edit = async {
                let target = format!("deployment/{name}");
                cluster.kubectl(&["scale", "-n", namespace, &target, &format!("--replicas={other}")]).await?;
                Ok(())
            };
            let at = |count: i64| {
                let name = name.clone();
                move |change: &Change| is(change, &name, "/spec/replicas", &json!(count))
            };
            sight.put_back("the old replicas of the Deployment", LIMIT, edit, at(other), at(replicas)).await
        };
        let words = |put_back: &PutBack| {
            format!(
                "{words} {} ms after the start of kubectl, {} ms after the change was seen",
                millis(put_back.since_sent),
                millis(put_back.since_seen)
            )
        };
        self.play(Scene::Scale, action, words).await
    }

    async fn edit(&mut self, configmap: DynamicObject) -> Result<Duration> {
        let name = configmap.name_any();
        let data = configmap.data["data"].as_object().and_then(|data| data.iter().next());
        let (key, old) = data.ok_or_else(|| Failure::new(format!("ConfigMap {name} has no data")))?;
        let api = self.api(&configmap)?;
        let mut sight = Sight::open(api.clone()).await?;
        let pointer = format!("/data/{}", key.replace('~', "~0").replace('/', "~1"));
        let patch = json!({"data": {key.as_str(): "edited by hand"}});
        let old = old.clone();
        let words = format!("key {key} of configmap/{name} edited: back");
        let action = async move {
            let edit = async {
                let params =
                    PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..Default::default() };
                api.patch(&name, &params, &Patch::Merge(&patch)).await?;
                Ok(())
            };
            let edited = |change: &Change| is(change, &name, &pointer, &json!("edited by hand"));
            let restored = |change: &Change| is(change, &name, &pointer, &old);
            sight.put_back("the old text of the ConfigMap", LIMIT, edit, edited, restored).await
        };
        self.play(Scene::Edit, action, |put_back| format!("{words} {} ms later", millis(put_back.since_sent)))
            .await
    }

    async fn delete(&mut self, service: DynamicObject) -> Result<Duration> {
        let name = service.name_any();
        let api = self.api(&service)?;
        let mut sight = Sight::open(api.clone()).await?;
        let words = format!("service/{name} deleted: back");
        let action = async move {
            let edit = async {
                api.delete(&name, &DeleteParams::default()).await?;
                Ok(())
            };
            let gone = |change: &Change| change.present().is_none() && change.object().name_any() == name;
            let back = |change: &Change| {
                change.present().is_some_and(|object| {
                    object.name_any() == name && object.metadata.uid != service.metadata.uid
                })
            };
            sight.put_back("the Service", LIMIT, edit, gone, back).await
        };
        self.play(Scene::Delete, action, |put_back| {
            format!("{words} {} ms later", millis(put_back.since_sent))
        })
        .await
    }

    async fn upgrade(&mut self, before: &Snapshot) -> Result<Duration> {
        let api = self.releases();
        let mut sight = Sight::open(api.clone()).await?;
        let (client, namespace) = (self.scenery.cluster.client.clone(), self.scenery.namespace.clone());
        let before: BTreeSet<String> = before.keys().cloned().collect();
        let action = async move {
            let without_ingress = json!({"spec": {"values": {"ingress": {"enabled": false}}}});
            let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..Default::default() };
            api.patch(NAME, &params, &Patch::Merge(&without_ingress)).await?;
            ready_at(&mut sight, 2).await?;
            // Ready means pruned as well, so the first look must find it gone.
            let after = snapshot(&labelled(&client, &namespace, NAME).await?);
            let after: BTreeSet<String> = after.keys().cloned().collect();
            let gone: Vec<String> = before.difference(&after).cloned().collect();
            check(!gone.is_empty() && gone.iter().all(|title| title.starts_with("Ingress/")), || {
                format!(
                    "the upgrade should prune the Ingress and nothing else; gone: {gone:?}, left: {after:?}"
                )
            })?;
            Ok(gone.join(", "))
        };
        let words = |gone: &String| {
            format!("ingress switched off in spec.values: Ready at revision 2, {gone} pruned")
        };
        self.play(Scene::Upgrade, action, words).await
    }

    async fn uninstall(&mut self) -> Result<Duration> {
        let api = self.releases();
        let mut sight = Sight::open(api.clone()).await?;
        let (client, namespace) = (self.scenery.cluster.client.clone(), self.scenery.namespace.clone());
        let action = async move {
            api.delete(NAME, &DeleteParams::default()).await?;
            let gone = |change: &Change| {
                (change.present().is_none() && change.object().name_any() == NAME).then_some(())
            };
            sight.until("the end of the SherpackRelease", LIMIT, gone).await?;
            // What the cluster's own controllers made goes a moment later.
            let began = Instant::now();
            loop {
                let left = labelled(&client, &namespace, NAME).await?;
                if left.is_empty() {
                    return Ok(());
                }
                check(began.elapsed() < LIMIT, || {
                    let titles: Vec<_> = left.iter().map(title).collect();
                    format!("left after the uninstall: {}", titles.join(", "))
                })?;
                sleep(Duration::from_millis(50)).await;
            }
        };
        let words = format!("SherpackRelease {NAME} deleted: no object and no record is left");
        self.play(Scene::Uninstall, action, |()| words).await
    }

    /// Two revisions, each stored once.
    fn check_records(&self, objects: &[DynamicObject]) -> Result<()> {
        let records: BTreeSet<_> = objects.iter().filter(|object| is_record(object)).map(title).collect();
        let expected = ["v1", "v2"].map(|version| format!("Secret/sh.sherpack.release.v1.{NAME}.{version}"));
        check(records == BTreeSet::from(expected.clone()), || {
            format!("records {records:?} instead of {expected:?}")
        })
    }

    async fn objects(&self) -> Result<Vec<DynamicObject>> {
        labelled(&self.scenery.cluster.client, &self.scenery.namespace, NAME).await
    }

    fn releases(&self) -> Api<DynamicObject> {
        release::api(&self.scenery.cluster.client, &self.scenery.namespace)
    }

    /// The API of this object's kind.
    fn api(&self, object: &DynamicObject) -> Result<Api<DynamicObject>> {
        let types = object.types.as_ref().ok_or_else(|| Failure::new("an object without kind"))?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let client = self.scenery.cluster.client.clone();
        Ok(Api::namespaced_with(client, &self.scenery.namespace, &resource))
    }
}

/// Waits until the release is Ready at this revision; a Stalled one will never be.
async fn ready_at(sight: &mut Sight, revision: u64) -> Result<()> {
    let mut last = "no status yet".to_owned();
    let what = format!("{NAME} Ready at revision {revision}");
    let found = sight.until(&what, LIMIT, |change| {
        let object = change.present().filter(|object| object.name_any() == NAME)?;
        last = release::standing(object);
        if release::is_ready_at(object, revision) {
            return Some(Ok(()));
        }
        release::is_stalled(object).then(|| Err(Failure::new(release::standing(object))))
    });
    let found = found.await;
    found.map_err(|failure| Failure::new(format!("{failure}; {last}")))?.1
}

/// Whether the change shows this object with this value.
fn is(change: &Change, name: &str, pointer: &str, value: &Value) -> bool {
    change
        .present()
        .is_some_and(|object| object.name_any() == name && object.data.pointer(pointer) == Some(value))
}

fn named(objects: &[DynamicObject], kind: &str) -> Result<DynamicObject> {
    let of_kind = |object: &&DynamicObject| title(object).starts_with(&format!("{kind}/"));
    let found = objects.iter().filter(of_kind).min_by_key(|object| object.name_any());
    found.cloned().ok_or_else(|| Failure::new(format!("the release has no {kind}")))
}

/// Milliseconds with one digit.
fn millis(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1000.0)
}
