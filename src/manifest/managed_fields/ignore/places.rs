use serde_json::Value;

use crate::api::{FieldPath, Segment};
use crate::manifest::pointer::escape;

/// One step to a value that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Key(String),
    Index(usize),
}

pub(super) type Path = Vec<Place>;

/// The places in `body` that a path means.
pub(super) fn expand(path: &FieldPath, body: &Value) -> Vec<Path> {
    let mut found = Vec::new();
    go(&path.0, body, &mut Vec::new(), &mut found);
    found
}

fn go(segments: &[Segment], value: &Value, here: &mut Path, found: &mut Vec<Path>) {
    let Some((first, rest)) = segments.split_first() else { return found.push(here.clone()) };
    let mut into = |place: Place, value: &Value| {
        here.push(place);
        go(rest, value, here, found);
        here.pop();
    };
    match (first, value) {
        (Segment::Any, Value::Object(map)) => {
            map.iter().for_each(|(key, value)| into(Place::Key(key.clone()), value));
        }
        (Segment::Any, Value::Array(items)) => {
            items.iter().enumerate().for_each(|(i, item)| into(Place::Index(i), item));
        }
        (Segment::Field(name), Value::Object(map)) => {
            if let Some(value) = map.get(name) {
                into(Place::Key(name.clone()), value);
            }
        }
        (Segment::Field(name), Value::Array(items)) => {
            if let Some((i, item)) = name.parse().ok().and_then(|i: usize| Some((i, items.get(i)?))) {
                into(Place::Index(i), item);
            }
        }
        (Segment::Item(pairs), Value::Array(items)) => {
            let is = |item: &Value| {
                pairs.iter().all(|(key, wanted)| item.get(key).is_some_and(|v| reads(v, wanted)))
            };
            for (i, item) in items.iter().enumerate().filter(|(_, item)| is(item)) {
                into(Place::Index(i), item);
            }
        }
        _ => {}
    }
}

fn reads(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Number(number) => number.to_string() == text,
        Value::Bool(yes) => text == if *yes { "true" } else { "false" },
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// In the order of the document, each once, without what lies below another.
pub(super) fn sorted(mut paths: Vec<Path>) -> Vec<Path> {
    paths.sort();
    let mut kept: Vec<Path> = Vec::new();
    for path in paths {
        if kept.last().is_none_or(|last| !path.starts_with(last)) {
            kept.push(path);
        }
    }
    kept
}

pub(super) fn at<'v>(value: &'v Value, path: &[Place]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, place| match place {
        Place::Key(key) => value.get(key),
        Place::Index(index) => value.get(index),
    })
}

pub(super) fn at_mut<'v>(value: &'v mut Value, path: &[Place]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, place| match place {
        Place::Key(key) => value.get_mut(key),
        Place::Index(index) => value.get_mut(index),
    })
}

pub(super) fn pointer(path: &[Place]) -> String {
    path.iter()
        .map(|place| match place {
            Place::Key(key) => format!("/{}", escape(key)),
            Place::Index(index) => format!("/{index}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wildcards_indexes_and_keys_find_what_is_there() {
        let body = json!({
            "spec": {"replicas": 1, "c": [{"name": "web", "p": [{"n": 80}, {"n": 81}]}, {"name": "a/b"}]},
            "data": {"x": 1, "y.z/w": 2},
        });
        for (path, expected) in [
            ("/spec/replicas", vec!["/spec/replicas"]),
            ("/spec/none", vec![]),
            ("/spec/replicas/deeper", vec![]),
            ("/data/*", vec!["/data/x", "/data/y.z~1w"]),
            ("/data/y.z~1w", vec!["/data/y.z~1w"]),
            ("/spec/c/*/name", vec!["/spec/c/0/name", "/spec/c/1/name"]),
            ("/spec/c[name=web]/p[n=81]", vec!["/spec/c/0/p/1"]),
            ("/spec/c[name=a~1b]", vec!["/spec/c/1"]),
            ("/spec/c[name=web,p=x]", vec![]),
            ("/spec/c/1", vec!["/spec/c/1"]),
            ("/spec/c/2", vec![]),
            ("/spec/c/-", vec![]),
            ("/data[name=web]", vec![]),
        ] {
            let found: Vec<String> =
                expand(&FieldPath::parse(path).unwrap(), &body).iter().map(|path| pointer(path)).collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn what_lies_below_another_is_left_out() {
        let path = |text: &str| -> Path { text.chars().map(|c| Place::Key(c.to_string())).collect() };
        let kept = sorted(vec![path("ab"), path("a"), path("abc"), path("b"), path("b"), path("aa")]);
        assert_eq!(kept, [path("a"), path("b")]);
    }
}
