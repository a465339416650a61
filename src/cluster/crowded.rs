//! Lists that are merged by a key which another manager changed.
//!
//! Server-side apply merges the ports of a Service by their number. When another manager makes 81 of our port 80, an apply
//! adds 80 beside 81, both have the same name, and the API server refuses the whole object. The element with the wrong key
//! has to be turned back first.

use serde_json::{Value, json};

/// Fields that key the lists of ports, of Services and of containers.
const KEYS: [&str; 3] = ["port", "containerPort", "protocol"];

/// Operations of a JSON patch that turn foreign elements of `live` back into ours, if that is why `error` refused
/// `body`; empty when it is not.
pub(super) fn make_room(error: &kube::Error, live: &Value, body: &Value) -> Vec<Value> {
    duplicates(error).filter_map(|field| turn_back(&field, live, body)).flatten().collect()
}

/// Whether the API server refused an object because a list has a value twice.
pub(super) fn is_crowded(error: &kube::Error) -> bool {
    duplicates(error).next().is_some()
}

/// The fields that the API server calls duplicates, such as `spec.ports[1].name`.
fn duplicates(error: &kube::Error) -> impl Iterator<Item = String> {
    let causes = match error {
        kube::Error::Api(status) => status.details.iter().flat_map(|details| &details.causes).collect(),
        _ => Vec::new(),
    };
    causes.into_iter().filter(|cause| cause.reason == "FieldValueDuplicate").map(|cause| cause.field.clone())
}

fn turn_back(field: &str, live: &Value, body: &Value) -> Option<Vec<Value>> {
    let (list, element) = field.rsplit_once('[')?;
    let unique = element.split_once("].")?.1;
    let (pointer, live, ours) = descend(list, live, body)?;
    let keys_of = |element: &Value| KEYS.map(|key| element.get(key).cloned());
    let ops = live.iter().enumerate().filter_map(|(index, theirs)| {
        if ours.iter().any(|our| keys_of(our) == keys_of(theirs)) {
            return None;
        }
        let our =
            ours.iter().find(|our| our.get(unique).is_some() && our.get(unique) == theirs.get(unique))?;
        // What we do not state, such as the node port, stays as it is.
        let mut turned = theirs.as_object()?.clone();
        turned.extend(our.as_object()?.clone());
        Some(json!({"op": "replace", "path": format!("{pointer}/{index}"), "value": turned}))
    });
    Some(ops.collect())
}

/// Follows a path such as `spec.containers[0].ports` in both objects; elements on the way are the same by name. Gives the
/// JSON pointer into the first one, and both lists.
fn descend<'a>(
    path: &str,
    live: &'a Value,
    body: &'a Value,
) -> Option<(String, &'a Vec<Value>, &'a Vec<Value>)> {
    let (mut pointer, mut live, mut body) = (String::new(), live, body);
    for segment in path.split('.') {
        let (name, index) = match segment.strip_suffix(']').and_then(|segment| segment.split_once('[')) {
            Some((name, index)) => (name, Some(index.parse::<usize>().ok()?)),
            None => (segment, None),
        };
        (live, body) = (live.get(name)?, body.get(name)?);
        pointer = format!("{pointer}/{name}");
        if let Some(index) = index {
            live = live.get(index)?;
            let same = |element: &&Value| element.get("name") == live.get("name");
            body = body.as_array()?.iter().find(same)?;
            pointer = format!("{pointer}/{index}");
        }
    }
    Some((pointer, live.as_array()?, body.as_array()?))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(field: &str) -> kube::Error {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": 422, "reason": "Invalid",
            "details": {"causes": [{"reason": "FieldValueDuplicate", "message": "twice", "field": field}]},
        }))
        .unwrap();
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn a_changed_port_is_turned_back_and_keeps_what_we_do_not_state() {
        let live = json!({"spec": {"ports": [
            {"name": "metrics", "port": 9090, "protocol": "TCP"},
            {"name": "http", "port": 81, "protocol": "TCP", "nodePort": 30080},
            {"name": "extra", "port": 7, "protocol": "TCP"},
        ]}});
        let body = json!({"spec": {"ports": [
            {"name": "http", "port": 80, "protocol": "TCP"}, {"name": "metrics", "port": 9090, "protocol": "TCP"},
        ]}});
        let error = refused("spec.ports[3].name");
        assert!(is_crowded(&error));
        let turned = json!({"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080});
        let expected = vec![json!({"op": "replace", "path": "/spec/ports/1", "value": turned})];
        assert_eq!(make_room(&error, &live, &body), expected);
    }

    #[test]
    fn a_port_of_a_container_is_found_in_the_container_of_the_same_name() {
        let live = json!({"spec": {"containers": [
            {"name": "sidecar"}, {"name": "app", "ports": [{"name": "http", "containerPort": 81, "protocol": "TCP"}]},
        ]}});
        let port = json!({"name": "http", "containerPort": 80, "protocol": "TCP"});
        let body = json!({"spec": {"containers": [{"name": "app", "ports": [port]}]}});
        let expected = vec![json!({"op": "replace", "path": "/spec/containers/1/ports/0", "value": port})];
        assert_eq!(make_room(&refused("spec.containers[1].ports[1].name"), &live, &body), expected);
    }

    #[test]
    fn nothing_is_turned_when_the_cause_is_another() {
        let live = json!({"spec": {"ports": [{"name": "http", "port": 80}]}});
        for field in ["spec.ports[1].name", "spec.ports", "spec.hosts[0].name", "x", "spec.ports[a].name"] {
            assert!(make_room(&refused(field), &live, &live).is_empty(), "{field}");
        }
        let other = kube::Error::Api(Box::default());
        assert!(!is_crowded(&other) && make_room(&other, &live, &live).is_empty());
    }
}
