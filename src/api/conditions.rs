//! Builds and merges the conditions of a status, without a clock.
//!
//! Invariant: [`summarize`] leaves Ready, Reconciling and Stalled such that kstatus and a human read one and the same
//! answer: Ready=True stands alone, and Reconciling or Stalled carries Ready's own reason and message.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::reasons::condition::{READY, RECONCILING, STALLED};
use super::status::{
    DriftStatus, DriftedObject, HistoryEntry, OperationStatus, SherpackReleaseStatus, WaitingFor,
};

/// Longest message of a condition, in bytes.
pub const MESSAGE_MAX: usize = 1024;

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
    /// Nothing moves until somebody changes something: Ready=False, Stalled=True.
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
    set(
        conditions,
        READY,
        ready,
        reason,
        message,
        observed_generation,
        now,
    );
    for type_ in [RECONCILING, STALLED] {
        if companion == Some(type_) {
            set(
                conditions,
                type_,
                ConditionStatus::True,
                reason,
                message,
                observed_generation,
                now,
            );
        } else {
            remove(conditions, type_);
        }
    }
}

/// At most [`MESSAGE_MAX`] bytes of a text, cut between characters; a cut is shown by an ellipsis.
#[must_use]
pub fn clip(message: &str) -> String {
    const ELLIPSIS: char = '…';
    if message.len() <= MESSAGE_MAX {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(MESSAGE_MAX - ELLIPSIS.len_utf8());
    let mut clipped = message[..end].to_owned();
    clipped.push(ELLIPSIS);
    clipped
}

/// Whether two statuses say the same, times apart. A status that differs in nothing but time is not written.
#[must_use]
pub fn same_but_time(a: &SherpackReleaseStatus, b: &SherpackReleaseStatus) -> bool {
    without_times(a.clone()) == without_times(b.clone())
}

/// The status with every time taken out. Types that hold a time are written out, so that a new one cannot be
/// forgotten.
fn without_times(mut status: SherpackReleaseStatus) -> SherpackReleaseStatus {
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
            let WaitingFor {
                object: _,
                state: _,
                ready: _,
                desired: _,
                reason: _,
                since,
            } = waiting;
            *since = None;
        }
    }
    if let Some(drift) = &mut status.drift {
        let DriftStatus {
            count: _,
            last_reverted_at,
            contended: _,
            objects,
        } = drift;
        *last_reverted_at = None;
        for drifted in objects {
            let DriftedObject {
                object: _,
                paths: _,
                manager: _,
                action: _,
                at,
            } = drifted;
            *at = None;
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::super::reasons;
    use super::*;
    use crate::api::{PackStatus, PlanStatus};
    use proptest::prelude::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn later(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a time")
    }

    fn trio(conditions: &[Condition]) -> [Option<&str>; 3] {
        [READY, RECONCILING, STALLED].map(|type_| find(conditions, type_).map(|c| c.status.as_str()))
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let mut step = |status, reason: &str, at| {
            set(&mut conditions, READY, status, reason, "m", Some(1), at);
            (
                conditions[0].last_transition_time.0,
                conditions[0].reason.clone(),
                conditions.len(),
            )
        };
        assert_eq!(step(ConditionStatus::False, "A", START), (START, "A".into(), 1));
        assert_eq!(
            step(ConditionStatus::False, "B", later(5)),
            (START, "B".into(), 1)
        );
        assert_eq!(
            step(ConditionStatus::True, "C", later(9)),
            (later(9), "C".into(), 1)
        );
    }

    #[test]
    fn each_standing_gives_one_combination_of_ready_reconciling_and_stalled() {
        let (yes, no, unknown) = (Some("True"), Some("False"), Some("Unknown"));
        let cases = [
            (Standing::Ready, [yes, None, None]),
            (Standing::Progressing, [unknown, yes, None]),
            (Standing::Retrying, [no, yes, None]),
            (Standing::Held, [no, None, None]),
            (Standing::Stalled, [no, None, yes]),
        ];
        // From every standing to every other: nothing of the old one is left.
        for (before, _) in cases {
            for (after, expected) in cases {
                let mut conditions = Vec::new();
                summarize(&mut conditions, before, "Before", "before", Some(1), START);
                summarize(&mut conditions, after, "After", "after", Some(2), START);
                assert_eq!(trio(&conditions), expected, "{before:?} to {after:?}");
                for condition in &conditions {
                    assert_eq!(
                        (condition.reason.as_str(), condition.message.as_str()),
                        ("After", "after")
                    );
                    assert_eq!(condition.observed_generation, Some(2));
                }
            }
        }
    }

    #[test]
    fn other_conditions_are_left_alone() {
        let mut conditions = Vec::new();
        let healthy = reasons::condition::HEALTHY;
        set(
            &mut conditions,
            healthy,
            ConditionStatus::True,
            reasons::HEALTHY,
            "",
            None,
            START,
        );
        summarize(
            &mut conditions,
            Standing::Stalled,
            reasons::INVALID_SPEC,
            "bad",
            None,
            START,
        );
        assert!(is_true(&conditions, healthy));
        remove(&mut conditions, healthy);
        assert!(!is_true(&conditions, healthy));
        assert!(!is_true(&conditions, READY));
    }

    proptest! {
        #[test]
        fn a_message_is_clipped_between_characters(text in "[aé…𝄞]{0,700}") {
            let clipped = clip(&text);
            prop_assert!(clipped.len() <= MESSAGE_MAX);
            if text.len() <= MESSAGE_MAX {
                prop_assert_eq!(clipped, text);
            } else {
                let kept = clipped.strip_suffix('…').expect("an ellipsis");
                prop_assert!(text.starts_with(kept));
                prop_assert!(kept.len() + '…'.len_utf8() + 4 > MESSAGE_MAX, "too much was cut");
            }
        }
    }

    /// A status in which every part is set, with all its times at `at`.
    fn full(at: Timestamp) -> SherpackReleaseStatus {
        let time = Some(Time(at));
        let mut status = SherpackReleaseStatus {
            observed_generation: Some(1),
            pack: Some(PackStatus {
                name: "web".into(),
                ..Default::default()
            }),
            history: vec![HistoryEntry {
                revision: 1,
                at: time.clone(),
                ..Default::default()
            }],
            operation: Some(OperationStatus {
                started_at: time.clone(),
                deadline: time.clone(),
                waiting_for: vec![WaitingFor {
                    since: time.clone(),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            drift: Some(DriftStatus {
                count: Some(1),
                last_reverted_at: time.clone(),
                objects: vec![DriftedObject {
                    at: time,
                    ..Default::default()
                }],
                ..Default::default()
            }),
            ..Default::default()
        };
        summarize(
            &mut status.conditions,
            Standing::Ready,
            "Deployed",
            "fine",
            Some(1),
            at,
        );
        status
    }

    #[test]
    fn a_status_that_differs_in_times_alone_is_the_same() {
        assert_ne!(full(START), full(later(60)));
        assert!(same_but_time(&full(START), &full(later(60))));
    }

    #[test]
    fn any_other_difference_makes_another_status() {
        let changes: [fn(&mut SherpackReleaseStatus); 6] = [
            |s| s.observed_generation = Some(2),
            |s| s.conditions[0].message.push('!'),
            |s| s.history[0].state = "failed".into(),
            |s| s.operation = None,
            |s| s.drift.as_mut().expect("drift").count = Some(2),
            |s| s.plan = Some(PlanStatus::default()),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = full(START);
            change(&mut changed);
            assert!(!same_but_time(&full(START), &changed), "change {number}");
        }
    }

    #[test]
    fn a_bounded_status_fits_the_schema() {
        let mut status = full(START);
        status.history = vec![
            HistoryEntry {
                message: Some("x".repeat(5000)),
                ..Default::default()
            };
            30
        ];
        let operation = status.operation.as_mut().expect("operation");
        operation.waiting_for = vec![WaitingFor::default(); 30];
        let drift = status.drift.as_mut().expect("drift");
        drift.objects = vec![
            DriftedObject {
                paths: vec![String::new(); 30],
                ..Default::default()
            };
            30
        ];
        status.bound();
        assert_eq!(status.history.len(), 20);
        assert!(
            status.history[0]
                .message
                .as_ref()
                .is_some_and(|m| m.len() <= MESSAGE_MAX)
        );
        assert_eq!(status.operation.as_ref().map(|o| o.waiting_for.len()), Some(20));
        let drift = status.drift.expect("drift");
        assert_eq!((drift.objects.len(), drift.objects[0].paths.len()), (20, 20));
    }
}
