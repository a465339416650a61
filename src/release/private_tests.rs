use super::*;

fn failed(inputs: &str, attempt: u32, revision: u32) -> Undone {
    let undone = serde_json::json!({
        "inputs": inputs, "attempt": attempt, "at": "2026-01-01T00:00:00Z", "reason": "HealthTimeout",
        "message": "late", "revision": revision,
    });
    serde_json::from_value(undone).unwrap()
}

fn private() -> Private {
    let private = serde_json::json!({
        "version": 1, "owner": {"namespace": "apps", "name": "web", "uid": "6f1c"}, "holder": "o", "action": "Upgrade",
        "attempt": 1, "inputs": "a", "packDigest": "p", "inventory": [],
    });
    serde_json::from_value(private).unwrap()
}

#[test]
fn what_is_known_of_the_objects_is_part_of_the_weight_and_bounded_for_the_largest_release() {
    let entry = serde_json::json!({
        "id": {"group": "apps", "kind": "Deployment", "namespace": "apps", "name": "shop-frontend-0123"},
        "apiVersion": "apps/v1", "uid": "4b2f8a52-3f0e-4a7c-9c39-54cb3f8a5d11", "changedIn": 1,
        "digest": format!("sha256:{:064}", 0), "fingerprint": format!("sha256:{:064}", 0),
    });
    let entry: InventoryEntry = serde_json::from_value(entry).unwrap();
    let one = entry.weight();
    assert!((400..1000).contains(&one), "{one} bytes an object");
    let of = |count: usize| {
        let inventory = vec![entry.clone(); count];
        Private { leftovers: vec![entry.clone()], hook_objects: vec![entry.clone()], inventory, ..private() }
    };
    assert_eq!(of(9_000).weight(), 9_002 * one);
    assert!(of(5_000).weight() < 5 << 20, "{} bytes", of(5_000).weight());
}

#[test]
fn the_last_five_failures_are_known_each_inputs_once() {
    let mut private = private();
    for (attempt, inputs) in (1..).zip(["a", "b", "c", "b", "d", "e", "f"]) {
        private.note_failure(failed(inputs, attempt, attempt));
    }
    let known: Vec<(&str, u32)> =
        private.failures.iter().map(|one| (one.inputs.as_str(), one.attempt)).collect();
    assert_eq!(known, [("c", 3), ("b", 4), ("d", 5), ("e", 6), ("f", 7)]);
    private.inputs = "b".to_owned();
    private.forget_failure();
    assert_eq!(private.failures.len(), 4);
}

#[test]
fn one_more_try_takes_the_place_of_the_failed_revision_and_of_the_way_back_from_it() {
    let mut private = private();
    private.note_failure(failed("a", 1, 2));
    assert_eq!(private.tries_of("a", 2), [2], "it is retained, or something else was deployed since");
    assert_eq!(private.tries_of("b", 2), Vec::<u32>::new());
    private.undone = Some(failed("a", 1, 2));
    assert_eq!(private.tries_of("a", 3), [2, 3]);
    assert_eq!(private.tries_of("b", 3), Vec::<u32>::new());
    // Of a program that wrote no numbers down.
    private.undone = Some(failed("a", 1, 0));
    assert_eq!(private.tries_of("a", 3), [3]);
}

#[test]
fn a_part_without_what_is_new_reads_and_writes_as_before() {
    let json = serde_json::to_value(private()).unwrap();
    for new in ["failures", "spec", "replaces", "startedOver", "adopts"] {
        assert!(json.get(new).is_none(), "{new}");
    }
}
