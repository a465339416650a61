//! Probes as a part of a wait: an object is ready when its own health rule says so and its probe has succeeded since.
//!
//! The asking itself is done by [`Prober`](crate::watch::probe::Prober), off this pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::api::reasons;
use crate::cluster::{Workload, proxied_name};
use crate::health::Status;
use crate::manifest::{Object, ObjectId};
use crate::plan::probes::{Check, Target, probe};
use crate::plan::rights::Right;
use crate::plan::{Plan, Step, Wait};
use crate::reconcile::access::preflight::right;
use crate::reconcile::health::Waits;
use crate::reconcile::state::Probing;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::watch::probe::{Ask, Seen};

/// The probe of an object of a revision, before it was asked. One that means nothing made no plan.
pub(in crate::reconcile) fn probing(object: &Object, revision: u32) -> Option<Probing> {
    let probe = Arc::new(probe(object).ok().flatten()?);
    Some(Probing { probe, revision, asked: false, hopeless: None })
}

impl Waits<'_> {
    /// Whether an object that is settled by its own health rule has answered its probe. If not, its health says what the
    /// probe saw last. What is suspended is not asked.
    pub(in crate::reconcile) fn probed(&self, id: &ObjectId, object: &mut Waiting, live: &Value) -> bool {
        let Some(probing) = object.probe.as_mut().filter(|_| object.health.status == Status::Current) else {
            return true;
        };
        let pods = match probing.probe.target {
            Target::Pods => Workload::of(live),
            Target::Pod | Target::Service => None,
        };
        probing.asked = true;
        let probe = Arc::clone(&probing.probe);
        let ask =
            Ask { release: self.scope.key.clone(), id: id.clone(), revision: probing.revision, probe, pods };
        let said = match self.scope.ctx.prober.look(ask, self.scope.cluster) {
            Some(Seen::Passed) => return true,
            None => format!("is healthy; its probe has not answered yet: {}", probing.probe),
            Some(Seen::Failed(said)) => format!("its probe fails: {said}"),
            Some(Seen::Hopeless(reason, said)) => {
                probing.hopeless = Some(reason);
                format!("its probe is not made: {said}")
            }
        };
        let reason = probing.hopeless.unwrap_or(reasons::PROBE_FAILED);
        object.health.status = Status::InProgress;
        reason.clone_into(&mut object.health.reason);
        object.health.message = self.secrets.hidden(said);
        object.health.recheck_in = None;
        false
    }

    /// An object that is not healthy any more is not asked, and what it answered before does not count.
    pub(in crate::reconcile) fn leave_probe(&self, id: &ObjectId, object: &mut Waiting) {
        if let Some(probing) = object.probe.as_mut().filter(|probing| probing.asked) {
            probing.asked = false;
            self.scope.ctx.prober.leave(self.scope.key, id);
        }
    }

    /// At the end of a pass: no object is asked that no operation waits for.
    pub(in crate::reconcile) fn leave_probes(&self, running: Option<&Running>) {
        let going = self.scope.release.metadata.deletion_timestamp.is_some();
        let asked: BTreeSet<&ObjectId> = match running.map(|running| &running.stage) {
            Some(Stage::Wait { waiting, .. }) if !going => {
                let asked = |object: &Waiting| object.probe.as_ref().is_some_and(|probe| probe.asked);
                waiting.iter().filter(|(_, object)| asked(object)).map(|(id, _)| id).collect()
            }
            _ => BTreeSet::new(),
        };
        self.scope.ctx.prober.retain(self.scope.key, |id| asked.contains(id));
    }
}

/// What the probes of a plan need. `waits`: whether the settings want such a wait.
pub(in crate::reconcile) fn rights_to_probe(
    objects: &[Object],
    plan: &Plan,
    waits: impl Fn(Wait) -> bool,
) -> Vec<Right> {
    let waited = plan.steps.iter().filter_map(|step| match step {
        Step::Wait { objects, wait, .. } if waits(*wait) => Some(objects),
        _ => None,
    });
    let waited: BTreeSet<usize> = waited.flatten().copied().collect();
    let waited = waited.into_iter().filter_map(|index| objects.get(index));
    waited.flat_map(needed).collect()
}

fn needed(object: &Object) -> Vec<Right> {
    let Ok(Some(probe)) = probe(object) else { return Vec::new() };
    let namespace = object.id.namespace.as_deref();
    let mut needed = Vec::new();
    if let (Target::Service, Check::Http(http)) = (probe.target, &probe.check) {
        let name = proxied_name(&object.id.name, http);
        needed.push(right("get", "", "services/proxy", namespace, &name));
    }
    if probe.target == Target::Pods {
        needed.push(right("list", "", "pods", namespace, ""));
    }
    if let Check::Command { .. } = probe.check {
        // The names of its pods are not known before.
        let name = if probe.target == Target::Pod { &object.id.name } else { "" };
        // A websocket is a GET, and a command is more than that.
        needed.extend(["get", "create"].map(|verb| right(verb, "", "pods/exec", namespace, name)));
    }
    needed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, settings: Value) -> Object {
        let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
        let mut annotations = json!({"sherpack.io/health-check": "true"});
        for (key, value) in settings.as_object().unwrap() {
            annotations[format!("sherpack.io/health-check-{key}")] = value.clone();
        }
        Object::from_value(json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "web", "namespace": "apps", "annotations": annotations}}))
        .unwrap()
    }

    #[test]
    fn each_probe_needs_its_rights_and_no_more() {
        let http = json!({"path": "/", "port": "http"});
        let command = json!({"command": "true"});
        for (kind, settings, rights) in [
            ("Pod", &http, &[][..]),
            ("Pod", &command, &["create pods/exec web", "get pods/exec web"]),
            ("Deployment", &http, &["list pods "]),
            ("Deployment", &command, &["create pods/exec ", "get pods/exec ", "list pods "]),
            ("Service", &http, &["get services/proxy http:web:http"]),
        ] {
            let mut found: Vec<String> = needed(&object(kind, settings.clone()))
                .into_iter()
                .map(|right| format!("{} {} {}", right.verb, right.resource, right.name))
                .collect();
            found.sort();
            assert_eq!(found, rights, "{kind}: {settings}");
        }
    }

    #[test]
    fn an_operation_needs_the_rights_of_the_probes_that_it_waits_for_and_each_once() {
        let command = json!({"command": "true"});
        let objects = [
            object("Deployment", json!({"path": "/", "port": "80"})),
            object("Pod", command),
            Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}}))
                .unwrap(),
        ];
        let wait = |objects: &[usize], wait| Step::Wait { wave: 0, objects: objects.to_vec(), wait };
        for (steps, last, verbs) in [
            (vec![Step::Apply { wave: 0, groups: vec![vec![0, 1, 2]] }], true, &[][..]),
            (vec![wait(&[0], Wait::Last)], true, &["list pods"]),
            (vec![wait(&[0], Wait::Last)], false, &[]),
            (vec![wait(&[2], Wait::Last)], true, &[]),
            // Waited for twice, and asked for once; and an index that no object has.
            (
                vec![wait(&[0, 1], Wait::Named), wait(&[1, 0, 9], Wait::Last)],
                true,
                &["list pods", "get pods/exec", "create pods/exec"],
            ),
            (
                vec![wait(&[1], Wait::Named), wait(&[0], Wait::Last)],
                false,
                &["get pods/exec", "create pods/exec"],
            ),
        ] {
            let plan = Plan { steps, waves: vec![0] };
            let rights = rights_to_probe(&objects, &plan, |wait| last || wait == Wait::Named);
            let found: Vec<String> =
                rights.into_iter().map(|right| format!("{} {}", right.verb, right.resource)).collect();
            assert_eq!(found, verbs, "{:?}", plan.steps);
        }
    }

    #[test]
    fn an_object_with_a_probe_is_not_asked_before_its_own_rule_says_so() {
        let found = probing(&object("Pod", json!({"command": "true"})), 4).unwrap();
        assert_eq!((found.revision, found.asked, found.hopeless), (4, false, None));
        let unsound = object("Pod", json!({"path": "no slash", "port": "80"}));
        assert!(probing(&unsound, 4).is_none(), "one that means nothing made no plan");
    }
}
