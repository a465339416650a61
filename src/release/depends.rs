//! Who waits for whom: `spec.dependsOn` of all releases as one graph, kept as the watch of the releases tells.
//!
//! Holds nothing but releases that exist and the names they depend on. Every change says which releases have to be
//! looked at again because of it; what it costs grows with the neighbours of the changed release, not with all
//! releases. Only a change of `dependsOn` itself looks further, along the dependencies, for circles.
//!
//! # Guarantees
//! * A release whose answer to [`Graph::blocked`], [`Graph::cycle`] or [`Graph::dependents`] a change may have made
//!   another one is among the woken, unless it never asked or is the changed release itself.
//! * Releases of one circle do not wait for each other's deletion, so deletions always come to an end.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;

use jiff::Timestamp;

use super::ReleaseKey;
use crate::api::conditions::{self, ConditionStatus};
use crate::api::reasons::condition::READY;
use crate::api::{self, ActsAs, DependsOn, Policy, SherpackRelease, UninstallPolicy, names};

/// All releases and what they depend on.
#[derive(Debug, Default)]
pub struct Graph {
    releases: HashMap<ReleaseKey, Node>,
    /// Who depends on a name, whether or not there is such a release.
    dependents: HashMap<ReleaseKey, BTreeSet<ReleaseKey>>,
}

#[derive(Debug)]
struct Node {
    known: Known,
    /// When it last asked, something that it depends on was not Ready.
    blocked: bool,
    /// It is being deleted and waits for dependents, at most until then.
    awaits_until: Option<Timestamp>,
}

/// What a release shows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    depends_on: Vec<ReleaseKey>,
    /// `None`: Ready for its newest spec.
    unready: Option<Unready>,
    life: Life,
    /// It acts as the operator, so its author may hold up releases of other namespaces.
    as_operator: bool,
}

/// Where a release is between its first pass and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It does not carry our finalizer: nothing was done for it yet, or everything is undone.
    Untouched,
    Living,
    /// Being deleted, and its objects stay.
    Orphaning,
    /// Being deleted, together with its objects.
    Going,
}

/// Why a release is not ready to be depended on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unready {
    Missing,
    Deleted,
    /// Its status does not speak of its newest spec.
    Outdated,
    /// Ready is not True, for this reason.
    NotReady {
        reason: String,
    },
    /// The account of the release that waits may not get it.
    Hidden,
}

/// What a release waits for before it is installed or upgraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub by: ReleaseKey,
    pub why: Unready,
    /// So many more are not Ready.
    pub others: usize,
}

/// The releases that depend on one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependents {
    /// They are being deleted with their objects; with the time until which they wait for dependents of their own.
    pub going: BTreeMap<ReleaseKey, Option<Timestamp>>,
    /// There are some that are not being deleted.
    pub living: bool,
}

impl Known {
    /// What the graph needs of a release. Dependencies that are refused count as none.
    #[must_use]
    pub fn of(release: &SherpackRelease, policy: &Policy) -> Self {
        let metadata = &release.metadata;
        let ours = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == names::FINALIZER);
        let life = match metadata.deletion_timestamp {
            _ if !ours => Life::Untouched,
            None => Life::Living,
            Some(_) => match api::uninstall_settings(release).policy {
                UninstallPolicy::Orphan => Life::Orphaning,
                UninstallPolicy::Delete => Life::Going,
            },
        };
        let depends_on = api::dependencies(release, policy).unwrap_or_default();
        let as_operator = api::acts_as(release, policy) == ActsAs::Operator;
        Self { depends_on: keys(&depends_on), unready: unready(release), life, as_operator }
    }
}

/// The releases that are meant.
#[must_use]
pub fn keys(depends_on: &[DependsOn]) -> Vec<ReleaseKey> {
    let key = |DependsOn { namespace, name }: &DependsOn| ReleaseKey {
        namespace: namespace.clone(),
        name: name.clone(),
    };
    depends_on.iter().map(key).collect()
}

/// As kstatus judges: Ready is True, and the status speaks of the newest spec.
fn unready(release: &SherpackRelease) -> Option<Unready> {
    let metadata = &release.metadata;
    if metadata.deletion_timestamp.is_some() {
        return Some(Unready::Deleted);
    }
    let status = release.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    if observed.is_none() || observed != metadata.generation {
        return Some(Unready::Outdated);
    }
    match status.and_then(|status| conditions::find(&status.conditions, READY)) {
        Some(ready) if ready.status == ConditionStatus::True.as_str() => None,
        Some(ready) => Some(Unready::NotReady { reason: ready.reason.clone() }),
        None => Some(Unready::Outdated),
    }
}

impl Graph {
    /// Takes note of a release as it is now; gives the releases to look at again.
    pub fn saw(&mut self, release: &ReleaseKey, known: Known) -> BTreeSet<ReleaseKey> {
        let before = self.releases.get(release).map(|node| node.known.clone());
        if before.as_ref() == Some(&known) {
            return BTreeSet::new();
        }
        let after = known.clone();
        match self.releases.get_mut(release) {
            Some(node) if node.known.depends_on == known.depends_on => {
                node.known = known;
                self.woken(release, before.as_ref(), Some(&after))
            }
            _ => {
                let mut woken = self.circle(release);
                self.unlink(release);
                for other in &known.depends_on {
                    self.dependents.entry(other.clone()).or_default().insert(release.clone());
                }
                let (blocked, awaits_until) = self
                    .releases
                    .remove(release)
                    .map_or((false, None), |node| (node.blocked, node.awaits_until));
                self.releases.insert(release.clone(), Node { known, blocked, awaits_until });
                woken.extend(self.circle(release));
                woken.extend(self.woken(release, before.as_ref(), Some(&after)));
                woken.remove(release);
                woken
            }
        }
    }

    /// Takes note that a release is gone; gives the releases to look at again.
    pub fn lost(&mut self, release: &ReleaseKey) -> BTreeSet<ReleaseKey> {
        let mut woken = self.circle(release);
        self.unlink(release);
        let Some(node) = self.releases.remove(release) else { return BTreeSet::new() };
        woken.extend(self.woken(release, Some(&node.known), None));
        woken.remove(release);
        woken
    }

    /// Every release that is there.
    pub fn releases(&self) -> impl Iterator<Item = &ReleaseKey> {
        self.releases.keys()
    }

    /// What stands in the way of installing or upgrading `release`, which depends on `depends_on`. Until it asks
    /// again, a change of these wakes it.
    pub fn blocked(&mut self, release: &ReleaseKey, depends_on: &[ReleaseKey]) -> Option<Blocked> {
        let mut unready = depends_on.iter().filter_map(|other| {
            let why = match self.releases.get(other) {
                None => Unready::Missing,
                Some(node) => node.known.unready.clone()?,
            };
            Some((other.clone(), why))
        });
        let first = unready.next();
        let others = unready.count();
        if let Some(node) = self.releases.get_mut(release) {
            node.blocked = first.is_some();
        }
        first.map(|(by, why)| Blocked { by, why, others })
    }

    /// The shortest circle of dependencies that `release` is part of, from it back to it.
    #[must_use]
    pub fn cycle(&self, release: &ReleaseKey) -> Option<Vec<ReleaseKey>> {
        if !self.dependents.contains_key(release) {
            return None;
        }
        let mut found_from: HashMap<&ReleaseKey, &ReleaseKey> = HashMap::new();
        let mut next = VecDeque::from([release]);
        while let Some(at) = next.pop_front() {
            for other in self.depends_on(at) {
                if other == release {
                    let mut path = vec![other.clone(), at.clone()];
                    let mut step = at;
                    while let Some(from) = found_from.get(step) {
                        path.push((*from).clone());
                        step = from;
                    }
                    path.reverse();
                    return Some(path);
                }
                if let Entry::Vacant(entry) = found_from.entry(other) {
                    entry.insert(at);
                    next.push_back(other);
                }
            }
        }
        None
    }

    /// Who depends on `release`, apart from those that it depends on itself. A release of another namespace counts only
    /// when it acts as the operator: anyone may write down any dependency, and so hold up its deletion.
    #[must_use]
    pub fn dependents(&self, release: &ReleaseKey) -> Dependents {
        let mut found = Dependents::default();
        let Some(dependents) = self.dependents.get(release) else { return found };
        let below = self.reached(release, |at| self.depends_on(at));
        for dependent in dependents.iter().filter(|dependent| !below.contains(dependent)) {
            let Some(node) = self.releases.get(dependent) else { continue };
            if dependent.namespace != release.namespace && !node.known.as_operator {
                continue;
            }
            match node.known.life {
                Life::Going => {
                    found.going.insert(dependent.clone(), node.awaits_until);
                }
                Life::Living => found.living = true,
                Life::Untouched | Life::Orphaning => {}
            }
        }
        found
    }

    /// Takes note until when a release that is being deleted waits for its dependents, `None` when it does not or not
    /// any more; gives the releases to look at again.
    pub fn awaits(&mut self, release: &ReleaseKey, until: Option<Timestamp>) -> BTreeSet<ReleaseKey> {
        let Some(node) = self.releases.get_mut(release) else { return BTreeSet::new() };
        let before = std::mem::replace(&mut node.awaits_until, until);
        if before.is_some() && until.is_none() {
            self.going(self.depends_on(release)).cloned().collect()
        } else {
            BTreeSet::new()
        }
    }

    /// Whom a change of `release` concerns, circles apart.
    fn woken(
        &self,
        release: &ReleaseKey,
        before: Option<&Known>,
        after: Option<&Known>,
    ) -> BTreeSet<ReleaseKey> {
        let mut woken = BTreeSet::new();
        let shows = |known: Option<&Known>| known.map(|known| known.unready.clone());
        if shows(before) != shows(after) {
            let dependents = self.dependents.get(release).into_iter().flatten();
            let blocked = |other: &&ReleaseKey| self.releases.get(*other).is_some_and(|node| node.blocked);
            woken.extend(dependents.filter(blocked).cloned());
        }
        let life = |known: Option<&Known>| known.map_or(Life::Untouched, |known| known.life);
        let [old, new] = [before, after].map(|known| known.map_or(&[][..], |known| &known.depends_on));
        let trusted = |known: Option<&Known>| known.is_some_and(|known| known.as_operator);
        if life(before) != life(after) || trusted(before) != trusted(after) || old != new {
            woken.extend(self.going(old.iter().chain(new)).cloned());
        }
        woken
    }

    /// Those of `releases` that are being deleted and may wait for dependents.
    fn going<'g>(
        &'g self,
        releases: impl IntoIterator<Item = &'g ReleaseKey>,
    ) -> impl Iterator<Item = &'g ReleaseKey> {
        let going = move |key: &&'g ReleaseKey| {
            self.releases.get(*key).is_some_and(|node| node.known.life == Life::Going)
        };
        releases.into_iter().filter(going)
    }

    /// All releases of all circles that `release` is part of; empty when it is part of none.
    fn circle(&self, release: &ReleaseKey) -> BTreeSet<ReleaseKey> {
        if !self.dependents.contains_key(release) {
            return BTreeSet::new();
        }
        let below = self.reached(release, |at| self.depends_on(at));
        if !below.contains(release) {
            return BTreeSet::new();
        }
        let above = self.reached(release, |at| self.dependents.get(at).into_iter().flatten());
        below.intersection(&above).map(|key| (*key).clone()).collect()
    }

    /// Everything that `step` leads to from `release`; `release` itself only if it leads back to it.
    fn reached<'g, I>(
        &'g self,
        release: &'g ReleaseKey,
        step: impl Fn(&'g ReleaseKey) -> I,
    ) -> HashSet<&'g ReleaseKey>
    where
        I: IntoIterator<Item = &'g ReleaseKey>,
    {
        let mut reached = HashSet::new();
        let mut next = vec![release];
        while let Some(at) = next.pop() {
            for other in step(at) {
                if reached.insert(other) {
                    next.push(other);
                }
            }
        }
        reached
    }

    fn depends_on(&self, release: &ReleaseKey) -> &[ReleaseKey] {
        self.releases.get(release).map_or(&[], |node| &node.known.depends_on)
    }

    fn unlink(&mut self, release: &ReleaseKey) {
        let Some(node) = self.releases.get(release) else { return };
        for other in &node.known.depends_on {
            if let Some(dependents) = self.dependents.get_mut(other) {
                dependents.remove(release);
                if dependents.is_empty() {
                    self.dependents.remove(other);
                }
            }
        }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, why, others } = self;
        match why {
            Unready::Missing => write!(out, "waits for the release {by}, which does not exist")?,
            Unready::Deleted => write!(out, "waits for the release {by}, which is being deleted")?,
            Unready::Outdated => {
                write!(out, "waits for the release {by}, which is not Ready for its newest spec yet")?;
            }
            Unready::Hidden => {
                write!(out, "waits for the release {by}, which the service account may not get")?;
            }
            Unready::NotReady { reason } => {
                write!(out, "waits for the release {by}, which is not Ready: {reason}")?;
            }
        }
        if *others > 0 { write!(out, " (and for {others} more)") } else { Ok(()) }
    }
}

#[cfg(test)]
#[path = "depends_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "depends_properties.rs"]
mod properties;
