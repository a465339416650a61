//! The names of other namespaces that releases take: what their accounts were answered, and who is kept from them.
//!
//! Only a release that acts as an account and names another namespace is remembered here, so of others nothing is kept.
//! No answer comes without a pass. A release that is kept from a name therefore contests it: the one that has it asks again
//! in a pass of its own, and when it is refused, the others are woken.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{self, ActsAs, LockOf, Settings, SherpackRelease};
use crate::reconcile::Context;
use crate::reconcile::context::{has_finalizer, records_of};
use crate::release::name_claims::{Answer, Claimant, Named, Weight, held_by, weight};
use crate::release::{Owner, ReleaseKey};

/// What accounts were answered about names in other namespaces.
#[derive(Default)]
pub struct NameClaims {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last answers: whether granted, and for which lock if it is one.
    answers: HashMap<ReleaseKey, (bool, Option<LockOf>)>,
    /// Releases that keep another one from a name, and have not asked since.
    contested: HashSet<ReleaseKey>,
}

impl State {
    /// Takes note of an answer; `true`: others may have the name now, or have it no more. `contested`: it was asked for because
    /// of that. An answer from before says nothing about it.
    fn settle(&mut self, key: &ReleaseKey, granted: bool, lock: Option<&LockOf>, contested: bool) -> bool {
        let contested = contested && self.contested.remove(key);
        let before = self.answers.insert(key.clone(), (granted, lock.cloned()));
        let had = before.filter(|(_, of)| of.as_ref() == lock).map(|(granted, _)| granted);
        match lock {
            // A lock takes hold with the answer, one of an older release too.
            Some(_) => had != Some(granted) || (contested && !granted),
            None => !granted && (contested || had == Some(true)),
        }
    }
}

impl NameClaims {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, key: &ReleaseKey) -> Answer {
        match self.state().answers.get(key) {
            None => Answer::Unasked,
            Some((true, _)) => Answer::Granted,
            Some((false, _)) => Answer::Refused,
        }
    }

    fn has_lock(&self, key: &ReleaseKey, lock: &LockOf) -> bool {
        self.state().answers.get(key).is_some_and(|(granted, of)| *granted && of.as_ref() == Some(lock))
    }

    /// Whether a release keeps another one from its name, and has not asked since.
    pub(in crate::reconcile) fn is_contested(&self, key: &ReleaseKey) -> bool {
        self.state().contested.contains(key)
    }

    pub(in crate::reconcile) fn forget(&self, key: &ReleaseKey) {
        let mut state = self.state();
        state.answers.remove(key);
        state.contested.remove(key);
    }
}

impl Context {
    /// Takes note of what the account of a release was answered about the records that it names elsewhere.
    pub(in crate::reconcile) fn settle_claim(
        &self,
        release: &SherpackRelease,
        granted: bool,
        contested: bool,
    ) {
        let key = ReleaseKey::of(release);
        if !asked_about(&acts_as(self, release), release) {
            // It may have been another account's before.
            self.names.forget(&key);
        } else if self.names.state().settle(&key, granted, None, contested) {
            self.wake_rivals(&key, release);
        }
    }

    /// The same of a release of which nothing is asked: it takes nothing.
    pub(in crate::reconcile) fn claims_nothing(&self, release: &SherpackRelease) {
        self.settle_claim(release, false, true);
    }

    /// Takes note of what the account of a release was answered about the records that it locks.
    pub(in crate::reconcile) fn settle_lock(&self, key: &ReleaseKey, lock: &LockOf, granted: bool) {
        let news = self.names.state().settle(key, granted, Some(lock), true);
        if news {
            self.wake_locks(key, lock);
        }
    }

    /// Wakes the releases that name or lock what this one names.
    pub(in crate::reconcile) fn wake_rivals(&self, key: &ReleaseKey, release: &SherpackRelease) {
        let same = |other: &&Arc<SherpackRelease>| {
            let same_name = other.release_name() == release.release_name()
                && other.target_namespace() == release.target_namespace();
            let locks_it = api::lock_of(other).is_some_and(|lock| lock.name == release.release_name());
            (same_name || locks_it) && waits_for_names(other) && ReleaseKey::of(other) != *key
        };
        for waiting in self.releases.state().iter().filter(same) {
            self.objects.wake(&ReleaseKey::of(waiting));
        }
    }

    /// Wakes the other releases with this lock.
    pub(in crate::reconcile) fn wake_locks(&self, key: &ReleaseKey, lock: &LockOf) {
        let same = |other: &&Arc<SherpackRelease>| {
            let same = api::lock_of(other).as_ref() == Some(lock);
            same && waits_for_names(other) && ReleaseKey::of(other) != *key
        };
        for waiting in self.releases.state().iter().filter(same) {
            self.objects.wake(&ReleaseKey::of(waiting));
        }
    }

    /// Another living release that has the same target and name by the better claim, as it may be told. It has to ask again
    /// whether its account may keep the records.
    pub(in crate::reconcile) fn name_taken_by(
        &self,
        release: &SherpackRelease,
        settings: &Settings,
        head_owner: Option<&Owner>,
    ) -> Option<String> {
        let key = ReleaseKey::of(release);
        let same = |other: &&Arc<SherpackRelease>| {
            other.release_name() == settings.release_name
                && other.target_namespace() == settings.target_namespace
                && other.spec.lock.is_none()
                && ReleaseKey::of(other) != key
                && !self.was_let_go(other)
        };
        let state = self.releases.state();
        let rivals: Vec<Claimant> =
            state.iter().filter(same).map(|rival| claimant(rival, self.weight_of(rival, settings))).collect();
        let holder = held_by(&claimant(release, Weight::Full), &rivals, head_owner)?;
        let of_holder = state.iter().find(|rival| ReleaseKey::of(rival) == holder.key);
        if of_holder.is_some_and(|rival| asked_about(&acts_as(self, rival), rival)) {
            self.contest(&holder.key);
        }
        Some(self.told_of(&holder.key, settings, &key))
    }

    /// How a release may be told of another one.
    pub(in crate::reconcile) fn told_of(
        &self,
        other: &ReleaseKey,
        settings: &Settings,
        key: &ReleaseKey,
    ) -> String {
        match stays_within(settings, key) {
            Some(within) if other.namespace != within => "in another namespace".to_owned(),
            _ => other.to_string(),
        }
    }

    /// Whether a release that locks the same counts: what acts as an account has to have read the records before.
    pub(in crate::reconcile) fn lock_counts(&self, other: &SherpackRelease, lock: &LockOf) -> bool {
        !is_strange(&acts_as(self, other), other.metadata.namespace.as_deref(), lock)
            || self.names.has_lock(&ReleaseKey::of(other), lock)
    }

    /// Has a release ask once more whether its account may have what it keeps another one from.
    pub(in crate::reconcile) fn contest(&self, key: &ReleaseKey) {
        if self.names.state().contested.insert(key.clone()) {
            self.objects.wake(key);
        }
    }

    fn weight_of(&self, rival: &SherpackRelease, settings: &Settings) -> Weight {
        let theirs = Settings::without_spec(rival, &self.policy);
        // Nothing of ours is left of one that only another finalizer holds.
        let over = rival.metadata.deletion_timestamp.is_some() && !has_finalizer(&rival.metadata);
        let answer = match over {
            true => Answer::Refused,
            false if !self.policy.selects(rival) => Answer::NotAsked,
            false => self.names.answer(&ReleaseKey::of(rival)),
        };
        weight(&Named {
            acts_as_operator: theirs.acts_as == ActsAs::Operator,
            at_home: rival.metadata.namespace.as_deref() == Some(&*settings.target_namespace),
            same_records: records_of(&theirs) == records_of(settings),
            keeps_at_home: rival.metadata.namespace.as_deref() == Some(&*theirs.history_namespace),
            answer,
        })
    }
}

/// One that only the finalizer of another controller holds waits for no name: it would wake others in turn.
fn waits_for_names(release: &SherpackRelease) -> bool {
    release.metadata.deletion_timestamp.is_none() || has_finalizer(&release.metadata)
}

/// Whether the account of a release that locks records is asked about them before anything is told.
pub(in crate::reconcile) fn is_strange(acts_as: &ActsAs, namespace: Option<&str>, lock: &LockOf) -> bool {
    *acts_as != ActsAs::Operator && namespace != Some(&*lock.namespace)
}

/// The namespace beyond which messages name no release: the author of this one need not be allowed to read there. `None`:
/// the release acts as the operator, and so may its author.
pub(in crate::reconcile) fn stays_within<'k>(settings: &Settings, key: &'k ReleaseKey) -> Option<&'k str> {
    (settings.acts_as != ActsAs::Operator).then_some(&key.namespace)
}

fn acts_as(ctx: &Context, release: &SherpackRelease) -> ActsAs {
    api::acts_as(release, &ctx.policy)
}

/// Whether the account of a release is asked about its records; see
/// [`records_elsewhere`](crate::reconcile::access::records_elsewhere).
fn asked_about(acts_as: &ActsAs, release: &SherpackRelease) -> bool {
    *acts_as != ActsAs::Operator && release.metadata.namespace.as_deref() != Some(release.history_namespace())
}

fn claimant(release: &SherpackRelease, weight: Weight) -> Claimant {
    Claimant {
        key: ReleaseKey::of(release),
        from_elsewhere: release.metadata.namespace.as_deref() != Some(release.target_namespace()),
        created: release.metadata.creation_timestamp.as_ref().map(|Time(at)| *at),
        uid: release.metadata.uid.clone(),
        weight,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Installer;

    fn key() -> ReleaseKey {
        ReleaseKey { namespace: "evil".to_owned(), name: "s".to_owned() }
    }

    fn lock(name: &str) -> LockOf {
        LockOf { installer: Installer::Helm, namespace: "apps".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn others_are_woken_when_a_name_that_was_held_or_contested_is_free() {
        // What was answered before, whether it was contested, the answer, and whether others are woken.
        let rows = [
            (None, false, false, false),
            (None, true, false, true),
            (Some(true), false, false, true),
            (Some(false), false, false, false),
            (Some(true), true, true, false),
            (None, true, true, false),
        ];
        for (before, contested, granted, woken) in rows {
            let mut state = State::default();
            before.map(|before| state.settle(&key(), before, None, false));
            if contested {
                state.contested.insert(key());
            }
            assert_eq!(state.settle(&key(), granted, None, true), woken, "{before:?} {contested} {granted}");
            assert!(state.contested.is_empty());
        }
    }

    #[test]
    fn an_answer_from_before_a_contest_does_not_end_it() {
        let mut state = State::default();
        state.contested.insert(key());
        assert!(!state.settle(&key(), false, None, false));
        assert!(state.contested.contains(&key()));
        assert!(state.settle(&key(), false, None, true) && state.contested.is_empty());
    }

    #[test]
    fn a_release_that_only_another_finalizer_holds_waits_for_no_name() {
        let going = Some("2026-01-01T00:00:00Z");
        let rows = [(None, false, true), (None, true, true), (going, true, true), (going, false, false)];
        for (deleted, ours, waits) in rows {
            let finalizers = [(ours, api::names::FINALIZER), (true, "foregroundDeletion")];
            let finalizers: Vec<&str> =
                finalizers.into_iter().filter(|(there, _)| *there).map(|(_, name)| name).collect();
            let release: SherpackRelease = serde_json::from_value(serde_json::json!({
                "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
                "metadata": {"name": "web", "deletionTimestamp": deleted, "finalizers": finalizers},
                "spec": {"pack": {"path": "web"}}
            }))
            .unwrap();
            assert_eq!(waits_for_names(&release), waits, "{deleted:?} {ours}");
        }
    }

    #[test]
    fn a_lock_counts_as_what_it_was_answered_about() {
        let names = NameClaims::default();
        assert!(!names.has_lock(&key(), &lock("db")), "nothing was asked");
        assert!(names.state().settle(&key(), true, Some(&lock("db")), true));
        assert!(names.has_lock(&key(), &lock("db")) && !names.has_lock(&key(), &lock("web")));
        assert!(!names.state().settle(&key(), true, Some(&lock("db")), true));
        // It names something else now.
        assert!(names.state().settle(&key(), false, Some(&lock("web")), true));
        assert!(!names.has_lock(&key(), &lock("db")) && !names.has_lock(&key(), &lock("web")));
        names.forget(&key());
        assert!(names.state().answers.is_empty());
    }

    fn release(spec: &serde_json::Value) -> SherpackRelease {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "apps", "uid": "6f1c"}, "spec": spec
        }))
        .unwrap()
    }

    #[test]
    fn an_account_is_asked_about_what_lies_beyond_its_own_namespace() {
        let account = ActsAs::ServiceAccount("deployer".to_owned());
        let pack = || serde_json::json!({"path": "web"});
        let plain = serde_json::json!({"pack": pack()});
        let elsewhere = serde_json::json!({"pack": pack(), "history": {"namespace": "vault"}});
        let kept_at_home =
            serde_json::json!({"pack": pack(), "targetNamespace": "shop", "history": {"namespace": "apps"}});
        for (acts_as, spec, asked) in [
            (&account, &plain, false),
            (&account, &elsewhere, true),
            (&account, &kept_at_home, false),
            (&ActsAs::Nobody, &elsewhere, true),
            (&ActsAs::Operator, &elsewhere, false),
        ] {
            assert_eq!(asked_about(acts_as, &release(spec)), asked, "{acts_as:?} {spec}");
        }
        for (acts_as, namespace, strange) in [
            (&account, Some("apps"), false),
            (&account, Some("shop"), true),
            (&account, None, true),
            (&ActsAs::Nobody, Some("shop"), true),
            (&ActsAs::Operator, Some("shop"), false),
        ] {
            assert_eq!(is_strange(acts_as, namespace, &lock("db")), strange, "{acts_as:?} {namespace:?}");
        }
    }

    #[test]
    fn a_claim_from_the_namespace_of_the_target_is_no_claim_from_elsewhere() {
        for (target, from_elsewhere) in [(None, false), (Some("apps"), false), (Some("shop"), true)] {
            let spec = serde_json::json!({"pack": {"path": "web"}, "targetNamespace": target});
            let claim = claimant(&release(&spec), Weight::Sealed);
            assert_eq!(claim.from_elsewhere, from_elsewhere, "{target:?}");
            assert_eq!((claim.key.to_string(), claim.uid.as_deref()), ("apps/web".to_owned(), Some("6f1c")));
            assert_eq!((claim.created, claim.weight), (None, Weight::Sealed));
        }
    }

    #[test]
    fn an_answer_lasts_until_the_next_one_or_until_the_release_is_forgotten() {
        let names = NameClaims::default();
        assert_eq!(names.answer(&key()), Answer::Unasked);
        for (granted, answer) in [(true, Answer::Granted), (false, Answer::Refused), (true, Answer::Granted)]
        {
            names.state().settle(&key(), granted, None, false);
            assert_eq!(names.answer(&key()), answer);
        }
        names.forget(&key());
        assert_eq!(names.answer(&key()), Answer::Unasked);
    }
}
