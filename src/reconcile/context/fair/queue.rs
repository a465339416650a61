//! Who is next for what is scarce: a share for each namespace, and those that wait are served in turns of their
//! namespaces. Pure: time comes as a value, and whom to wake is asked for.
//!
//! Nothing here waits. Who gets nothing now stands in the queue; when its turn comes what it wants is *reserved* for it and
//! it is to be woken. It has to come for it within `patience`, or others get it.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::release::ReleaseKey;

/// How much there is of something, and who may have how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) struct Shares {
    pub capacity: u64,
    /// What one namespace may have at once. A single claim may be larger: it is granted to a namespace that has nothing.
    pub each: u64,
    /// So long a reservation stands.
    pub patience: Duration,
    /// What is reserved for a release whose pass has not begun yet is lent to another one of its namespace that asks meanwhile: a
    /// release that was woken may stand behind hundreds that wait for a worker. For claims of one size only.
    pub lent: bool,
}

/// What is taken, what is reserved, and who waits.
#[derive(Debug)]
pub(in crate::reconcile) struct FairQueue {
    shares: Shares,
    /// What is taken or reserved.
    total: u64,
    by_namespace: HashMap<String, u64>,
    reserved: HashMap<ReleaseKey, Reserved>,
    /// One for each namespace in which any release waits; the next one to be served first.
    lines: VecDeque<Line>,
    woken: Vec<ReleaseKey>,
}

#[derive(Debug)]
struct Reserved {
    weight: u64,
    until: Instant,
    /// The pass that runs has asked.
    asked: bool,
    /// Since when the release waits, if no pass of it runs.
    absent_since: Option<Instant>,
}

#[derive(Debug)]
struct Line {
    namespace: String,
    claims: VecDeque<Claim>,
}

#[derive(Debug)]
struct Claim {
    name: String,
    weight: u64,
    since: Instant,
    asked: bool,
}

/// What comes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum Answer {
    /// It is taken: so much has to be given back. It may be more than was asked for.
    Granted(u64),
    /// It stands in the queue.
    Waits { since: Instant },
}

impl FairQueue {
    pub(in crate::reconcile) fn new(shares: Shares) -> Self {
        Self {
            shares,
            total: 0,
            by_namespace: HashMap::new(),
            reserved: HashMap::new(),
            lines: VecDeque::new(),
            woken: Vec::new(),
        }
    }

    /// Takes what is reserved for a release, or what is free; else the release stands in the queue from now on, at the place
    /// that it has there already. More than there is counts as all of it.
    pub(in crate::reconcile) fn ask(&mut self, key: &ReleaseKey, weight: u64, now: Instant) -> Answer {
        let weight = weight.min(self.shares.capacity);
        if let Some(reserved) = self.reserved.remove(key) {
            if weight <= reserved.weight {
                // All of it: a pass asks for little before it asks for what it waited for.
                self.woken.retain(|woken| woken != key);
                return Answer::Granted(reserved.weight);
            }
            // It knows better by now what it needs, and it was its turn.
            self.free(&key.namespace, reserved.weight);
            self.stand(key, weight, now, true);
        } else if self.borrow(key, weight, now) {
            return Answer::Granted(weight);
        } else {
            self.stand(key, weight, now, false);
        }
        self.serve(now);
        if let Some(reserved) = self.reserved.remove(key) {
            self.woken.retain(|woken| woken != key);
            return Answer::Granted(reserved.weight);
        }
        Answer::Waits { since: self.claim(key).map_or(now, |claim| claim.since) }
    }

    /// Whether the pass of this release that runs has asked and got nothing.
    pub(in crate::reconcile) fn has_asked(&self, key: &ReleaseKey) -> bool {
        let lines = self.lines.iter().filter(|line| line.namespace == key.namespace);
        lines.flat_map(|line| &line.claims).any(|claim| claim.name == key.name && claim.asked)
    }

    /// What was granted is not needed any more.
    pub(in crate::reconcile) fn give_back(&mut self, namespace: &str, weight: u64, now: Instant) {
        self.free(namespace, weight);
        self.serve(now);
    }

    /// What was granted is not needed for the moment, but the pass of this release may ask for it again before it
    /// [ends](Self::end).
    pub(in crate::reconcile) fn keep(&mut self, key: &ReleaseKey, weight: u64, now: Instant) {
        self.remove_claim(key);
        let reserved =
            Reserved { weight, until: now + self.shares.patience, asked: false, absent_since: None };
        if let Some(before) = self.reserved.insert(key.clone(), reserved) {
            self.free(&key.namespace, before.weight);
        }
        self.serve(now);
    }

    /// What was granted stays reserved after the pass, which waits for something else as well.
    pub(in crate::reconcile) fn hold(&mut self, key: &ReleaseKey, weight: u64, now: Instant) {
        self.keep(key, weight, now);
        if let Some(reserved) = self.reserved.get_mut(key) {
            reserved.asked = true;
        }
    }

    /// A pass of this release is over: unless it asked and got nothing, there is nothing that it waits for.
    pub(in crate::reconcile) fn end(&mut self, key: &ReleaseKey, now: Instant) {
        if let Some(claim) = self.claim(key)
            && std::mem::take(&mut claim.asked)
        {
            return;
        }
        if let Some(reserved) = self.reserved.get_mut(key)
            && std::mem::take(&mut reserved.asked)
        {
            return;
        }
        self.forget(key, now);
    }

    /// This release wants nothing any more.
    pub(in crate::reconcile) fn forget(&mut self, key: &ReleaseKey, now: Instant) {
        self.remove_claim(key);
        if let Some(reserved) = self.reserved.remove(key) {
            self.free(&key.namespace, reserved.weight);
        }
        self.woken.retain(|woken| woken != key);
        self.serve(now);
    }

    /// Gives up the reservations that nothing came for.
    pub(in crate::reconcile) fn expire(&mut self, now: Instant) {
        let late = self.reserved.extract_if(|_, reserved| reserved.until <= now);
        for (key, reserved) in late.collect::<Vec<_>>() {
            self.free(&key.namespace, reserved.weight);
        }
        self.serve(now);
    }

    /// When there is something to [expire](Self::expire).
    pub(in crate::reconcile) fn expires_at(&self) -> Option<Instant> {
        self.reserved.values().map(|reserved| reserved.until).min()
    }

    /// The releases whose turn has come since this was last asked.
    pub(in crate::reconcile) fn take_woken(&mut self) -> Vec<ReleaseKey> {
        std::mem::take(&mut self.woken)
    }

    /// What is taken or reserved.
    #[cfg(test)]
    fn in_use(&self) -> u64 {
        self.total
    }

    /// How many releases wait.
    pub(in crate::reconcile) fn waiting(&self) -> usize {
        self.lines.iter().map(|line| line.claims.len()).sum()
    }

    fn stand(&mut self, key: &ReleaseKey, weight: u64, now: Instant, first: bool) {
        if let Some(claim) = self.claim(key) {
            (claim.weight, claim.asked) = (weight, true);
            return;
        }
        let claim = Claim { name: key.name.clone(), weight, since: now, asked: true };
        let at = self.lines.iter().position(|line| line.namespace == key.namespace);
        let at = at.unwrap_or_else(|| {
            let line = Line { namespace: key.namespace.clone(), claims: VecDeque::new() };
            self.lines.push_back(line);
            self.lines.len() - 1
        });
        match first {
            true => self.lines[at].claims.push_front(claim),
            false => self.lines[at].claims.push_back(claim),
        }
    }

    /// Takes for a release what is reserved for another one of its namespace that has not come for it yet. That one is the next
    /// in its line; once it has waited for as long as a reservation stands, nothing of it is lent any more.
    fn borrow(&mut self, key: &ReleaseKey, weight: u64, now: Instant) -> bool {
        if !self.shares.lent {
            return false;
        }
        let lends = |(of, reserved): (&ReleaseKey, &Reserved)| {
            let since = reserved.absent_since?;
            let fits = of.namespace == key.namespace && reserved.weight == weight;
            (fits && now < since + self.shares.patience).then(|| (of.clone(), since))
        };
        let Some((of, since)) = self.reserved.iter().find_map(lends) else { return false };
        self.reserved.remove(&of);
        self.remove_claim(key);
        self.stand(&of, weight, now, true);
        if let Some(claim) = self.claim(&of) {
            (claim.since, claim.asked) = (since, false);
        }
        // Its namespace has had this turn.
        let at = self.lines.iter().position(|line| line.namespace == of.namespace);
        let line = at.and_then(|at| self.lines.remove(at));
        self.lines.extend(line);
        self.serve(now);
        true
    }

    /// Reserves what is free for those that wait: of each namespace the one that waits longest, and the namespaces by turns.
    fn serve(&mut self, now: Instant) {
        while let Some(at) = self.next() {
            let Some(mut line) = self.lines.remove(at) else { return };
            if let Some(Claim { name, weight, since, asked }) = line.claims.pop_front() {
                let key = ReleaseKey { namespace: line.namespace.clone(), name };
                self.total += weight;
                *self.by_namespace.entry(line.namespace.clone()).or_default() += weight;
                let until = now + self.shares.patience;
                let absent_since = (!asked).then_some(since);
                self.reserved.insert(key.clone(), Reserved { weight, until, asked, absent_since });
                self.woken.push(key);
            }
            if !line.claims.is_empty() {
                self.lines.push_back(line);
            }
        }
    }

    /// The line whose first claim is to be granted now.
    fn next(&self) -> Option<usize> {
        for (at, line) in self.lines.iter().enumerate() {
            let Some(claim) = line.claims.front() else { continue };
            let has = self.by_namespace.get(&line.namespace).copied().unwrap_or(0);
            if has > 0 && has + claim.weight > self.shares.each {
                // It waits for its own, and keeps others from nothing.
                continue;
            }
            // Else it is its turn: smaller ones behind it must not keep it from having enough for ever.
            return (self.total + claim.weight <= self.shares.capacity).then_some(at);
        }
        None
    }

    fn claim(&mut self, key: &ReleaseKey) -> Option<&mut Claim> {
        let line = self.lines.iter_mut().find(|line| line.namespace == key.namespace)?;
        line.claims.iter_mut().find(|claim| claim.name == key.name)
    }

    fn remove_claim(&mut self, key: &ReleaseKey) {
        for line in &mut self.lines {
            if line.namespace == key.namespace {
                line.claims.retain(|claim| claim.name != key.name);
            }
        }
        self.lines.retain(|line| !line.claims.is_empty());
    }

    fn free(&mut self, namespace: &str, weight: u64) {
        self.total = self.total.saturating_sub(weight);
        if let Some(has) = self.by_namespace.get_mut(namespace) {
            *has = has.saturating_sub(weight);
            if *has == 0 {
                self.by_namespace.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
