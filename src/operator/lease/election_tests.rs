use super::election::*;
use super::*;

fn seconds(seconds: u64) -> Uptime {
    Duration::from_secs(seconds)
}

fn timing() -> Timing {
    Timing::new(seconds(15), seconds(10), seconds(2), seconds(4)).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn lease(version: &str, holder: Option<&str>, acquired: Option<i64>) -> View {
    View {
        version: version.to_owned(),
        holder: holder.map(str::to_owned),
        duration: Some(seconds(15)),
        acquired: acquired.map(at),
    }
}

fn fresh() -> Election {
    Election::new("me".to_owned(), timing())
}

/// One that took the lease in second 100.
fn leader() -> Election {
    let mut election = fresh();
    election.saw(seconds(100), None);
    election.claims(at(7));
    election.wrote(seconds(100), seconds(101), Written::Done(lease("1", Some("me"), Some(7))));
    election
}

fn wait(until: u64) -> Step {
    Step::Wait { until: seconds(until) }
}

fn take(version: &str) -> Step {
    Step::Take { version: version.to_owned() }
}

fn renew(version: &str) -> Step {
    Step::Renew { version: version.to_owned() }
}

/// Checks what is done at several moments.
fn does(election: &Election, table: &[(u64, Step)]) {
    for (second, expected) in table {
        assert_eq!(election.next(seconds(*second)), *expected, "in second {second}: {election:?}");
    }
}

#[test]
fn a_new_process_looks_and_makes_a_lease_that_is_not_there() {
    let mut election = fresh();
    does(&election, &[(0, Step::Look), (100, Step::Look)]);
    election.saw(seconds(100), None);
    does(&election, &[(100, Step::Create)]);
    assert_eq!(election.held_until(), None);
}

#[test]
fn a_lease_that_nobody_holds_is_taken_at_once() {
    let mut election = fresh();
    election.saw(seconds(100), Some(lease("1", None, Some(1))));
    does(&election, &[(100, take("1"))]);
}

#[test]
fn anothers_lease_is_taken_when_it_did_not_change_for_its_duration_while_we_looked() {
    let mut election = fresh();
    election.saw(seconds(100), Some(lease("1", Some("other"), Some(1))));
    does(&election, &[(100, wait(115)), (114, wait(115)), (115, take("1"))]);
    // Seen again without a change: it counts from the first time.
    election.saw(seconds(110), Some(lease("1", Some("other"), Some(1))));
    does(&election, &[(110, wait(115)), (115, take("1"))]);
    // Any change counts anew.
    election.saw(seconds(112), Some(lease("2", Some("other"), Some(1))));
    does(&election, &[(115, wait(127)), (127, take("2"))]);
}

#[test]
fn the_duration_is_the_one_that_the_holder_wrote() {
    for (written, until) in [(Some(60), 160), (Some(3), 103), (None, 115)] {
        let mut election = fresh();
        let duration = written.map(seconds);
        let view = View { duration, ..lease("1", Some("other"), Some(1)) };
        election.saw(seconds(100), Some(view));
        does(&election, &[(100, wait(until)), (until, take("1"))]);
    }
}

/// A fixed name says nothing: a predecessor, or a second process that was started by mistake, is called the same.
#[test]
fn a_lease_in_our_own_name_that_we_did_not_take_is_anothers() {
    let mut election = fresh();
    election.saw(seconds(100), Some(lease("1", Some("me"), Some(1))));
    does(&election, &[(100, wait(115)), (115, take("1"))]);
}

#[test]
fn a_lease_that_we_took_without_hearing_of_it_is_taken_again_at_once() {
    let mut election = fresh();
    election.saw(seconds(100), Some(lease("1", None, None)));
    election.claims(at(7));
    election.wrote(seconds(100), seconds(104), Written::Unknown);
    assert_eq!(election.held_until(), None, "what nobody confirmed is not held");
    does(&election, &[(104, wait(106)), (106, Step::Look)]);
    election.saw(seconds(106), Some(lease("2", Some("me"), Some(7))));
    does(&election, &[(106, take("2"))]);
}

#[test]
fn who_comes_second_looks_again_and_waits() {
    let mut election = fresh();
    election.saw(seconds(100), Some(lease("1", None, None)));
    election.claims(at(7));
    election.wrote(seconds(100), seconds(101), Written::Refused);
    does(&election, &[(101, Step::Look)]);
    election.saw(seconds(101), Some(lease("2", Some("other"), Some(8))));
    does(&election, &[(101, wait(116)), (116, take("2"))]);
    // Also when it is free again: refusals that go on shall not become a storm.
    election.saw(seconds(102), Some(lease("3", None, None)));
    does(&election, &[(102, wait(103)), (103, take("3"))]);
}

#[test]
fn one_who_saw_a_holder_waits_also_when_the_lease_is_deleted() {
    let mut election = fresh();
    election.saw(seconds(100), Some(lease("1", Some("other"), Some(1))));
    election.saw(seconds(108), None);
    does(&election, &[(108, wait(123)), (123, Step::Create)]);
    election.saw(seconds(110), None);
    does(&election, &[(110, wait(123))]);
    election.saw(seconds(111), Some(lease("7", Some("other"), Some(1))));
    does(&election, &[(123, wait(126))]);
}

#[test]
fn the_leader_renews_and_its_time_counts_from_before_the_request() {
    let mut election = leader();
    assert_eq!(election.held_until(), Some(seconds(110)));
    does(&election, &[(101, wait(102)), (102, renew("1")), (109, renew("1")), (110, Step::Lost)]);
    // An answer that took long gives less time.
    election.wrote(seconds(102), seconds(106), Written::Done(lease("2", Some("me"), Some(7))));
    assert_eq!(election.held_until(), Some(seconds(112)));
    does(&election, &[(106, renew("2")), (112, Step::Lost)]);
}

#[test]
fn an_answer_that_comes_when_the_time_is_over_does_not_help() {
    let mut election = leader();
    election.wrote(seconds(102), seconds(500), Written::Done(lease("2", Some("me"), Some(7))));
    does(&election, &[(500, Step::Lost)]);
}

#[test]
fn a_renewal_that_fails_is_tried_again_until_the_deadline() {
    let mut election = leader();
    election.wrote(seconds(102), seconds(106), Written::Unknown);
    assert_eq!(election.held_until(), Some(seconds(110)), "a try gives no time");
    does(&election, &[(106, wait(108)), (108, Step::Look)]);
    election.blind(seconds(109));
    does(&election, &[(109, wait(110)), (110, Step::Lost)]);
}

/// It landed, only the answer was lost; or somebody set a label.
#[test]
fn a_version_of_our_own_lease_that_we_do_not_know_is_renewed() {
    let mut election = leader();
    election.wrote(seconds(102), seconds(103), Written::Refused);
    does(&election, &[(103, Step::Look)]);
    election.saw(seconds(103), Some(lease("9", Some("me"), Some(7))));
    does(&election, &[(103, wait(105)), (105, renew("9")), (110, Step::Lost)]);
}

#[test]
fn a_leader_that_sees_another_holder_or_none_is_no_leader() {
    let views = [
        lease("9", Some("other"), Some(8)),
        lease("9", None, Some(7)),
        // A second process of the same name.
        lease("9", Some("me"), Some(8)),
    ];
    for view in views {
        let mut election = leader();
        election.saw(seconds(103), Some(view));
        does(&election, &[(103, Step::Lost)]);
    }
}

#[test]
fn a_leader_whose_lease_was_deleted_makes_it_again() {
    let mut election = leader();
    election.wrote(seconds(102), seconds(102), Written::Refused);
    election.saw(seconds(102), None);
    does(&election, &[(102, wait(104)), (104, Step::Create), (110, Step::Lost)]);
    election.claims(at(8));
    election.wrote(seconds(104), seconds(104), Written::Done(lease("1", Some("me"), Some(8))));
    does(&election, &[(104, wait(106)), (113, renew("1")), (114, Step::Lost)]);
}

#[test]
fn a_lease_is_read_as_others_write_it() {
    let object: Object = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "sherpack-operator", "resourceVersion": "42"},
        "spec": {
            "holderIdentity": "", "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z",
        },
    }))
    .unwrap();
    let acquired = Some("2026-01-02T03:04:05.000006Z".parse().unwrap());
    let duration = Some(seconds(15));
    assert_eq!(view(&object), View { version: "42".to_owned(), holder: None, duration, acquired });
    assert_eq!(now().0.as_nanosecond() % 1000, 0, "finer than the API server keeps it");
    assert_eq!([1000, 1001, 1999].map(|millis| whole_seconds(Duration::from_millis(millis))), [1, 2, 2]);
}

#[test]
fn operators_of_different_namespaces_have_leases_of_their_own() {
    assert_eq!(name(None, None), "sherpack-operator");
    assert_eq!(name(Some("apps"), None), "sherpack-operator-apps");
    let [a, b] = ["shard=a", "shard in (b,c)"].map(|text| crate::api::selector::parse(text).unwrap());
    assert_ne!(name(None, Some(&a)), name(None, Some(&b)));
    assert!(name(Some("apps"), Some(&b)).starts_with("sherpack-operator-apps-"));
}
