//! What is known of every object of a release, from its status and from the objects themselves. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{SherpackReleaseStatus, WaitingFor, conditions, reasons};
use crate::health::{Health, Status};
use crate::manifest::ObjectId;

/// How far an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Creating,
    Waiting,
    Ready,
    Failed,
    Deleted,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// `Deployment/backend`.
    pub(crate) object: String,
    pub(crate) state: State,
    /// How many of its parts are ready, and how many are wanted.
    pub(crate) parts: Option<(i64, i64)>,
    /// Why it is not Ready.
    pub(crate) why: String,
}

/// What a watch says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    There(Health),
    Gone,
}

/// Everything that is known; every change of it may change lines.
#[derive(Debug, Default)]
pub(crate) struct Board {
    namespace: String,
    /// The objects of the newest revision.
    wanted: BTreeSet<ObjectId>,
    seen: BTreeMap<ObjectId, Sight>,
    /// Objects that were there at some time.
    lived: BTreeSet<ObjectId>,
    /// By the name that the status has for them.
    waiting: BTreeMap<String, WaitingFor>,
    headline: String,
    deployed: bool,
}

impl Board {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    /// The objects of the newest revision are these.
    pub(crate) fn want(&mut self, ids: impl IntoIterator<Item = ObjectId>) {
        self.wanted = ids.into_iter().collect();
    }

    /// A watch saw an object, or that it is not there.
    pub(crate) fn see(&mut self, id: ObjectId, sight: Sight) {
        if matches!(sight, Sight::There(_)) {
            self.lived.insert(id.clone());
        }
        self.seen.insert(id, sight);
    }

    /// The objects that are not Ready as far as a watch tells, or that none has told of.
    pub(crate) fn unsettled(&self) -> Vec<ObjectId> {
        let done = |id: &ObjectId| match self.seen.get(id) {
            Some(Sight::There(health)) => health.status.is_done(),
            Some(Sight::Gone) | None => false,
        };
        self.wanted.iter().filter(|id| !done(id)).cloned().collect()
    }

    /// What the release says of itself.
    pub(crate) fn status(&mut self, status: &SherpackReleaseStatus) {
        let ready = conditions::find(&status.conditions, reasons::condition::READY);
        self.deployed = ready.is_some_and(|ready| ready.status == "True");
        let operation = status.operation.as_ref();
        self.headline = match (operation, ready) {
            (Some(operation), _) => {
                let mut text = operation.action.clone();
                if let Some(revision) = operation.revision {
                    text.push_str(&format!(" to revision {revision}"));
                }
                for (what, done, all) in
                    [("wave", operation.wave, operation.waves), ("step", operation.step, operation.steps)]
                {
                    if let (Some(done), Some(all)) = (done, all) {
                        text.push_str(&format!(", {what} {done} of {all}"));
                    }
                }
                if let Some(phase) = &operation.phase {
                    text.push_str(&format!(", {phase}"));
                }
                if let Some(attempt) = operation.attempt.filter(|attempt| *attempt > 1) {
                    text.push_str(&format!(", attempt {attempt}"));
                }
                text
            }
            (None, Some(ready)) => format!("{}: {}", ready.reason, ready.message),
            (None, None) => "not looked at yet".to_owned(),
        };
        let waiting = operation.iter().flat_map(|operation| &operation.waiting_for);
        self.waiting = waiting.map(|waiting| (waiting.object.clone(), waiting.clone())).collect();
    }

    pub(crate) fn headline(&self) -> &str {
        &self.headline
    }

    /// One line for each object, in a stable order.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let gone = self.seen.iter().filter(|(id, sight)| **sight == Sight::Gone && self.lived.contains(*id));
        let ids: BTreeSet<&ObjectId> = self.wanted.iter().chain(gone.map(|(id, _)| id)).collect();
        let known: BTreeSet<String> = ids.iter().map(|id| id.to_string()).collect();
        // What the status waits for and no list of objects names: hooks, or anything when records cannot be read.
        let others = self.waiting.values().filter(|waiting| !known.contains(&waiting.object));
        let others = others.map(|waiting| of_status(self.name_in(&waiting.object), waiting));
        ids.into_iter().map(|id| self.line(id)).chain(others).collect()
    }

    fn line(&self, id: &ObjectId) -> Line {
        let object = self.name(id);
        let waiting = self.waiting.get(&id.to_string());
        let told =
            |state, why: &str| Line { object: object.clone(), state, parts: None, why: why.to_owned() };
        match (self.seen.get(id), waiting) {
            (Some(Sight::There(health)), waiting) => {
                let mut line = of_health(object, health);
                // The operator looks at pods too.
                if let Some(waiting) = waiting.filter(|waiting| waiting.state == "Failed")
                    && line.state != State::Ready
                {
                    line.state = State::Failed;
                    line.why = waiting.reason.clone().unwrap_or_default();
                }
                line
            }
            (Some(Sight::Gone), _) if self.lived.contains(id) => told(State::Deleted, ""),
            (_, Some(waiting)) => of_status(object, waiting),
            (Some(Sight::Gone), None) => told(State::Pending, ""),
            // The command could not look: a deployed release has waited for it.
            (None, None) if self.deployed => told(State::Ready, ""),
            (None, None) => told(State::Pending, ""),
        }
    }

    fn name(&self, id: &ObjectId) -> String {
        match &id.namespace {
            Some(namespace) if *namespace != self.namespace => format!("{} ({namespace})", id.short()),
            _ => id.short(),
        }
    }

    /// [`Board::name`] of an object as the status writes it: `Deployment apps/web`.
    fn name_in(&self, text: &str) -> String {
        let Some((kind, name)) = text.split_once(' ') else { return text.to_owned() };
        match name.split_once('/') {
            Some((namespace, name)) if namespace == self.namespace => format!("{kind}/{name}"),
            Some((namespace, name)) => format!("{kind}/{name} ({namespace})"),
            None => format!("{kind}/{name}"),
        }
    }
}

fn of_health(object: String, health: &Health) -> Line {
    let parts = health.progress;
    let (state, why) = match health.status {
        Status::Current => (State::Ready, String::new()),
        Status::Suspended => (State::Ready, "suspended".to_owned()),
        Status::Failed => (State::Failed, health.message.clone()),
        Status::Terminating => (State::Waiting, "being deleted".to_owned()),
        Status::InProgress if parts.is_some() => (State::Waiting, health.message.clone()),
        Status::InProgress => (State::Creating, health.message.clone()),
    };
    Line { object, state, parts, why }
}

fn of_status(object: String, waiting: &WaitingFor) -> Line {
    let parts = waiting.ready.zip(waiting.desired);
    let why = waiting.reason.clone().unwrap_or_default();
    let (state, why) = match waiting.state.as_str() {
        "Failed" => (State::Failed, why),
        "Terminating" => (State::Waiting, "being deleted".to_owned()),
        "Current" | "Suspended" => (State::Ready, String::new()),
        _ if parts.is_some() => (State::Waiting, why),
        _ => (State::Creating, why),
    };
    Line { object, state, parts, why }
}

#[cfg(test)]
#[path = "board_tests.rs"]
pub(in crate::cli::wait) mod tests;
