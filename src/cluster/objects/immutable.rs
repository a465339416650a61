//! Whether an object was refused because a field of it cannot change, and not because of a wrong value.
//!
//! The API server says both in one way: 422 `Invalid`, with causes of reason `FieldValueInvalid` or
//! `FieldValueForbidden` that name a field. What its messages say is for people and not read here. So it is asked a
//! second thing: whether it would create the very same object, as a dry run under its own name. It checks the values
//! before it looks whether the name is taken, so that `AlreadyExists` says that nothing is wrong with them: it is the
//! change that was refused.
//!
//! Any other answer leaves it at what was said first: a quota that is used up, a webhook that refuses the creation, an
//! admission policy (its causes name no field).
//!
//! What 1.36 answers when an object is changed; `tests/behaviour/immutable_fields.rs` asks it again:
//!
//! | changed | cause | field |
//! |---|---|---|
//! | template of a Job | `FieldValueInvalid` | `spec.template` |
//! | selector of a Deployment | `FieldValueInvalid` | `spec.selector` |
//! | serviceName, volumeClaimTemplates of a StatefulSet | `FieldValueForbidden` | `spec` |
//! | clusterIP of a Service | `FieldValueInvalid` | `spec.clusterIPs[0]` |
//! | storageClassName of a PersistentVolumeClaim | `FieldValueForbidden` | `spec` |
//! | data of a ConfigMap or Secret with `immutable: true` | `FieldValueForbidden` | `data` |
//! | env of a Pod | `FieldValueForbidden` | `spec` |
//! | roleRef of a RoleBinding | `FieldValueInvalid` | `roleRef` |
//! | parameters, provisioner of a StorageClass | `FieldValueForbidden` | `parameters`, `provisioner` |
//! | value of a PriorityClass | `FieldValueForbidden` | `value` |
//! | a wrong value of any of these | `FieldValueInvalid` | its path |
//!
//! A create that is no dry run may still be refused: for an address that another Service has, for one.

use std::collections::BTreeSet;

use kube::core::Status;
use serde_json::Value;

use super::handle::{Applied, Cluster, Mode};
use crate::cluster::Error;
use crate::manifest::ObjectId;

/// In a dry run the API server checks a cluster IP against one ServiceCIDR that it picks at random, and refuses the IP of
/// another one: so often it is asked.
const ADDRESS_TRIES: usize = 12;

impl Cluster {
    /// The fields that cannot change because of which an apply of `body` over the object `live` was refused; `None` when
    /// it was refused for another reason, or it cannot be told.
    pub async fn immutable_fields(
        &self,
        api_version: &str,
        id: &ObjectId,
        body: &Value,
        live: &Applied,
        refusal: &Error,
    ) -> Option<Vec<String>> {
        let fields = refusal.suspects();
        // A dry run does not tell whether such a port can be had. They may change.
        let port =
            |field: &String| id.group.is_empty() && id.kind == "Service" && field.ends_with(".nodePort");
        if fields.is_empty() || fields.iter().any(port) {
            return None;
        }
        match self.would_create(api_version, id, &without_what_is_held(id, body, &live.value())).await {
            Ok(_) => Some(fields.into_iter().collect()),
            Err(error) if error.is_already_there() => Some(fields.into_iter().collect()),
            Err(error) => {
                // What is said of a body may quote a Secret.
                tracing::debug!(%id, reason = error.reason(), "the object would not be created as it is, so its values may be wrong");
                None
            }
        }
    }

    /// What the API server says to a dry run of the object's creation.
    async fn would_create(&self, api_version: &str, id: &ObjectId, body: &Value) -> Result<(), Error> {
        let mut answer = self.post(api_version, id, body.clone(), Mode::DryRun).await;
        for _ in 1..ADDRESS_TRIES {
            match &answer {
                Err(error) if is_of_an_address(id, error) => {}
                _ => break,
            }
            answer = self.post(api_version, id, body.clone(), Mode::DryRun).await;
        }
        answer.map(drop)
    }
}

impl Error {
    /// The fields of a refusal that may be one of a change; empty: it is another refusal.
    #[must_use]
    pub fn suspects(&self) -> BTreeSet<String> {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) => suspects(status),
                _ => BTreeSet::new(),
            },
            _ => BTreeSet::new(),
        }
    }
}

/// Where a Service was refused its cluster IP.
fn is_of_an_address(id: &ObjectId, error: &Error) -> bool {
    let fields = error.suspects();
    id.group.is_empty() && id.kind == "Service" && fields.iter().eq(["spec.clusterIPs"])
}

fn suspects(status: &Status) -> BTreeSet<String> {
    if status.code != 422 || status.reason != "Invalid" {
        return BTreeSet::new();
    }
    let causes = status.details.as_ref().map(|details| &details.causes[..]).unwrap_or_default();
    let of_a_field = |reason: &str, field: &str| {
        matches!(reason, "FieldValueInvalid" | "FieldValueForbidden") && !field.is_empty()
    };
    // One that says something else is reason enough for itself.
    if !causes.iter().all(|cause| of_a_field(&cause.reason, &cause.field)) {
        return BTreeSet::new();
    }
    causes.iter().map(|cause| cause.field.clone()).collect()
}

/// Addresses and ports that a Service has already are free for no other one, and so the API server would refuse them to
/// the very same Service.
fn without_what_is_held(id: &ObjectId, body: &Value, live: &Value) -> Value {
    let mut body = body.clone();
    if !(id.group.is_empty() && id.kind == "Service") {
        return body;
    }
    let held_ports: Vec<&Value> = live
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|port| port.get("nodePort"))
        .chain(live.pointer("/spec/healthCheckNodePort"))
        .collect();
    let Some(spec) = body.pointer_mut("/spec").and_then(Value::as_object_mut) else { return body };
    let same = |field: &str, value: &Value| live.pointer(&format!("/spec/{field}")) == Some(value);
    spec.retain(|field, value| match field.as_str() {
        "clusterIP" | "clusterIPs" => !same(field, value),
        "healthCheckNodePort" => !held_ports.contains(&&*value),
        _ => true,
    });
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.retain(|field, value| field != "nodePort" || !held_ports.contains(&&*value));
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reason and field of each.
    type Causes<'c> = &'c [(&'c str, &'c str)];

    fn status(code: u16, reason: &str, causes: Causes<'_>) -> Status {
        let causes: Vec<Value> = causes
            .iter()
            .map(|(reason, field)| json!({"reason": reason, "field": field, "message": "m"}))
            .collect();
        serde_json::from_value(json!({
            "status": "Failure", "code": code, "reason": reason, "message": "m", "details": {"causes": causes},
        }))
        .unwrap()
    }

    fn fields(status: &Status) -> Vec<String> {
        suspects(status).into_iter().collect()
    }

    #[test]
    fn only_fields_that_are_invalid_or_forbidden_are_suspects() {
        let (invalid, forbidden) = ("FieldValueInvalid", "FieldValueForbidden");
        assert_eq!(fields(&status(422, "Invalid", &[(invalid, "spec.selector")])), ["spec.selector"]);
        let two = [(forbidden, "spec"), (invalid, "roleRef"), (forbidden, "spec")];
        assert_eq!(fields(&status(422, "Invalid", &two)), ["roleRef", "spec"]);
        let others: [(u16, &str, Causes<'_>); 7] = [
            (422, "Invalid", &[]),
            // An admission policy.
            (422, "Invalid", &[("", "")]),
            (422, "Invalid", &[(invalid, "")]),
            (422, "Invalid", &[("FieldValueRequired", "spec.template")]),
            (422, "Invalid", &[(invalid, "spec.selector"), ("FieldValueRequired", "spec.template")]),
            (403, "Forbidden", &[(forbidden, "spec")]),
            (409, "Conflict", &[("FieldManagerConflict", ".spec.replicas")]),
        ];
        for (code, reason, causes) in others {
            assert!(suspects(&status(code, reason, causes)).is_empty(), "{code} {reason} {causes:?}");
        }
        let mut bare = status(422, "Invalid", &[]);
        bare.details = None;
        assert!(suspects(&bare).is_empty());
    }

    #[test]
    fn a_service_is_not_asked_for_what_it_holds_itself() {
        let id = ObjectId { kind: "Service".into(), name: "web".into(), ..ObjectId::default() };
        let live = json!({"spec": {"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "healthCheckNodePort": 30001,
            "ports": [{"port": 80, "nodePort": 30080}]}});
        let body = json!({"spec": {"clusterIP": "10.0.0.6", "clusterIPs": ["10.0.0.5"], "healthCheckNodePort": 30001,
            "ports": [{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 99}]}});
        let asked =
            json!({"spec": {"clusterIP": "10.0.0.6", "ports": [{"port": 80}, {"port": 81, "nodePort": 99}]}});
        assert_eq!(without_what_is_held(&id, &body, &live), asked);
        let other = ObjectId { kind: "Thing".into(), ..id };
        assert_eq!(without_what_is_held(&other, &body, &live), body);
    }
}
