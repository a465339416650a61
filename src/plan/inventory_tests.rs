use serde_json::json;

use super::*;
use crate::manifest::Ran;

fn object(kind: &str, name: &str, value: i64) -> Object {
    let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    let body = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "apps"}, "data": {"value": value.to_string()}});
    Object::from_value(body).unwrap()
}

fn names(entries: &[InventoryEntry]) -> Vec<String> {
    entries.iter().map(|entry| entry.id.name.clone()).collect()
}

#[test]
fn what_a_hook_left_behind_is_left_over_once_it_is_no_hook_any_more() {
    let mut job = object("Job", "check", 1);
    job.set_annotation("sherpack.io/hook", "post-upgrade");
    let hooks = crate::plan::split(vec![job.clone()]).unwrap().hooks;
    let before = hook_objects(&hooks, 2);
    let next = |objects: &[Object], hooks: &[Hook], leftovers: &[InventoryEntry]| {
        names(&next_inventory(objects, 3, &[], leftovers).with_hooks(hooks, &before).leftovers)
    };
    assert_eq!(next(&[], &[], &[]), ["check"]);
    assert_eq!(next(&[], &[], &before), ["check"], "once");
    assert!(next(&[], &hooks, &before).is_empty(), "it runs again and makes way by itself");
    assert!(next(&[object("Job", "check", 1)], &[], &[]).is_empty(), "an ordinary object now");
}

#[test]
fn only_what_a_record_explains_may_be_deleted() {
    let live = |mark: &str, uid: &str| ObjectMeta {
        annotations: Some([(names::APPLIED.to_owned(), mark.to_owned())].into()),
        uid: Some(uid.to_owned()),
        ..ObjectMeta::default()
    };
    let mut entry = next_inventory(&[object("ConfigMap", "a", 1)], 2, &[], &[]).wanted.remove(0);
    let may = |entry: &InventoryEntry, mark: &str, uid: &str| may_delete(entry, &live(mark, uid), "u");
    assert!(may(&entry, "u.1", "77") && may(&entry, "u.2", "77"));
    assert!(!may(&entry, "other.1", "77"), "another release's");
    assert!(!may(&entry, "u.3", "77"), "a revision whose record is lost may have adopted it");
    assert!(!may(&entry, "u", "77") && !may(&entry, "u.x", "77"));
    entry.uid = Some("77".to_owned());
    assert!(may(&entry, "u.3", "77"), "this very object was applied before");
    assert!(!may(&entry, "u.3", "78"));
    entry.adopt(2, false);
    assert!(!may(&entry, "u.2", "77"));
}

#[test]
fn a_definition_that_says_that_it_was_adopted_is_never_deleted_whatever_the_record_says() {
    let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}});
    let definition = Object::from_value(body).unwrap();
    let mut entry = next_inventory(&[definition], 1, &[], &[]).wanted.remove(0);
    // Its release deletes it.
    entry.keep = false;
    let marked = || [(names::APPLIED.to_owned(), marker("u", 1))].into();
    let mut live = ObjectMeta { annotations: Some(marked()), ..ObjectMeta::default() };
    assert!(may_delete(&entry, &live, "u"));
    let adopted = (names::ADOPTED.to_owned(), names::ADOPTED_TRUE.to_owned());
    live.annotations.get_or_insert_default().extend([adopted]);
    assert!(!may_delete(&entry, &live, "u"));
    entry.id = object("ConfigMap", "a", 1).id;
    assert!(may_delete(&entry, &live, "u"), "of anything else it says nothing");
}

#[test]
fn deletion_is_the_reverse_of_application() {
    let objects = [object("ConfigMap", "a", 1), object("Deployment", "web", 1)];
    let entries = next_inventory(&objects, 1, &[], &[]).wanted;
    assert_eq!(names(&deletion_order(entries)), ["web", "a"]);
}

#[test]
fn an_unchanged_object_keeps_the_revision_in_which_it_last_changed() {
    let first = next_inventory(&[object("ConfigMap", "a", 1), object("ConfigMap", "b", 1)], 1, &[], &[]);
    let second =
        next_inventory(&[object("ConfigMap", "a", 1), object("ConfigMap", "b", 2)], 2, &first.wanted, &[]);
    let changed: Vec<u32> = second.wanted.iter().map(|entry| entry.changed_in).collect();
    assert_eq!(changed, [1, 2]);
}

#[test]
fn a_job_has_its_ttl_once_its_end_is_written_down_and_is_not_run_again_for_the_same_body() {
    let job = |ttl: i64| {
        let body = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "apps"},
            "spec": {"ttlSecondsAfterFinished": ttl}});
        Object::from_value(body).unwrap()
    };
    let marks = Marks { release_name: "web", release_namespace: "apps", uid: "u" };
    let mut before = next_inventory(&[job(5)], 1, &[], &[]).wanted;
    before[0].uid = Some("77".to_owned());
    let first = apply_body(&job(5), &before[0], marks);
    assert_eq!((first.pointer(TTL), first.pointer("/metadata/uid")), (None, None));
    before[0].ran = Some(Ran::default());
    let ended = apply_body(&job(5), &before[0], marks);
    assert_eq!(ended.pointer(TTL), Some(&json!(5)));
    assert_eq!(ended.pointer("/metadata/uid"), Some(&json!("77")), "it is not made again");
    let ran = |object: Object, before: &[InventoryEntry]| {
        next_inventory(&[object], 2, before, &[]).wanted.remove(0).ran
    };
    assert_eq!(ran(job(5), &before), Some(Ran::default()));
    assert_eq!(ran(job(6), &before), None, "another body runs");
    before[0].ran = Some(Ran { failed: true, ttl_due: false });
    assert_eq!(ran(job(5), &before), None, "one that failed may run again");
}

#[test]
fn what_is_not_wanted_any_more_is_left_over_until_it_is_wanted_again() {
    let first = next_inventory(&[object("ConfigMap", "a", 1), object("ConfigMap", "b", 1)], 1, &[], &[]);
    let second = next_inventory(&[object("ConfigMap", "a", 1)], 2, &first.wanted, &first.leftovers);
    assert_eq!(names(&second.leftovers), ["b"]);
    // Revision 2 failed before it pruned anything; revision 3 still knows of `b`.
    let third = next_inventory(&[object("ConfigMap", "a", 3)], 3, &second.wanted, &second.leftovers);
    assert_eq!(names(&third.leftovers), ["b"]);
    let fourth = next_inventory(&[object("ConfigMap", "b", 1)], 4, &third.wanted, &third.leftovers);
    assert_eq!(names(&fourth.leftovers), ["a"]);
    assert_eq!(fourth.wanted[0].changed_in, 1);
}
