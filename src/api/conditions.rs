//! Builds and merges the conditions of a status, without a clock.
//!
//! Invariant: [`summarize`] leaves Ready, Reconciling and Stalled such that kstatus and a human read one and the same
//! answer: Ready=True stands alone, and Reconciling or Stalled carries Ready's own reason and message.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::reasons::condition::{READY, RECONCILING, STALLED};
use super::schema::{
    DriftStatus, DriftedObject, HistoryEntry, OperationStatus, SherpackReleaseStatus, WaitingFor,
};
pub use super::text::{MESSAGE_MAX, clip, cut};

/// Value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Not known yet.
    Unknown,
}

impl ConditionStatus {
    /// The word of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Where a release stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As wanted: Ready=True and nothing else.
    Ready,
    /// Work is being done: Ready=Unknown, Reconciling=True.
    Progressing,
    /// It failed and will be tried again by itself: Ready=False, Reconciling=True.
    Retrying,
    /// Held back on purpose (suspended, paused, another tool at work): Ready=False and nothing else.
    Held,
    /// Nothing moves until a user changes something: Ready=False, Stalled=True.
    Stalled,
}

/// Sets one condition. Its `lastTransitionTime` moves to `now` only when the status changes; a message longer than
/// [`MESSAGE_MAX`] is clipped.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Timestamp,
) {
    let mut condition = Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: clip(message),
        observed_generation,
        last_transition_time: Time(now),
    };
    match conditions.iter_mut().find(|old| old.type_ == type_) {
        Some(old) => {
            if old.status == condition.status {
                condition.last_transition_time = old.last_transition_time.clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Removes a condition.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// The condition of that type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and True.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

/// Sets Ready, Reconciling and Stalled together; all that are present carry the same reason and message.
pub fn summarize(
    conditions: &mut Vec<Condition>,
    standing: Standing,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Timestamp,
) {
    let (ready, companion) = match standing {
        Standing::Ready => (ConditionStatus::True, None),
        Standing::Progressing => (ConditionStatus::Unknown, Some(RECONCILING)),
        Standing::Retrying => (ConditionStatus::False, Some(RECONCILING)),
        Standing::Held => (ConditionStatus::False, None),
        Standing::Stalled => (ConditionStatus::False, Some(STALLED)),
    };
    set(conditions, READY, ready, reason, message, observed_generation, now);
    for type_ in [RECONCILING, STALLED] {
        if companion == Some(type_) {
            set(conditions, type_, ConditionStatus::True, reason, message, observed_generation, now);
        } else {
            remove(conditions, type_);
        }
    }
}

/// Whether two statuses say the same, times apart. A status that differs in nothing but time is not written.
#[must_use]
pub fn same_but_time(a: &SherpackReleaseStatus, b: &SherpackReleaseStatus) -> bool {
    without_times(a.clone()) == without_times(b.clone())
}

/// The status with every time taken out. Types that hold a time are written out, so that a new one cannot be
/// forgotten.
#[must_use]
pub fn without_times(mut status: SherpackReleaseStatus) -> SherpackReleaseStatus {
    status.conditions.iter_mut().for_each(|condition| {
        condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
    });
    for entry in &mut status.history {
        let HistoryEntry {
            revision: _,
            state: _,
            action: _,
            pack: _,
            version: _,
            values_digest: _,
            manifest_digest: _,
            at,
            message: _,
            hooks: _,
        } = entry;
        *at = None;
    }
    if let Some(operation) = &mut status.operation {
        let OperationStatus {
            action: _,
            revision: _,
            phase: _,
            wave: _,
            waves: _,
            step: _,
            steps: _,
            started_at,
            deadline,
            attempt: _,
            waiting_for,
        } = operation;
        (*started_at, *deadline) = (None, None);
        for waiting in waiting_for {
            let WaitingFor { object: _, state: _, ready: _, desired: _, reason: _, since } = waiting;
            *since = None;
        }
    }
    if let Some(drift) = &mut status.drift {
        let DriftStatus { count: _, last_reverted_at, contended: _, objects } = drift;
        *last_reverted_at = None;
        for drifted in objects {
            let DriftedObject { object: _, paths: _, manager: _, action: _, at } = drifted;
            *at = None;
        }
    }
    status
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
