//! What the stories are about: one release, its records, the objects of a cluster, and who made them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::promises::Truth;
use crate::api::names;
use crate::manifest::{Object, ObjectId};
use crate::plan::{self, Parts};
use crate::release::{Private, State};

/// Places of a pack: each holds nothing, an object, or, if it is a Job, a hook.
pub(super) const PLACES: usize = 6;

/// Kind and name of each place; what it is as a hook.
const SHAPES: [(&str, &str, &str, &str); PLACES] = [
    ("v1", "ConfigMap", "settings", ""),
    ("apps/v1", "Deployment", "web", ""),
    ("v1", "PersistentVolumeClaim", "data", ""),
    ("v1", "Secret", "token", ""),
    ("batch/v1", "Job", "seed", "pre-install,pre-upgrade,pre-rollback,pre-delete"),
    ("batch/v1", "Job", "check", "post-install,post-upgrade,post-rollback"),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Item {
    #[default]
    Nothing,
    /// With this value.
    Object(u8),
    Hook,
}

pub(super) const VALUES: u8 = 3;

pub(super) type Items = [Item; PLACES];

/// Whether there can be such a hook.
pub(super) fn is_job(place: usize) -> bool {
    !SHAPES[place].3.is_empty()
}

fn made(place: usize, item: Item) -> Option<Object> {
    let (api_version, kind, name, phases) = SHAPES[place];
    let mut body = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "apps"},
    });
    match item {
        Item::Nothing => return None,
        Item::Object(value) => body["spec"] = json!({"value": value}),
        Item::Hook => {
            let failure = if name == "check" { "rollback" } else { "fail" };
            body["metadata"]["annotations"] = json!({
                names::HOOK: phases,
                names::HOOK_DELETE_POLICY: "before-hook-creation,hook-succeeded",
                names::HOOK_FAILURE_POLICY: failure,
            });
        }
    }
    Some(Object::from_value(body).unwrap())
}

/// The objects and hooks of a pack.
pub(super) fn parts_of(items: Items) -> Parts {
    static MADE: OnceLock<BTreeMap<(usize, Item), Object>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let items = (0..VALUES).map(Item::Object).chain([Item::Hook]);
        let all = items.flat_map(|item| (0..PLACES).map(move |place| (place, item)));
        all.filter_map(|(place, item)| Some(((place, item), made(place, item)?))).collect()
    });
    let wanted = items.into_iter().enumerate();
    plan::split(wanted.filter_map(|which| made.get(&which).cloned()).collect()).unwrap()
}

pub(super) fn id_of(place: usize) -> ObjectId {
    static IDS: OnceLock<Vec<ObjectId>> = OnceLock::new();
    let ids = IDS.get_or_init(|| (0..PLACES).map(|place| made(place, Item::Object(0)).unwrap().id).collect());
    ids[place].clone()
}

pub(super) fn place_of(id: &ObjectId) -> usize {
    SHAPES.iter().position(|(_, _, name, _)| *name == id.name).unwrap()
}

/// What the manifest says that an object is to hold.
pub(super) fn value_of(object: &Object) -> u8 {
    object.body.pointer("/spec/value").and_then(serde_json::Value::as_u64).map_or(0, |value| value as u8)
}

/// One object of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub uid: String,
    pub value: u8,
    pub annotations: BTreeMap<String, String>,
    /// No writer but a person has made it, and not in the place of what the release had made.
    pub was_there_before: bool,
    /// A revision with it was deployed, so it is the release's own, unless it holds data.
    pub owned: bool,
}

impl Live {
    pub(super) fn meta(&self) -> ObjectMeta {
        let (annotations, uid) = (Some(self.annotations.clone()), Some(self.uid.clone()));
        ObjectMeta { annotations, uid, ..ObjectMeta::default() }
    }
}

/// What keeps a spec from being rolled out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trouble {
    #[default]
    None,
    /// A field says nothing sensible.
    Invalid,
    /// The pack is not there.
    Source,
    /// The pack does not render, or a change of a definition is refused.
    Render,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub items: Items,
    pub trouble: Trouble,
    pub paused: bool,
    pub suspended: bool,
    pub rollback_to: Option<u32>,
    pub adopt: bool,
    pub retries: u32,
    pub uninstall_on_failure: bool,
    pub rollback_on_failure: bool,
    pub limit: usize,
}

/// What the operator has written into the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub revision: u32,
    pub writes: u64,
    pub history: BTreeSet<u32>,
    pub reset_handled: Option<u32>,
    /// Nothing is left of the release but its records.
    pub past_objects: bool,
    /// The digest by which a record in doubt can be accepted.
    pub doubtful: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Release {
    pub uid: String,
    pub generation: i64,
    pub spec: Spec,
    pub reset_at: Option<u32>,
    pub accept: Option<String>,
    pub deleting: bool,
    pub status: Status,
}

/// A revision record.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub revision: u32,
    pub state: State,
    /// Another tool's record has none.
    pub private: Option<Private>,
    /// The key of its seal.
    pub key: u32,
    pub items: Items,
    /// It says to be the newest one.
    pub head: bool,
    /// Which object it is: one that is restored is another.
    pub uid: u64,
    pub resource_version: u64,
}

/// A backup of the release and its records. Objects are not in it.
pub(super) struct Backup {
    pub release: Release,
    pub records: BTreeMap<u32, Stored>,
}

pub(super) struct World {
    pub now: i64,
    pub clock: u64,
    pub live: BTreeMap<ObjectId, Live>,
    pub records: BTreeMap<u32, Stored>,
    /// Every state that a record has had.
    pub states: Vec<Stored>,
    pub release: Option<Release>,
    /// The key with which the operator seals, and all that it has.
    pub key: u32,
    pub keys: BTreeSet<u32>,
    /// Places whose object does not get healthy, or whose hook does not end.
    pub sick: BTreeSet<usize>,
    /// Places whose object the API server refuses.
    pub refused: BTreeSet<usize>,
    /// Places whose hook fails.
    pub failing: BTreeSet<usize>,
    pub backup: Option<Backup>,
    /// Writes after which the operator dies.
    pub writes_left: Option<u32>,
    /// Writes of the operator so far.
    pub written: u64,
    pub truth: Truth,
}

/// The operator is dead, or a promise is broken and the story over.
pub(super) struct Died;

impl World {
    pub(super) fn new(spec: Spec) -> Self {
        let mut world = Self {
            now: 1_000_000,
            clock: 0,
            live: BTreeMap::new(),
            records: BTreeMap::new(),
            states: Vec::new(),
            release: None,
            key: 1,
            keys: BTreeSet::from([1]),
            sick: BTreeSet::new(),
            refused: BTreeSet::new(),
            failing: BTreeSet::new(),
            backup: None,
            writes_left: None,
            written: 0,
            truth: Truth::default(),
        };
        world.create(spec);
        world
    }

    pub(super) fn create(&mut self, spec: Spec) {
        let uid = format!("release-{}", self.tick());
        let status = Status::default();
        let (generation, reset_at, accept, deleting) = (1, None, None, false);
        self.release = Some(Release { uid, generation, spec, reset_at, accept, deleting, status });
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A writer that puts something into the cluster gets a uid for it.
    pub(super) fn make(&mut self, id: &ObjectId, value: u8, was_there_before: bool) -> &mut Live {
        let uid = format!("object-{}", self.tick());
        let live = Live { uid, value, annotations: BTreeMap::new(), was_there_before, owned: false };
        self.live.insert(id.clone(), live);
        self.live.get_mut(id).unwrap()
    }

    /// One write of the operator is done.
    pub(super) fn written(&mut self) -> Result<(), Died> {
        self.written += 1;
        if self.truth.broken.is_some() {
            return Err(Died);
        }
        match &mut self.writes_left {
            Some(0 | 1) => Err(Died),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn newest(&self) -> Option<&Stored> {
        self.records.values().next_back()
    }

    /// Whether the operator can prove that it wrote a record.
    pub(super) fn is_sealed(&self, stored: &Stored) -> bool {
        stored.private.is_some() && self.keys.contains(&stored.key)
    }
}
