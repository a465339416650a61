//! Drift of one release between passes: which objects are to be looked into now, and when to come back for the others.
//!
//! One rule for what the release deployed itself and for what it only locks. An object waits while it is contended
//! ([`Heat`]), while it stays changed in Warn mode, while what changes of it is never a difference ([`Noise`]), and after the
//! operator failed to put it back; the longest of these waits counts. Pure: time is a parameter.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Class, conditions};
use crate::manifest::ObjectId;
use crate::release::backoff::{self, Heat, Noise};
use crate::watch::Suspicion;

/// Drift of one release: what was put back and what is being fought over.
#[derive(Default)]
pub(in crate::reconcile) struct DriftMemory {
    heat: HashMap<ObjectId, Heat>,
    /// Objects that are written often without differing.
    noise: HashMap<ObjectId, Noise>,
    /// Objects that could not be put back.
    failing: BTreeMap<ObjectId, Failing>,
    /// Warn mode: suspicions that were looked into and stay, because nothing is put back.
    looked: HashMap<ObjectId, Looked>,
    /// Reverts, or in Warn mode findings, newest last, at most twenty.
    pub seen: Vec<Drifted>,
    pub last_reverted: Option<Timestamp>,
    /// What status and Event have not spoken of yet.
    pub unreported: Option<Unreported>,
    /// When a delayed revert may be made.
    pub revert_at: Option<Timestamp>,
    /// Reverting failed: the message.
    pub error: Option<String>,
}

/// Notes about drift that wait to be told together.
pub(in crate::reconcile) struct Unreported {
    pub count: u32,
    /// When the first one was taken.
    pub since: Timestamp,
    /// When status and Event are due.
    pub due: Timestamp,
}

/// A suspicion that was looked into.
struct Looked {
    gone: bool,
    fingerprint: Option<String>,
    version: u64,
    looks: u32,
    at: Timestamp,
}

impl Looked {
    /// What is ours of the object is as it was: only what others own has changed, if anything.
    fn as_before(&self, suspicion: &Suspicion) -> bool {
        self.gone == suspicion.gone && self.fingerprint == suspicion.fingerprint
    }
}

/// An object that could not be put back.
pub(in crate::reconcile) struct Failing {
    pub reason: &'static str,
    pub message: String,
    times: u32,
    /// No new try before this time.
    at: Timestamp,
}

/// One object that another field manager changed.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Drifted {
    pub id: ObjectId,
    pub manager: Option<String>,
    pub paths: Vec<String>,
    pub action: DriftAction,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum DriftAction {
    Reverted,
    /// Created again.
    Recreated,
    /// Left to an autoscaler or an injector from now on.
    HandedOver,
    /// Warn mode.
    Reported,
}

impl DriftAction {
    /// The word in status and events.
    #[must_use]
    pub(in crate::reconcile) fn as_str(self) -> &'static str {
        match self {
            Self::Reverted => "Reverted",
            Self::Recreated => "Recreated",
            Self::HandedOver => "HandedOver",
            Self::Reported => "Reported",
        }
    }
}

/// Entries kept in [`DriftMemory::seen`].
const DRIFT_ENTRIES: usize = 20;

impl DriftMemory {
    /// Takes note of one object; an older note of the same object goes.
    pub(in crate::reconcile) fn note(&mut self, drifted: Drifted) {
        self.seen.retain(|known| known.id != drifted.id);
        if self.seen.len() == DRIFT_ENTRIES {
            self.seen.remove(0);
        }
        self.seen.push(drifted);
    }

    /// Takes back what was reported of objects that do not differ any more.
    pub(in crate::reconcile) fn take_back(&mut self, in_order: impl Fn(&ObjectId) -> bool) {
        self.seen.retain(|seen| seen.action != DriftAction::Reported || !in_order(&seen.id));
    }

    /// Takes note that a suspicion was looked into and that nothing was written about it.
    pub(in crate::reconcile) fn looked(&mut self, suspicion: &Suspicion, now: Timestamp) {
        let before = self.looked.get(&suspicion.id).filter(|looked| looked.as_before(suspicion));
        let looks = before.map_or(1, |looked| looked.looks.saturating_add(1));
        let Suspicion { gone, fingerprint, version, .. } = suspicion.clone();
        self.looked.insert(suspicion.id.clone(), Looked { gone, fingerprint, version, looks, at: now });
    }

    /// When an object is due; `None`: now.
    fn wait_until(&self, suspicion: &Suspicion, now: Timestamp) -> Option<Timestamp> {
        let id = &suspicion.id;
        let heat = self.heat.get(id).and_then(|heat| heat.wait_until(now));
        let noise = self.noise.get(id).and_then(|noise| noise.wait_until(now));
        let failing = self.failing.get(id).map(|failing| failing.at);
        let looked = self.looked.get(id).filter(|looked| looked.as_before(suspicion));
        let look = looked.and_then(|looked| looked.at.checked_add(backoff::look(looked.looks)).ok());
        heat.max(noise).max(failing).max(look).filter(|at| now < *at)
    }

    /// Those of the suspicions that are to be looked into now; sets when to come back for the others. What was reported of
    /// objects of which there is no suspicion any more is taken back. `warn`: nothing is put back, so what was looked into
    /// stays a suspicion.
    pub(in crate::reconcile) fn due(
        &mut self,
        suspicions: Vec<Suspicion>,
        warn: bool,
        now: Timestamp,
    ) -> Vec<Suspicion> {
        self.cool(now);
        self.take_back(|reported| suspicions.iter().all(|suspicion| suspicion.id != *reported));
        self.looked.retain(|id, _| warn && suspicions.iter().any(|suspicion| suspicion.id == *id));
        let (later, due): (Vec<_>, Vec<_>) =
            suspicions.into_iter().partition(|suspicion| self.wait_until(suspicion, now).is_some());
        let news = later.iter().filter(|suspicion| !self.is_old(suspicion));
        self.revert_at = news.filter_map(|suspicion| self.wait_until(suspicion, now)).min();
        due
    }

    /// Comes back at this time, or sooner if that was wanted already.
    pub(in crate::reconcile) fn come_back_at(&mut self, at: Timestamp) {
        self.revert_at = Some(self.revert_at.map_or(at, |sooner| sooner.min(at)));
    }

    /// The object was put back.
    pub(in crate::reconcile) fn reverted(&mut self, id: &ObjectId, now: Timestamp) {
        self.heat.entry(id.clone()).or_default().reverted(now);
        self.last_reverted = Some(now);
    }

    /// The object was looked into and does not differ.
    pub(in crate::reconcile) fn false_alarm(&mut self, id: &ObjectId, now: Timestamp) {
        self.noise.entry(id.clone()).or_default().alarm(now);
    }

    /// Another writer changed the object between look and write: the next look follows at once, unless that goes on.
    pub(in crate::reconcile) fn conflicted(&mut self, id: &ObjectId, now: Timestamp) {
        let noise = self.noise.entry(id.clone()).or_default();
        noise.alarm(now);
        let at = noise.wait_until(now).unwrap_or(now);
        self.come_back_at(at);
    }

    /// The object could not be put back, for this reason and of this class.
    pub(in crate::reconcile) fn failed(
        &mut self,
        id: &ObjectId,
        reason: &'static str,
        class: Class,
        message: &str,
        now: Timestamp,
    ) {
        let times = self.failing.get(id).map_or(0, |before| before.times).saturating_add(1);
        let wait = match class {
            // No user mends a manifest in seconds; a new revision is looked at at once.
            Class::FixSpec => Duration::from_mins(1),
            Class::Retry | Class::FixCluster => backoff::error(times),
        };
        let at = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.come_back_at(at);
        self.failing.insert(id.clone(), Failing { reason, message: conditions::clip(message), times, at });
    }

    /// The object was looked into, and put back where it differed.
    pub(in crate::reconcile) fn succeeded(&mut self, id: &ObjectId) {
        self.failing.remove(id);
    }

    /// The objects that could not be put back.
    #[must_use]
    pub(in crate::reconcile) fn failing(&self) -> &BTreeMap<ObjectId, Failing> {
        &self.failing
    }

    /// Other objects are locked from now on: how those of before behaved says nothing of them.
    pub(in crate::reconcile) fn forget_behaviour(&mut self) {
        self.noise.clear();
        self.failing.clear();
    }

    /// No object is locked any more, and none is looked for.
    pub(in crate::reconcile) fn forget_objects(&mut self) {
        self.forget_behaviour();
        self.take_back(|_| true);
        self.looked.clear();
        self.revert_at = None;
    }

    /// Nothing was seen of the object since it was looked into: no need to come back for it.
    fn is_old(&self, suspicion: &Suspicion) -> bool {
        let looked = self.looked.get(&suspicion.id);
        looked.is_some_and(|looked| looked.as_before(suspicion) && looked.version == suspicion.version)
    }

    /// Objects whose reverts are being delayed.
    #[must_use]
    pub(in crate::reconcile) fn contended(&self, now: Timestamp) -> Vec<&ObjectId> {
        let mut ids: Vec<&ObjectId> =
            self.heat.iter().filter(|(_, heat)| heat.contended(now)).map(|(id, _)| id).collect();
        ids.sort();
        ids
    }

    /// When the first of them is put back at once again, if no other field manager touches it until then.
    #[must_use]
    pub(in crate::reconcile) fn contended_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.heat.values().filter(|heat| heat.contended(now)).filter_map(Heat::cold_at).min()
    }

    /// Drops what is cold.
    fn cool(&mut self, now: Timestamp) {
        self.heat.retain(|_, heat| heat.cold_at().is_some_and(|at| now < at));
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
