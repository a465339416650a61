//! A label selector as `kubectl -l` takes it: `app=web,tier in (front, back),!canary`.

/// What the labels of an object have to fulfil: all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    /// Also when the label is missing.
    NotIn(Vec<String>),
}

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// What is wrong with which part of it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        parts(text)?.into_iter().map(requirement).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the labels that `label` gives by their keys fulfil it.
    #[must_use]
    pub(super) fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0.iter().all(|Requirement { key, operator }| {
            let among = |values: &[String]| label(key).is_some_and(|value| values.iter().any(|v| v == value));
            match operator {
                Operator::Exists => label(key).is_some(),
                Operator::Absent => label(key).is_none(),
                Operator::In(values) => among(values),
                Operator::NotIn(values) => !among(values),
            }
        })
    }
}

/// Splits at the commas that are not between parentheses.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' if inside => return Err("has a `(` inside of `(`".to_owned()),
            '(' => inside = true,
            ')' if !inside => return Err("has a `)` without `(`".to_owned()),
            ')' => inside = false,
            ',' if !inside => {
                parts.push(text.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("has a `(` without `)`".to_owned());
    }
    parts.push(text.get(begin..).unwrap_or_default());
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let part = part.trim();
    let make = |key: &str, operator| {
        let key = key.trim();
        if is_key(key) {
            return Ok(Requirement { key: key.to_owned(), operator });
        }
        Err(format!("`{part}` does not begin with the key of a label"))
    };
    let one = |value: &str| {
        let value = value.trim();
        if is_value(value) {
            return Ok(vec![value.to_owned()]);
        }
        Err(format!("`{part}` does not end with the value of a label"))
    };
    if let Some(key) = part.strip_prefix('!') {
        return make(key, Operator::Absent);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return make(key, Operator::NotIn(one(value)?));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return make(key, Operator::In(one(value)?));
    }
    if let Some((head, list)) = part.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        let values: Vec<String> = list.split(',').map(|value| value.trim().to_owned()).collect();
        if !values.iter().all(|value| is_value(value)) {
            return Err(format!("`{part}` lists what is no value of a label"));
        }
        return match head.trim().rsplit_once(char::is_whitespace) {
            Some((key, "in")) => make(key, Operator::In(values)),
            Some((key, "notin")) => make(key, Operator::NotIn(values)),
            _ => Err(format!("`{part}` has neither `in` nor `notin` before its list")),
        };
    }
    make(part, Operator::Exists)
}

fn is_key(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    !text.is_empty() && text.bytes().all(allowed) && text.matches('/').count() <= 1
}

fn is_value(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(key: &str) -> Option<&'static str> {
        [("app", "web"), ("example.com/tier", "front"), ("empty", "")]
            .into_iter()
            .find_map(|(name, value)| (name == key).then_some(value))
    }

    #[test]
    fn every_operator_is_understood() {
        for (text, expected) in [
            ("app=web", true),
            ("app == web", true),
            ("app=api", false),
            ("app!=api", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app", true),
            ("other", false),
            ("!other", true),
            ("! app", false),
            ("empty=", true),
            ("app in (api, web)", true),
            ("app in (api)", false),
            ("app notin (api)", true),
            ("other notin (api)", true),
            ("app notin (web)", false),
            ("app=web,example.com/tier in (front,back)", true),
            ("app=web,example.com/tier in (back)", false),
        ] {
            assert_eq!(LabelSelector::parse(text).map(|s| s.matches(label)), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_an_error() {
        for text in
            ["", "app=web,", "=web", "app=we b", "app in web", "app in (web", "app)", "app of (web)", "a b"]
        {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }
}
