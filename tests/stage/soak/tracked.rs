//! What is known of one release: what was asked, and what may therefore be found.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kube::api::DynamicObject;
use serde_json::Value;

use super::wish::{Id, Settings, Traits, Wish};
use crate::objects::text;
use crate::release::condition;

/// So many steps of a release are told when something is wrong.
const TOLD: usize = 14;

/// An object that a person made before the release had it.
pub(super) struct Hand {
    pub(super) kind: &'static str,
    pub(super) uid: String,
    /// As a person said it.
    pub(super) said: Value,
    /// A revision with it may have been deployed, so it may go with the release.
    pub(super) deployed: bool,
}

pub(super) struct Tracked {
    pub(super) traits: Traits,
    /// The newest wish; of a deleted release the last one.
    pub(super) wish: Wish,
    pub(super) settings: Settings,
    pub(super) present: bool,
    /// All wishes that were made, for what the cluster may show.
    pub(super) wishes: BTreeMap<Id, Wish>,
    /// Good wishes that may be the deployed one.
    pub(super) possible: BTreeSet<Id>,
    /// Revisions that were seen deployed since the release was made.
    pub(super) revisions: BTreeMap<u32, Id>,
    pub(super) hands: Vec<Hand>,
    /// It came to rest at the end of the last round with a deployed revision.
    pub(super) at_rest: bool,
    pub(super) steps: VecDeque<String>,
}

impl Tracked {
    pub(super) fn new(traits: Traits, wish: Wish) -> Self {
        let settings = Settings::default();
        let (wishes, possible) = (BTreeMap::new(), BTreeSet::new());
        let revisions = BTreeMap::new();
        let (hands, steps) = (Vec::new(), VecDeque::new());
        Self {
            traits,
            wish,
            settings,
            present: false,
            wishes,
            possible,
            revisions,
            hands,
            at_rest: true,
            steps,
        }
    }

    pub(super) fn tell(&mut self, step: String) {
        self.steps.push_back(step);
        if self.steps.len() > TOLD {
            self.steps.pop_front();
        }
    }

    /// Notes a wish before it is sent: from then on the cluster may show it.
    pub(super) fn ask(&mut self, wish: Wish) {
        if wish.is_good() {
            self.possible.insert(wish.id());
            if wish.hands {
                self.hands.iter_mut().for_each(|hand| hand.deployed = true);
            }
        }
        self.wishes.insert(wish.id(), wish.clone());
        self.wish = wish;
    }

    /// Notes that an earlier revision is asked for.
    pub(super) fn pin(&mut self, revision: u32) {
        if let Some(id) = self.revisions.get(&revision).copied() {
            self.possible.insert(id);
        }
        // The revision may hold them.
        self.hands.iter_mut().for_each(|hand| hand.deployed = true);
        self.settings.rollback_to = Some(revision);
    }

    /// Whether anything that may be deployed or wanted holds the objects made by hand.
    pub(super) fn may_hold_hands(&self) -> bool {
        let held = |id: &Id| self.wishes.get(id).is_some_and(|wish| wish.hands);
        self.settings.rollback_to.is_some() || self.wish.hands || self.possible.iter().any(held)
    }
}

/// What the status of a release says.
pub(super) struct Said<'a> {
    pub(super) ready: &'a str,
    pub(super) reason: &'a str,
    /// The newest revision and its state.
    pub(super) head: Option<(u32, &'a str)>,
    pub(super) ever_deployed: bool,
    /// Nothing is under way and the newest spec was looked at.
    pub(super) rests: bool,
}

pub(super) fn said(release: &DynamicObject) -> Said<'_> {
    let status = &release.data["status"];
    let ready = condition(release, "Ready");
    let of = |field: &str| ready.map_or("", |ready| text(&ready[field]));
    let history = status["history"].as_array().map(Vec::as_slice).unwrap_or_default();
    let entry = |entry: &'static str, value: &Value| value[entry].as_u64().unwrap_or_default() as u32;
    let newest = history.iter().max_by_key(|value| entry("revision", value));
    let observed = status["observedGeneration"].as_i64();
    let seen = observed == release.metadata.generation;
    let reconciling =
        condition(release, "Reconciling").is_some_and(|reconciling| reconciling["status"] == "True");
    Said {
        ready: of("status"),
        reason: of("reason"),
        head: newest.map(|newest| (entry("revision", newest), text(&newest["state"]))),
        ever_deployed: history.iter().any(|old| {
            matches!(text(&old["state"]).to_ascii_lowercase().as_str(), "deployed" | "superseded")
        }),
        rests: seen && status["operation"].is_null() && !reconciling && ready.is_some(),
    }
}
