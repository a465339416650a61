//! Layers of values laid on each other and on the defaults of a pack, between lines of `%%`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sherpack_operator::pack::layers::{self, Content, LAYERS_MAX, Layer};
use sherpack_operator::pack::values::{self, Step};

const DEFAULTS: &str = "defaults of the pack";

/// The first text is the defaults; a layer is values, or `path: ` and `= ` with the value for it.
pub fn layers(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut texts = text.split("%%\n");
    let Ok(defaults) = values::parse(texts.next().unwrap_or_default().as_bytes(), "values.yaml") else {
        return;
    };
    let defaults = marked(values::merge(json!({}), defaults), DEFAULTS);
    let layers: Vec<Layer> =
        (0..LAYERS_MAX).zip(texts).filter_map(|(number, text)| layer(number, text)).collect();

    let laid = layers::lay(&layers);
    assert_eq!(laid, layers::lay(&layers), "twice is the same");
    let sources = layers::provenance(&defaults, &layers);
    assert_eq!(sources, layers::provenance(&defaults, &layers), "twice is the same");
    let told = json!(sources).to_string().len();
    assert!(sources.len() == 1 || told <= 64 << 10, "{told} bytes of provenance");
    let user = match laid {
        Ok(user) => user,
        Err((number, _)) => {
            assert!(number < layers.len(), "there is no layer {number}");
            return;
        }
    };
    for split in 0..layers.len() {
        let below = layers::lay(&layers[..split]).expect("fewer layers fit too");
        let below = Layer { content: Content::Values(Arc::new(below)), ..named(0) };
        let joined: Vec<Layer> = std::iter::once(below).chain(layers[split..].iter().cloned()).collect();
        // Too many nodes at most: a layer that replaces what is below counts them all the same.
        if let Ok(joined) = layers::lay(&joined) {
            assert_eq!(joined, user, "the first {split} joined are the same");
        }
    }
    let merged = values::merge(defaults, user);
    if let Some(Layer { content: Content::Values(over), .. }) = layers.last() {
        nulls_are_gone(&merged, over);
    }
    provenance_is_of_what_is_there(&merged, &sources);
}

fn named(number: usize) -> Layer {
    let origin = format!("layer-{number}");
    Layer { field: String::new(), content: Content::Values(Arc::new(json!({}))), origin }
}

fn layer(number: usize, text: &str) -> Option<Layer> {
    let layer = named(number);
    let content = if let Some(path) = text.strip_prefix("path: ") {
        let (path, value) = path.split_once("\n= ").unwrap_or((path, ""));
        let value = marked(values::typed(value.trim_end()), &layer.origin);
        Content::At(values::steps(path.trim_end()).ok()?, value)
    } else {
        let values = values::parse(text.as_bytes(), "values.yaml").ok()?;
        Content::Values(Arc::new(marked(values, &layer.origin)))
    };
    Some(Layer { content, ..layer })
}

/// Every scalar but null replaced by the name of its layer.
fn marked(value: Value, origin: &str) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Array(items) => items.into_iter().map(|item| marked(item, origin)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, marked(value, origin))).collect()
        }
        _ => origin.into(),
    }
}

/// What the last layer sets to null is not there; nulls in lists are values.
fn nulls_are_gone(merged: &Value, over: &Value) {
    let Value::Object(fields) = over else { return };
    for (key, over) in fields {
        match over {
            Value::Null => assert!(merged.get(key).is_none(), "{key} is null in the last layer, and there"),
            over => nulls_are_gone(merged.get(key).expect("what the last layer sets is there"), over),
        }
    }
}

fn provenance_is_of_what_is_there(merged: &Value, sources: &BTreeMap<String, Value>) {
    // An empty key has no path that could be read back.
    if !has_empty_key(merged) {
        for path in sources.keys().filter(|path| !path.is_empty()) {
            let steps = values::steps(path).unwrap_or_else(|why| panic!("{path:?}: {why}"));
            let found = steps.iter().try_fold(merged, |value, step| match step {
                Step::Key(key) => value.get(key),
                Step::Index(index) => value.get(index),
            });
            assert!(found.is_some(), "{path:?} is told of and not there");
        }
    }
    let leaves = layers::leaves(merged, sources);
    let paths: BTreeSet<&String> = leaves.iter().map(|(path, ..)| path).collect();
    for (path, value, source) in &leaves {
        assert!(source.is_some(), "{path:?} is of nobody");
        let told = layers::describe(*source);
        if let Some(origin) = value.as_str().filter(|_| paths.len() == leaves.len()) {
            assert!(told.split(" + ").any(|told| told == origin), "{path:?} of {origin} is told as {told}");
        }
    }
}

fn has_empty_key(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| key.is_empty() || has_empty_key(value)),
        Value::Array(items) => items.iter().any(has_empty_key),
        _ => false,
    }
}
