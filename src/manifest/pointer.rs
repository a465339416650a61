use serde_json::Value;

/// Removes what a JSON pointer (RFC 6901) names; the removed value, or `None` when there was nothing.
///
/// A list index removes that element. Parents stay, even when they become empty: an empty map is a statement of
/// the manifest. The empty pointer names the whole document and removes nothing.
pub fn remove_pointer(value: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, last) = pointer.rsplit_once('/')?;
    match value.pointer_mut(parent)? {
        Value::Object(map) => map.remove(&unescape(last)),
        Value::Array(items) => {
            let index: usize = last.parse().ok().filter(|_| last == "0" || !last.starts_with(['0', '+']))?;
            (index < items.len()).then(|| items.remove(index))
        }
        _ => None,
    }
}

/// One segment of a pointer: `a/b~c` is `a~1b~0c`.
#[must_use]
pub(super) fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pointer_removes_a_field_an_element_or_nothing() {
        let full = json!({"a": {"x/y": 1, "m~n": 2}, "l": [{"b": 1}, 2]});
        let rows = [
            ("/a/x~1y", Some(json!(1)), json!({"a": {"m~n": 2}, "l": [{"b": 1}, 2]})),
            ("/a/m~0n", Some(json!(2)), json!({"a": {"x/y": 1}, "l": [{"b": 1}, 2]})),
            ("/l/0", Some(json!({"b": 1})), json!({"a": {"x/y": 1, "m~n": 2}, "l": [2]})),
            ("/l/0/b", Some(json!(1)), json!({"a": {"x/y": 1, "m~n": 2}, "l": [{}, 2]})),
            ("/l/2", None, full.clone()),
            ("/l/01", None, full.clone()),
            ("/l/-", None, full.clone()),
            ("/q/r", None, full.clone()),
            ("/l/1/x", None, full.clone()),
            ("", None, full.clone()),
            ("a", None, full.clone()),
        ];
        for (pointer, removed, rest) in rows {
            let mut value = full.clone();
            assert_eq!(remove_pointer(&mut value, pointer), removed, "{pointer}");
            assert_eq!(value, rest, "{pointer}");
        }
    }

    #[test]
    fn an_escaped_segment_is_found_again() {
        let mut value = json!({"a/b~1": 1});
        let pointer = format!("/{}", escape("a/b~1"));
        assert_eq!(remove_pointer(&mut value, &pointer), Some(json!(1)));
    }
}
