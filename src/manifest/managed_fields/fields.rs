use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

/// A set of fields in the JSON form of `fieldsV1`: a map whose keys are `f:name` (field or map key), `k:{json}` (list
/// element by its keys), `v:value` (set element), `i:n` (index) and `.` (the element itself). An empty map is a
/// leaf; an atomic list or map is one leaf. Keys with another prefix are skipped, never an error.
#[derive(Clone, Copy)]
pub(in crate::manifest) struct Fields<'a>(Option<&'a Map<String, Value>>);

/// One step down a body.
#[derive(Clone, Copy)]
pub(in crate::manifest) enum Step<'a> {
    /// Into a field or map key.
    Field(&'a str),
    /// Into the element at an index; the element itself decides which key it has.
    Element(usize, &'a Value),
}

/// What a set of fields says of one step.
pub(in crate::manifest) enum Child<'a> {
    /// Not in the set.
    Absent,
    /// In the set as a whole, or as part of an atomic parent.
    Leaf,
    /// In the set with parts of its own.
    Inner(Fields<'a>),
}

impl<'a> Fields<'a> {
    /// Anything but a map is an empty set.
    pub(in crate::manifest) fn new(fields: Option<&'a Value>) -> Self {
        Self(fields.and_then(Value::as_object))
    }

    /// What an entry of managedFields says; without one nothing.
    pub(in crate::manifest) fn of(entry: impl Into<Option<&'a ManagedFieldsEntry>>) -> Self {
        Self::new(entry.into().and_then(|entry| entry.fields_v1.as_ref()).map(|fields| &fields.0))
    }

    pub(in crate::manifest) fn child(self, step: Step<'_>) -> Child<'a> {
        match self.find(step) {
            None => Child::Absent,
            Some((_, Value::Object(inner))) if inner.keys().any(|key| key != ".") => {
                Child::Inner(Self(Some(inner)))
            }
            Some(_) => Child::Leaf,
        }
    }

    /// How this set names an element: `[name=web]`, `[=value]`.
    pub(super) fn element_name(self, step: Step<'_>) -> Option<String> {
        let (key, _) = self.find(step)?;
        if let Some(json) = key.strip_prefix("k:") {
            let keys: Map<String, Value> = serde_json::from_str(json).ok()?;
            let pairs: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={}", bare(v))).collect();
            return Some(format!("[{}]", pairs.join(",")));
        }
        let json = key.strip_prefix("v:")?;
        Some(format!("[={}]", bare(&serde_json::from_str(json).ok()?)))
    }

    /// The key by which this set knows an element: `k:{"name":"web"}`.
    pub(in crate::manifest) fn element_key(self, step: Step<'_>) -> Option<&'a str> {
        match step {
            Step::Field(_) => None,
            Step::Element(..) => self.find(step).map(|(key, _)| key),
        }
    }

    /// The key that an element would have beside those of this set: by what tells these from each other.
    pub(in crate::manifest) fn key_like(self, element: &Value) -> Option<String> {
        let keys = self.0?.keys().find_map(|key| key_fields(key))?;
        let own = keys.keys().map(|name| Some((name.clone(), element.get(name)?.clone())));
        Some(format!("k:{}", Value::Object(own.collect::<Option<Map<String, Value>>>()?)))
    }

    fn find(self, step: Step<'_>) -> Option<(&'a str, &'a Value)> {
        let map = self.0?;
        match step {
            Step::Field(name) => map.get_key_value(&format!("f:{name}")).map(|(k, v)| (k.as_str(), v)),
            Step::Element(index, element) => {
                map.iter().find(|(key, _)| names_element(key, index, element)).map(|(k, v)| (k.as_str(), v))
            }
        }
    }
}

/// The fields that tell an element from the others of its list, with their values.
pub(in crate::manifest) fn key_fields(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

pub(in crate::manifest) fn names_element(key: &str, index: usize, element: &Value) -> bool {
    if let Some(json) = key.strip_prefix("k:") {
        serde_json::from_str::<Map<String, Value>>(json)
            .is_ok_and(|keys| !keys.is_empty() && keys.iter().all(|(k, v)| element.get(k) == Some(v)))
    } else if let Some(json) = key.strip_prefix("v:") {
        serde_json::from_str::<Value>(json).is_ok_and(|value| value == *element)
    } else if let Some(n) = key.strip_prefix("i:") {
        n.parse() == Ok(index)
    } else {
        false
    }
}

/// A value without the quotes of a JSON string.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_found_by_key_value_and_index() {
        let fields = json!({
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}},
            "v:\"a\"": {}, "v:5": {}, "i:3": {}, "z:new": {}, "k:broken": {}, ".": {}
        });
        let fields = Fields::new(Some(&fields));
        let name = |index, element: Value| fields.element_name(Step::Element(index, &element));
        assert_eq!(
            name(0, json!({"containerPort": 80, "protocol": "TCP", "name": "x"})).as_deref(),
            Some("[containerPort=80,protocol=TCP]")
        );
        assert_eq!(name(0, json!({"containerPort": 80})), None);
        assert_eq!(name(0, json!("a")).as_deref(), Some("[=a]"));
        assert_eq!(name(0, json!(5)).as_deref(), Some("[=5]"));
        assert_eq!(name(0, json!("b")), None);
        assert!(matches!(fields.child(Step::Element(3, &json!("q"))), Child::Leaf));
        assert!(matches!(fields.child(Step::Element(4, &json!("q"))), Child::Absent));
    }

    #[test]
    fn an_element_that_is_not_in_the_set_has_a_key_like_the_others() {
        let fields = json!({".": {}, "k:{\"name\":\"a\"}": {"f:image": {}}});
        let fields = Fields::new(Some(&fields));
        assert_eq!(
            fields.key_like(&json!({"name": "b", "image": "x"})).as_deref(),
            Some("k:{\"name\":\"b\"}")
        );
        assert_eq!(fields.key_like(&json!({"image": "x"})), None);
        assert_eq!(Fields::new(Some(&json!({"v:1": {}}))).key_like(&json!(2)), None);
    }

    #[test]
    fn an_element_with_only_itself_is_a_leaf() {
        let fields = json!({"f:a": {".": {}}, "f:b": {}, "f:c": {".": {}, "f:d": {}}});
        let fields = Fields::new(Some(&fields));
        assert!(matches!(fields.child(Step::Field("a")), Child::Leaf));
        assert!(matches!(fields.child(Step::Field("b")), Child::Leaf));
        assert!(matches!(fields.child(Step::Field("c")), Child::Inner(_)));
        assert!(matches!(fields.child(Step::Field("d")), Child::Absent));
    }

    proptest! {
        /// Whatever stands in a key, looking at it gives an answer.
        #[test]
        fn malformed_keys_are_not_an_error(key in "[fkvi:.]{0,3}.{0,12}") {
            let fields = json!({key: {"f:x": 5}});
            let fields = Fields::new(Some(&fields));
            let element = json!({"name": "x"});
            let _ = fields.element_name(Step::Element(0, &element));
            let _ = fields.child(Step::Field("x"));
        }
    }
}
