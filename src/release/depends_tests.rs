//! The graph of dependencies, change by change.

use serde_json::{Value, json};

use super::*;

pub(super) fn key(name: &str) -> ReleaseKey {
    ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() }
}

fn names(keys: impl IntoIterator<Item = ReleaseKey>) -> Vec<String> {
    keys.into_iter().map(|key| key.name).collect()
}

fn release(name: &str, patch: Value) -> SherpackRelease {
    let mut object = json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
        "metadata": {
            "name": name, "namespace": "apps", "generation": 2, "finalizers": ["other/one", names::FINALIZER],
        },
        "spec": {},
        "status": {"observedGeneration": 2, "conditions": [ready("True", "InstallSucceeded")]},
    });
    json_patch::merge(&mut object, &patch);
    serde_json::from_value(object).unwrap()
}

fn ready(status: &str, reason: &str) -> Value {
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    })
}

/// A Ready release with these dependencies.
pub(super) fn known(depends_on: &[&str]) -> Known {
    let depends_on = depends_on.iter().map(|name| key(name)).collect();
    Known { depends_on, unready: None, life: Life::Living, as_operator: true }
}

fn failed(depends_on: &[&str]) -> Known {
    Known { unready: Some(Unready::NotReady { reason: "InstallFailed".to_owned() }), ..known(depends_on) }
}

fn deleted(depends_on: &[&str]) -> Known {
    Known { unready: Some(Unready::Deleted), life: Life::Going, ..known(depends_on) }
}

fn graph(releases: &[(&str, Known)]) -> Graph {
    let mut graph = Graph::default();
    for (name, known) in releases {
        graph.saw(&key(name), known.clone());
    }
    graph
}

fn blocked(graph: &mut Graph, name: &str, by: &[&str]) -> Option<String> {
    let by: Vec<_> = by.iter().map(|name| key(name)).collect();
    graph.blocked(&key(name), &by).map(|blocked| blocked.to_string())
}

fn cycle(graph: &Graph, name: &str) -> Option<Vec<String>> {
    graph.cycle(&key(name)).map(names)
}

#[test]
fn a_release_is_ready_when_its_status_says_so_of_its_newest_spec() {
    let condition = |status: &str| json!({"status": {"conditions": [ready(status, "Suspended")]}});
    let not_ready = Unready::NotReady { reason: "Suspended".to_owned() };
    let deletion = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
    for (patch, expected) in [
        (json!({}), None),
        (condition("False"), Some(not_ready.clone())),
        (condition("Unknown"), Some(not_ready)),
        (json!({"metadata": {"generation": 3}}), Some(Unready::Outdated)),
        (json!({"status": {"observedGeneration": -1}}), Some(Unready::Outdated)),
        (json!({"status": {"conditions": []}}), Some(Unready::Outdated)),
        (json!({"status": null}), Some(Unready::Outdated)),
        (deletion, Some(Unready::Deleted)),
    ] {
        let known = Known::of(&release("db", patch.clone()), &Policy::default());
        assert_eq!(known.unready, expected, "{patch}");
    }
}

#[test]
fn a_release_is_going_when_it_is_deleted_with_its_objects_and_we_are_not_through_with_it() {
    let deletion = json!({"deletionTimestamp": "2030-01-01T00:00:00Z"});
    let torn = json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["other/one"]});
    for (metadata, policy, expected) in [
        (json!({}), "Delete", Life::Living),
        (json!({"finalizers": null}), "Delete", Life::Untouched),
        (deletion.clone(), "Delete", Life::Going),
        (deletion, "Orphan", Life::Orphaning),
        (torn, "Delete", Life::Untouched),
    ] {
        let patch = json!({"metadata": metadata, "spec": {"uninstall": {"policy": policy}}});
        assert_eq!(Known::of(&release("db", patch), &Policy::default()).life, expected);
    }
}

#[test]
fn dependencies_that_are_refused_count_as_none() {
    let patch = json!({"spec": {"dependsOn": [{"name": "db"}, {"name": "cache", "namespace": "data"}]}});
    let web = release("web", patch);
    assert_eq!(Known::of(&web, &Policy::default()).depends_on.len(), 2);
    let apart = Policy { tenancy: crate::api::Tenancy::Multi, ..Policy::default() };
    assert_eq!(Known::of(&web, &apart).depends_on, Vec::new());
}

#[test]
fn the_first_dependency_that_is_not_ready_is_named_with_the_reason_and_the_number_of_others() {
    let mut graph = graph(&[("a", known(&[])), ("b", failed(&[])), ("c", deleted(&[]))]);
    assert_eq!(blocked(&mut graph, "web", &["a"]), None);
    let text = blocked(&mut graph, "web", &["a", "b"]).unwrap();
    assert_eq!(text, "waits for the release apps/b, which is not Ready: InstallFailed");
    let text = blocked(&mut graph, "web", &["c", "a", "b", "d"]).unwrap();
    assert_eq!(text, "waits for the release apps/c, which is being deleted (and for 2 more)");
    let text = blocked(&mut graph, "web", &["d"]).unwrap();
    assert_eq!(text, "waits for the release apps/d, which does not exist");
}

#[test]
fn a_change_of_ready_wakes_exactly_the_dependents_that_wait() {
    let mut graph = graph(&[
        ("db", failed(&[])),
        ("api", failed(&["db"])),
        ("web", known(&["db"])),
        ("other", failed(&[])),
    ]);
    // `web` has nothing to roll out and never asked.
    assert!(blocked(&mut graph, "api", &["db"]).is_some());
    assert_eq!(names(graph.saw(&key("db"), failed(&[]))), Vec::<String>::new(), "nothing changed");
    assert_eq!(names(graph.saw(&key("db"), known(&[]))), ["api"]);
    assert_eq!(blocked(&mut graph, "api", &["db"]), None);
    assert_eq!(names(graph.saw(&key("db"), failed(&[]))), Vec::<String>::new(), "it waits no longer");
    assert!(blocked(&mut graph, "api", &["db"]).is_some());
    assert_eq!(names(graph.lost(&key("db"))), ["api"]);
    assert!(blocked(&mut graph, "api", &["db"]).is_some());
    assert_eq!(names(graph.saw(&key("db"), known(&[]))), ["api"], "it is there again");
}

#[test]
fn every_member_of_a_cycle_is_woken_when_it_closes_and_when_it_opens() {
    let mut graph = graph(&[
        ("a", known(&["b"])),
        ("b", known(&["c"])),
        ("c", known(&[])),
        ("d", known(&["a"])),
        ("e", known(&[])),
    ]);
    assert_eq!(names(graph.saw(&key("c"), known(&["a", "e"]))), ["a", "b"]);
    assert_eq!(cycle(&graph, "a").unwrap(), ["a", "b", "c", "a"]);
    assert_eq!(cycle(&graph, "c").unwrap(), ["c", "a", "b", "c"]);
    assert_eq!((cycle(&graph, "d"), cycle(&graph, "e")), (None, None), "they only hang on it");
    assert_eq!(names(graph.saw(&key("b"), known(&[]))), ["a", "c"]);
    assert_eq!(cycle(&graph, "a"), None);
    graph.saw(&key("b"), known(&["a"]));
    assert_eq!(cycle(&graph, "a").unwrap(), ["a", "b", "a"]);
    assert_eq!(names(graph.lost(&key("b"))), ["a"]);
    assert_eq!(cycle(&graph, "a"), None);
}

#[test]
fn of_several_cycles_the_shortest_is_named() {
    let graph =
        graph(&[("a", known(&["b", "d"])), ("b", known(&["c"])), ("c", known(&["a"])), ("d", known(&["a"]))]);
    assert_eq!(cycle(&graph, "a").unwrap(), ["a", "d", "a"]);
    assert_eq!(cycle(&graph, "b").unwrap(), ["b", "c", "a", "b"]);
}

#[test]
fn only_dependents_that_are_deleted_too_are_waited_for() {
    let orphaning = Known { life: Life::Orphaning, ..deleted(&["db"]) };
    let untouched = Known { life: Life::Untouched, ..known(&["db"]) };
    let mut graph = graph(&[
        ("db", deleted(&[])),
        ("orphaning", orphaning),
        ("untouched", untouched),
        ("stranger", deleted(&[])),
    ]);
    assert_eq!(graph.dependents(&key("db")), Dependents::default());
    assert_eq!(names(graph.saw(&key("web"), known(&["db"]))), ["db"]);
    assert_eq!(graph.dependents(&key("db")), Dependents { living: true, ..Dependents::default() });
    assert_eq!(names(graph.saw(&key("web"), deleted(&["db"]))), ["db"]);
    assert_eq!(names(graph.dependents(&key("db")).going.into_keys()), ["web"]);
    assert_eq!(names(graph.lost(&key("web"))), ["db"]);
    assert_eq!(graph.dependents(&key("db")), Dependents::default());
}

#[test]
fn the_end_of_a_wait_wakes_what_waits_for_it() {
    let mut graph = graph(&[("db", deleted(&[])), ("cache", known(&[])), ("web", deleted(&["db", "cache"]))]);
    let until = Timestamp::from_second(7).unwrap();
    assert_eq!(names(graph.awaits(&key("web"), Some(until))), Vec::<String>::new());
    assert_eq!(graph.dependents(&key("db")).going, BTreeMap::from([(key("web"), Some(until))]));
    assert_eq!(names(graph.awaits(&key("web"), None)), ["db"], "nobody deletes the cache");
    assert_eq!(graph.dependents(&key("db")).going, BTreeMap::from([(key("web"), None)]));
}

#[test]
fn nothing_is_left_of_releases_that_are_gone() {
    let mut graph = graph(&[("a", known(&["b", "x"])), ("b", known(&["a"]))]);
    graph.lost(&key("a"));
    graph.lost(&key("b"));
    assert!(graph.releases.is_empty() && graph.dependents.is_empty(), "{graph:?}");
}

#[test]
fn of_other_namespaces_only_those_that_act_as_the_operator_hold_up_a_deletion() {
    let mut graph = Graph::default();
    let db = key("db");
    let there = ReleaseKey { namespace: "elsewhere".to_owned(), name: "web".to_owned() };
    graph.saw(&db, deleted(&[]));
    let account = |known: Known| Known { as_operator: false, ..known };
    graph.saw(&there, account(deleted(&["db"])));
    assert_eq!(graph.dependents(&db), Dependents::default());
    assert!(graph.saw(&there, deleted(&["db"])).contains(&db), "it is looked at again");
    assert!(graph.dependents(&db).going.contains_key(&there));
    graph.saw(&there, account(known(&["db"])));
    assert!(!graph.dependents(&db).living);
    // In its own namespace each of them does.
    graph.saw(&key("api"), account(deleted(&["db"])));
    assert!(graph.dependents(&db).going.contains_key(&key("api")));
}
