use serde_json::Value;

/// Removes what a JSON pointer (RFC 6901) names; the removed value, or `None` when there was nothing.
///
/// A list index removes that element. Parents stay, even when they become empty: an empty map is a statement of
/// the manifest. The empty pointer names the whole document and removes nothing.
///
/// On the way a list element may be called by its name, `/webhooks[name=a.example.com]/clientConfig`, which stays
/// true when the list gets another order.
pub fn remove_pointer(value: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, last) = pointer.rsplit_once('/')?;
    let mut segments = parent.split('/');
    segments.next().filter(|before_the_first| before_the_first.is_empty())?;
    match segments.try_fold(value, step)? {
        Value::Object(map) => map.remove(&unescape(last)),
        Value::Array(items) => {
            let index = index(last).filter(|index| *index < items.len())?;
            Some(items.remove(index))
        }
        _ => None,
    }
}

/// Removes what each of the pointers names, in this order. A list that becomes empty goes too: nothing is a list that
/// nobody says anything about, and an empty one is a statement.
pub fn leave_out(value: &mut Value, pointers: &[String]) {
    for pointer in pointers {
        let list = pointer.rsplit_once('/').map(|(list, _)| list);
        if remove_pointer(value, pointer).is_some()
            && let Some(list) = list
            && value.pointer(list).and_then(Value::as_array).is_some_and(Vec::is_empty)
        {
            remove_pointer(value, list);
        }
    }
}

fn step<'v>(value: &'v mut Value, segment: &str) -> Option<&'v mut Value> {
    match value {
        Value::Array(items) => items.get_mut(index(segment)?),
        Value::Object(map) => {
            let key = unescape(segment);
            if map.contains_key(&key) {
                return map.get_mut(&key);
            }
            let (list, name) = segment.strip_suffix(']')?.split_once(BY_NAME)?;
            let name = unescape(name);
            let items = map.get_mut(&unescape(list))?.as_array_mut()?;
            items.iter_mut().find(|item| item.get("name").and_then(Value::as_str) == Some(&name))
        }
        _ => None,
    }
}

fn index(segment: &str) -> Option<usize> {
    segment.parse().ok().filter(|_| segment == "0" || !segment.starts_with(['0', '+']))
}

const BY_NAME: &str = "[name=";

/// The end of a segment that calls an element of the list by its name.
#[must_use]
pub(super) fn by_name(name: &str) -> String {
    format!("{BY_NAME}{}]", escape(name))
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
    fn an_element_is_found_by_its_name_wherever_it_stands() {
        let full = json!({"w": [{"name": "r", "b": 3}, {"name": "a/b", "b": 4}], "m": {"name": "r"}});
        let pointer = format!("/w{}/b", by_name("a/b"));
        let mut value = full.clone();
        assert_eq!(remove_pointer(&mut value, &pointer), Some(json!(4)));
        assert_eq!(value, json!({"w": [{"name": "r", "b": 3}, {"name": "a/b"}], "m": {"name": "r"}}));
        for pointer in ["/w[name=t]/b", "/m[name=r]/name", "/x[name=r]/b", "/w[name=r/b", "/w[name=r]"] {
            let mut value = full.clone();
            assert_eq!(remove_pointer(&mut value, pointer), None, "{pointer}");
            assert_eq!(value, full, "{pointer}");
        }
    }

    #[test]
    fn a_list_of_which_nothing_is_left_goes_and_a_map_stays() {
        let mut value = json!({"l": [1, 2], "m": {"a": 1}, "k": [1, 2]});
        leave_out(&mut value, &["/m/a", "/l/1", "/l/0", "/k/0", "", "/x/y"].map(str::to_owned));
        assert_eq!(value, json!({"m": {}, "k": [2]}));
    }

    #[test]
    fn an_escaped_segment_is_found_again() {
        let mut value = json!({"a/b~1": 1});
        let pointer = format!("/{}", escape("a/b~1"));
        assert_eq!(remove_pointer(&mut value, &pointer), Some(json!(1)));
    }
}
