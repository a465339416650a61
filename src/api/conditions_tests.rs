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
        (conditions[0].last_transition_time.0, conditions[0].reason.clone(), conditions.len())
    };
    assert_eq!(step(ConditionStatus::False, "A", START), (START, "A".into(), 1));
    assert_eq!(step(ConditionStatus::False, "B", later(5)), (START, "B".into(), 1));
    assert_eq!(step(ConditionStatus::True, "C", later(9)), (later(9), "C".into(), 1));
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
                assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("After", "after"));
                assert_eq!(condition.observed_generation, Some(2));
            }
        }
    }
}

#[test]
fn other_conditions_are_left_alone() {
    let mut conditions = Vec::new();
    let healthy = reasons::condition::HEALTHY;
    set(&mut conditions, healthy, ConditionStatus::True, reasons::HEALTHY, "", None, START);
    summarize(&mut conditions, Standing::Stalled, reasons::INVALID_SPEC, "bad", None, START);
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
        pack: Some(PackStatus { name: "web".into(), ..Default::default() }),
        history: vec![HistoryEntry { revision: 1, at: time.clone(), ..Default::default() }],
        operation: Some(OperationStatus {
            started_at: time.clone(),
            deadline: time.clone(),
            waiting_for: vec![WaitingFor { since: time.clone(), ..Default::default() }],
            ..Default::default()
        }),
        drift: Some(DriftStatus {
            count: Some(1),
            last_reverted_at: time.clone(),
            objects: vec![DriftedObject { at: time, ..Default::default() }],
            ..Default::default()
        }),
        ..Default::default()
    };
    summarize(&mut status.conditions, Standing::Ready, "Deployed", "fine", Some(1), at);
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
    let (long, name) = (|| "é".repeat(1 << 20), |text: &str| text.len() <= 253 && text.ends_with('…'));
    status.pack = Some(PackStatus { name: long(), version: long(), app_version: Some(long()), digest: None });
    let entry = HistoryEntry { message: Some("x".repeat(5000)), pack: Some(long()), ..Default::default() };
    status.history = vec![entry; 30];
    let operation = status.operation.as_mut().expect("operation");
    operation.waiting_for = vec![WaitingFor::default(); 30];
    let drift = status.drift.as_mut().expect("drift");
    let drifted = DriftedObject { paths: vec![long(); 30], manager: Some(long()), ..Default::default() };
    drift.objects = vec![drifted; 30];
    status.bound();
    let pack = status.pack.expect("pack");
    assert!(name(&pack.name) && name(&pack.version) && name(pack.app_version.as_ref().expect("app version")));
    assert!(name(status.history[0].pack.as_ref().expect("pack")));
    assert_eq!(status.history.len(), 20);
    assert!(status.history[0].message.as_ref().is_some_and(|m| m.len() <= MESSAGE_MAX));
    assert_eq!(status.operation.as_ref().map(|o| o.waiting_for.len()), Some(20));
    let drift = status.drift.expect("drift");
    assert_eq!((drift.objects.len(), drift.objects[0].paths.len()), (20, 20));
    assert!(name(drift.objects[0].manager.as_ref().expect("manager")));
    assert!(drift.objects[0].paths[0].len() <= MESSAGE_MAX);
}
