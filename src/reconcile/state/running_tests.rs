//! An operation between two passes: what is told of it, and what a pass takes over from the one before.

use serde_json::{Value, json};

use super::progress::Run;
use super::*;
use crate::manifest::Object;
use crate::plan::{self, Step, Wait};
use crate::release::{Action, Private, State};
use crate::storage::samples;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn object(kind: &str, name: &str, annotations: Value) -> Object {
    let metadata = json!({"name": name, "namespace": "apps", "annotations": annotations});
    Object::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap()
}

fn hook() -> Object {
    object("Pod", "migrate", json!({"sherpack.io/hook": "pre-upgrade"}))
}

fn waiting(message: &str) -> Waiting {
    Waiting::unseen("v1", message, at(0))
}

fn of(name: &str) -> BTreeMap<ObjectId, Waiting> {
    [(object("ConfigMap", name, json!({})).id, waiting("soon"))].into()
}

fn wait(deadline: Timestamp) -> Stage {
    Stage::Wait { waiting: of("a"), looked_at: at(0), deadline, jobs: BTreeSet::new() }
}

fn leaving() -> Stage {
    Stage::Leaving { leaving: of("b"), looked_at: at(0) }
}

fn hook_runs(deadline: Timestamp) -> Stage {
    let waiting = waiting("the pre-upgrade hook runs");
    Stage::Hook(Box::new(HookWatch { attempt: 1, uid: None, deadline, waiting }))
}

/// The steps are: the hook, an apply in wave 3, a wait, a deletion, and three for definitions.
fn steps() -> Vec<Step> {
    vec![
        Step::Hook { phase: plan::Phase::PreUpgrade, hook: 0 },
        Step::Apply { wave: 3, groups: vec![vec![0]] },
        Step::Wait { wave: 3, objects: vec![0], wait: Wait::Last },
        Step::Delete { wave: 5, entries: Vec::new() },
        Step::Define { definitions: vec![0], conversion: false },
        Step::AwaitServed { definitions: vec![0] },
        Step::Undefine { entries: Vec::new() },
    ]
}

/// At the first step, with its deadline at second 300.
fn running() -> Running {
    let mut record = samples::record(3);
    record.state = State::PendingUpgrade { started_at: at(0), timeout: 300, previous_version: 2 };
    let private = Private { attempt: 2, ..samples::private(3) };
    Running {
        stored: Stored::sample(record, Some(private)),
        parts: plan::split(vec![hook(), object("ConfigMap", "a", json!({}))]).unwrap(),
        bulk: Bulk::Here,
        plan: Plan { steps: steps(), waves: vec![3, 5] },
        deadline: at(300),
        started: at(-10),
        at: 0,
        saved: 0,
        applied: HashMap::new(),
        absent: BTreeSet::new(),
        hasty: false,
        handed_over: false,
        ailing: None,
        refused_since: None,
        queued_at: None,
        stage: Stage::Begin,
        untold: None,
    }
}

/// What a run waits for, by name and message.
fn waits(run: &Run) -> Vec<String> {
    run.waiting.iter().map(|(id, waiting)| format!("{id}: {}", waiting.health.message)).collect()
}

#[test]
fn each_step_has_a_word_and_only_those_with_objects_have_a_wave() {
    for (step, phase, wave, beyond) in [
        (0, "pre-upgrade", None, true),
        // The first wave, when it begins, says nothing to people.
        (1, "Apply", Some(3), false),
        (2, "Wait", Some(3), true),
        (3, "Delete", Some(5), true),
        (4, "Crds", None, true),
        (5, "Crds", None, true),
        (6, "Crds", None, true),
        // All steps are done, and what is not wanted any more goes.
        (7, "Prune", None, true),
    ] {
        let run = Run::of(&Running { at: step, ..running() }, at(15));
        assert_eq!((run.phase, run.wave, run.step), (phase, wave, step));
        assert_eq!((run.steps, run.waves), (7, 2));
        assert_eq!(run.is_beyond_the_first_wave(), beyond, "{step}");
    }
}

#[test]
fn a_run_is_told_by_what_its_record_says() {
    let private = |action, attempt| Some(Private { action, attempt, ..samples::private(3) });
    let upgrade = || State::PendingUpgrade { started_at: at(0), timeout: 300, previous_version: 2 };
    let uninstall = || State::PendingUninstall { started_at: at(0), timeout: 300 };
    for (state, private, action, attempt) in [
        (upgrade(), private(Action::Upgrade, 2), Action::Upgrade, 2),
        (upgrade(), private(Action::Rollback, 1), Action::Rollback, 1),
        (State::Deployed, private(Action::Install, 4), Action::Install, 4),
        (upgrade(), None, Action::Install, 1),
        // The record of an uninstall is that of the revision it takes away.
        (uninstall(), private(Action::Upgrade, 3), Action::Uninstall, 3),
        (uninstall(), None, Action::Uninstall, 1),
    ] {
        let mut running = running();
        running.stored.record.state = state;
        running.stored.private = private;
        let run = Run::of(&running, at(15));
        assert_eq!((run.action, run.attempt, run.revision), (action, attempt, 3));
        assert_eq!((run.started, run.until), (at(-10), at(15)));
    }
}

#[test]
fn a_run_waits_for_what_its_stage_names() {
    let migrate = "Pod apps/migrate: the pre-upgrade hook runs";
    for (step, stage, expected) in [
        (1, Stage::Begin, vec![]),
        (2, wait(at(60)), vec!["ConfigMap apps/a: soon"]),
        (1, leaving(), vec!["ConfigMap apps/b: soon"]),
        (0, hook_runs(at(60)), vec![migrate]),
        // The step under way is no hook, or there is none.
        (1, hook_runs(at(60)), vec![]),
        (7, hook_runs(at(60)), vec![]),
    ] {
        let run = Run::of(&Running { at: step, stage, ..running() }, at(15));
        assert_eq!(waits(&run), expected, "{step}");
    }
    let mut emptied = Running { stage: hook_runs(at(60)), ..running() };
    emptied.parts = Parts::default();
    assert!(waits(&Run::of(&emptied, at(15))).is_empty(), "the hook is not in memory");
}

#[test]
fn an_operation_that_never_gives_up_shows_only_the_deadline_of_its_hook() {
    let never = Timestamp::MAX;
    for (deadline, stage, shown) in [
        (at(300), Stage::Begin, Some(at(300))),
        (at(300), wait(at(60)), Some(at(300))),
        (at(300), hook_runs(at(60)), Some(at(300))),
        (never, Stage::Begin, None),
        (never, wait(at(60)), None),
        (never, leaving(), None),
        (never, hook_runs(at(60)), Some(at(60))),
    ] {
        let run = Run::of(&Running { deadline, stage, ..running() }, at(15));
        assert_eq!(run.deadline, shown);
    }
}

#[test]
fn the_time_in_a_queue_is_given_back_to_each_deadline_once() {
    let of_stage = |stage: &Stage| match stage {
        Stage::Wait { deadline, .. } => Some(*deadline),
        Stage::Hook(watch) => Some(watch.deadline),
        Stage::Begin | Stage::Leaving { .. } => None,
    };
    let never = Timestamp::MAX;
    for (queued_at, deadline, stage, operation, step) in [
        (None, at(300), wait(at(60)), at(300), Some(at(60))),
        (Some(at(10)), at(300), Stage::Begin, at(320), None),
        (Some(at(10)), at(300), leaving(), at(320), None),
        (Some(at(10)), at(300), wait(at(60)), at(320), Some(at(80))),
        (Some(at(10)), at(300), hook_runs(at(60)), at(320), Some(at(80))),
        (Some(at(30)), at(300), wait(at(60)), at(300), Some(at(60))),
        // What never ends stays so.
        (Some(at(10)), never, wait(never), never, Some(never)),
    ] {
        let mut running = Running { queued_at, deadline, stage, ..running() };
        for _ in 0..2 {
            running.add_time(at(30));
            assert_eq!((running.deadline, of_stage(&running.stage)), (operation, step), "{queued_at:?}");
            assert_eq!(running.queued_at, None);
        }
    }
}

#[test]
fn what_another_step_told_to_go_is_nothing_to_this_one() {
    let leaves = |revision, step| Leaves { revision, step };
    let pending = |of| PendingDeletion {
        going: Some(Going { of, remaining: Vec::new(), kept: BTreeSet::new(), looks: 1, look_at: at(5) }),
        stays: BTreeSet::new(),
    };
    for (of, found) in [
        (leaves(3, Some(1)), true),
        (leaves(3, Some(2)), false),
        (leaves(4, Some(1)), false),
        (leaves(3, None), false),
    ] {
        let mut deletion = pending(leaves(3, Some(1)));
        assert_eq!(deletion.going_of(of).is_some(), found, "{of:?}");
        assert!(deletion.going.is_some(), "a look takes nothing away");
        assert_eq!(deletion.take_going(of).is_some(), found, "{of:?}");
        assert!(deletion.going.is_none(), "{of:?}");
    }
    assert!(PendingDeletion::default().take_going(leaves(3, None)).is_none());
}

#[test]
fn only_a_new_request_makes_the_next_try_due() {
    let asked = |reset: Option<&str>| Requests { reset_at: reset.map(str::to_owned), ..Requests::default() };
    for (before, now, due) in [
        (None, None, false),
        (None, Some("1"), true),
        // It waits for its answer.
        (Some("1"), Some("1"), false),
        (Some("1"), Some("2"), true),
        (Some("1"), None, true),
    ] {
        let mut backoff = Backoff { requests: asked(before), retry_at: Some(at(60)), ..Backoff::default() };
        assert_eq!(backoff.take_requests(&asked(now)), asked(before));
        assert_eq!(backoff.requests, asked(now));
        assert_eq!(backoff.retry_at.is_none(), due, "{before:?} {now:?}");
    }
}
