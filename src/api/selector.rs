//! Label selectors as text, as every tool of Kubernetes writes them: `shard=a,tier in (web, api),!legacy`.

use std::collections::BTreeMap;

use kube::core::{Expression, Selector, SelectorExt as _};

/// Reads a label selector.
///
/// # Errors
/// Which requirement cannot be read, and how one looks.
pub fn parse(text: &str) -> Result<Selector, String> {
    let mut selector = Selector::default();
    for requirement in requirements(text) {
        let expression = expression(requirement.trim())
            .ok_or_else(|| format!("{:?} is no requirement such as key=value, key!=value, key in (a,b), key notin (a,b), key or !key", requirement.trim()))?;
        selector.extend([expression]);
    }
    Ok(selector)
}

/// Whether the labels that `label` gives by their keys are selected.
pub fn matches<'l>(selector: &Selector, label: impl Fn(&str) -> Option<&'l str>) -> bool {
    let labels: BTreeMap<String, String> = selector
        .clone()
        .into_iter()
        .filter_map(|expression| {
            let (Expression::In(key, _)
            | Expression::NotIn(key, _)
            | Expression::Equal(key, _)
            | Expression::NotEqual(key, _)
            | Expression::Exists(key)
            | Expression::DoesNotExist(key)) = expression;
            let value = label(&key)?.to_owned();
            Some((key, value))
        })
        .collect();
    selector.matches(&labels)
}

/// Splits at the commas outside brackets.
fn requirements(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let mut parts = text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.by_ref().collect()
}

fn expression(text: &str) -> Option<Expression> {
    if let Some(key) = text.strip_prefix('!') {
        return Some(Expression::DoesNotExist(key_of(key)?));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(Expression::NotEqual(key_of(key)?, value_of(value)?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Expression::Equal(key_of(key)?, value_of(value)?));
    }
    if let Some((head, values)) = text.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        let values = values.split(',').map(value_of).collect::<Option<_>>()?;
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Expression::In(key_of(key)?, values)),
            "notin" => Some(Expression::NotIn(key_of(key)?, values)),
            _ => None,
        };
    }
    Some(Expression::Exists(key_of(text)?))
}

/// A label key: a name, perhaps with the prefix of a domain.
fn key_of(text: &str) -> Option<String> {
    let key = text.trim();
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            let fine = |letter: char| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || ".-".contains(letter)
            };
            if prefix.is_empty() || prefix.len() > 253 || !prefix.chars().all(fine) {
                return None;
            }
            name
        }
        None => key,
    };
    (!name.is_empty() && is_value(name)).then(|| key.to_owned())
}

fn value_of(text: &str) -> Option<String> {
    let value = text.trim();
    is_value(value).then(|| value.to_owned())
}

/// Whether `text` may be the value of a label: empty, or up to 63 letters, digits, `-`, `_` and `.` between a letter or digit and
/// another one.
fn is_value(text: &str) -> bool {
    let edge = |letter: Option<char>| letter.is_none_or(|letter| letter.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn matches(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let label = |wanted: &str| labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        super::matches(&parse(selector).unwrap(), label)
    }

    #[test]
    fn every_form_selects_what_the_api_server_would() {
        let web = [("shard", "a"), ("example.com/tier", "web")];
        for (selector, expected) in [
            ("shard=a", true),
            ("shard==a", true),
            ("shard = a", true),
            ("shard=b", false),
            ("shard!=a", false),
            ("shard!=b", true),
            ("other!=b", true),
            ("shard in (a, b)", true),
            ("shard in (b,c)", false),
            ("shard notin (b,c)", true),
            ("other notin (b)", true),
            ("shard", true),
            ("other", false),
            ("!other", true),
            ("!shard", false),
            ("shard in (a,b),example.com/tier=web,!other", true),
            ("shard in (a,b),example.com/tier=db", false),
            ("shard=", false),
        ] {
            assert_eq!(matches(selector, &web), expected, "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_told_by_its_requirement() {
        for wrong in [
            "",
            ",",
            "=a",
            "shard=a=b",
            "shard in a",
            "shard of (a)",
            "shard=a b",
            "-shard",
            "!",
            "a/b/c",
            "/b",
            "shard in (a",
            "shard=a,",
            "A.com/b",
        ] {
            let told = parse(wrong).unwrap_err();
            assert!(told.contains("is no requirement"), "{wrong}: {told}");
        }
    }
}
