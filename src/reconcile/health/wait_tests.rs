//! Which objects a wait looks into, and which ones it is done with.

use super::*;

fn id(group: &str, kind: &str) -> ObjectId {
    let [group, kind, name] = [group, kind, "web"].map(str::to_owned);
    ObjectId { group, kind, namespace: Some("apps".to_owned()), name }
}

#[test]
fn only_the_workloads_that_keep_pods_are_asked_why_their_pods_fail() {
    for (group, kind, asked) in [
        ("apps", "Deployment", true),
        ("apps", "StatefulSet", true),
        ("apps", "DaemonSet", true),
        ("apps", "ReplicaSet", true),
        ("apps", "ControllerRevision", false),
        // A Job tries again by itself.
        ("batch", "Job", false),
        ("", "Pod", false),
        // Of the same kind, and of another group.
        ("example.com", "Deployment", false),
    ] {
        assert_eq!(has_pods(&id(group, kind)), asked, "{group}/{kind}");
    }
}

#[test]
fn what_is_healthy_or_suspended_on_purpose_is_not_waited_for() {
    for (status, done) in [
        (Status::Current, true),
        (Status::Suspended, true),
        (Status::InProgress, false),
        (Status::Failed, false),
        (Status::Terminating, false),
    ] {
        assert_eq!(settled(status), done, "{status:?}");
    }
}
