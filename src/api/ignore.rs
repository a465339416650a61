//! Which fields of which objects are left to others: rules, parsed once.

use kube::core::Selector;

use super::{DriftIgnore, DriftTarget, selector};

/// A rule of `spec.drift.ignore`, or of the operator's default.
#[derive(Clone, Debug, PartialEq)]
pub struct IgnoreRule {
    /// As it was written; what a record keeps.
    pub source: DriftIgnore,
    /// What is ignored of the objects; with `managers` empty as well, all of them.
    pub paths: Vec<FieldPath>,
    /// Field managers whose fields are left to them.
    pub managers: Vec<String>,
    labels: Option<Selector>,
}

/// Fields of a body: a JSON pointer in which `*` stands for any key or list item, and `[name=web]` behind a list for
/// its items of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(pub Vec<Segment>);

/// One step of a [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Any key, any list item.
    Any,
    /// A key; in a list an index.
    Field(String),
    /// List items whose fields have these values.
    Item(Vec<(String, String)>),
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// The field below the rule, such as `paths[0]`; empty: the rule itself.
    pub field: String,
    pub message: String,
}

impl IgnoreRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn parse(source: &DriftIgnore) -> Result<Self, BadRule> {
        let bad =
            |field: &str, message: &str| BadRule { field: field.to_owned(), message: message.to_owned() };
        let DriftIgnore { target, paths, managers } = source;
        let (paths, managers) = (paths.as_deref().unwrap_or_default(), managers.clone().unwrap_or_default());
        let target = target.clone().unwrap_or_default();
        let DriftTarget { group, kind, namespace: _, name, label_selector } = &target;
        if kind.as_deref() == Some("CustomResourceDefinition") {
            let message = "definitions are never ignored: spec.crds says what happens to them";
            return Err(bad("target.kind", message));
        }
        if paths.is_empty() && managers.is_empty() {
            let selects = [group, kind, name, label_selector].into_iter().any(Option::is_some);
            if !selects {
                let message = "ignores every object as a whole: name a target, paths or managers, or set \
                               spec.drift.mode to Disabled";
                return Err(bad("", message));
            }
        }
        if let Some(at) = managers.iter().position(|manager| manager.trim().is_empty()) {
            return Err(bad(&format!("managers[{at}]"), "is empty: name a field manager"));
        }
        let labels = label_selector
            .as_deref()
            .map(|text| selector::parse(text).map_err(|message| bad("target.labelSelector", &message)))
            .transpose()?;
        let parsed = |(at, text): (usize, &String)| {
            FieldPath::parse(text).map_err(|message| bad(&format!("paths[{at}]"), &message))
        };
        let paths = paths.iter().enumerate().map(parsed).collect::<Result<_, _>>()?;
        Ok(Self { source: source.clone(), paths, managers, labels })
    }

    /// Whether it is about an object; `label` gives its labels by their keys.
    #[must_use]
    pub fn selects<'l>(
        &self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        label: impl Fn(&str) -> Option<&'l str>,
    ) -> bool {
        let Some(target) = &self.source.target else { return true };
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        is(&target.group, group)
            && is(&target.kind, kind)
            && is(&target.namespace, namespace.unwrap_or_default())
            && target.name.as_deref().is_none_or(|pattern| like(pattern, name))
            && self.labels.as_ref().is_none_or(|labels| selector::matches(labels, label))
    }
}

/// Whether `text` is what `pattern` says, in which `*` stands for any characters.
fn like(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = tail.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

impl FieldPath {
    /// Parses a path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("`{text}` is no JSON pointer: begin it with /, as in /spec/replicas"));
        };
        let mut segments = Vec::new();
        for part in rest.split('/') {
            parse_segment(text, part, &mut segments)?;
        }
        let fields: Vec<&str> = segments.iter().map(Segment::field).collect();
        if let ["apiVersion" | "kind"] | ["metadata"] | ["metadata", "name" | "namespace"] = fields[..] {
            return Err(format!("`{text}` is what tells the object from others, and cannot be ignored"));
        }
        if let [Segment::Any] = segments[..] {
            return Err(format!("`{text}` is everything: leave paths out to ignore whole objects"));
        }
        Ok(Self(segments))
    }
}

impl Segment {
    /// The key; empty when it is none.
    fn field(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::Any | Self::Item(_) => "",
        }
    }
}

/// One part between slashes: a key, `*`, and behind each perhaps `[key=value,…]`.
fn parse_segment(text: &str, part: &str, segments: &mut Vec<Segment>) -> Result<(), String> {
    let (key, item) = match part.split_once('[') {
        Some((key, rest)) => {
            let item = rest.strip_suffix(']').ok_or_else(|| format!("`{text}` has a `[` without `]`"))?;
            (key, Some(item))
        }
        None => (part, None),
    };
    match key {
        "" if item.is_none() => {
            return Err(format!("`{text}` has nothing between two slashes, or ends with one"));
        }
        "" => {}
        "*" => segments.push(Segment::Any),
        _ => segments.push(Segment::Field(unescape(text, key)?)),
    }
    let Some(item) = item else { return Ok(()) };
    let mut pairs = Vec::new();
    for pair in item.split(',') {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| format!("`{text}` has `[{item}]`, which is not like [name=web]"))?;
        pairs.push((unescape(text, key)?, unescape(text, value)?));
    }
    segments.push(Segment::Item(pairs));
    Ok(())
}

fn unescape(text: &str, part: &str) -> Result<String, String> {
    if part.split('~').skip(1).any(|behind| !behind.starts_with(['0', '1'])) {
        return Err(format!("`{text}` has a ~ that is neither ~0 (for ~) nor ~1 (for /)"));
    }
    Ok(part.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(json: Value) -> Result<IgnoreRule, BadRule> {
        IgnoreRule::parse(&serde_json::from_value(json).unwrap())
    }

    #[test]
    fn paths_are_pointers_with_wildcards_and_items_by_key() {
        let field = |name: &str| Segment::Field(name.to_owned());
        let item = |key: &str, value: &str| Segment::Item(vec![(key.to_owned(), value.to_owned())]);
        for (text, segments) in [
            ("/spec/replicas", vec![field("spec"), field("replicas")]),
            ("/data/*", vec![field("data"), Segment::Any]),
            ("/a~1b/c~0d", vec![field("a/b"), field("c~d")]),
            ("/l/0", vec![field("l"), field("0")]),
            ("/l[name=web]/image", vec![field("l"), item("name", "web"), field("image")]),
            ("/l/[name=a~1b]", vec![field("l"), item("name", "a/b")]),
            ("/*[name=web]", vec![Segment::Any, item("name", "web")]),
        ] {
            assert_eq!(FieldPath::parse(text), Ok(FieldPath(segments)), "{text}");
        }
    }

    #[test]
    fn a_bad_rule_is_named_by_its_field() {
        for (json, field) in [
            (json!({}), ""),
            (json!({"target": {}, "paths": []}), ""),
            (json!({"target": {"namespace": "a"}}), ""),
            (json!({"paths": ["/spec", "spec"]}), "paths[1]"),
            (json!({"paths": [""]}), "paths[0]"),
            (json!({"paths": ["/"]}), "paths[0]"),
            (json!({"paths": ["/spec/"]}), "paths[0]"),
            (json!({"paths": ["/*"]}), "paths[0]"),
            (json!({"paths": ["/metadata"]}), "paths[0]"),
            (json!({"paths": ["/metadata/name"]}), "paths[0]"),
            (json!({"paths": ["/kind"]}), "paths[0]"),
            (json!({"paths": ["/a~2"]}), "paths[0]"),
            (json!({"paths": ["/a[name]"]}), "paths[0]"),
            (json!({"paths": ["/a[=b]"]}), "paths[0]"),
            (json!({"paths": ["/a[name=b"]}), "paths[0]"),
            (json!({"managers": ["m", " "]}), "managers[1]"),
            (json!({"target": {"labelSelector": "a in b"}, "paths": ["/spec"]}), "target.labelSelector"),
            (json!({"target": {"kind": "CustomResourceDefinition"}, "paths": ["/spec"]}), "target.kind"),
        ] {
            assert_eq!(rule(json.clone()).map_err(|bad| bad.field).unwrap_err(), field, "{json}");
        }
    }

    #[test]
    fn a_target_selects_by_all_that_it_says() {
        let label = |key: &str| (key == "app").then_some("web");
        for (target, expected) in [
            (json!({}), true),
            (json!({"kind": "Deployment", "group": "apps"}), true),
            (json!({"kind": "Deployment", "group": ""}), false),
            (json!({"kind": "Service"}), false),
            (json!({"namespace": "shop"}), true),
            (json!({"namespace": "sho*"}), false),
            (json!({"name": "web-*"}), true),
            (json!({"name": "*-a*-*"}), true),
            (json!({"name": "web"}), false),
            (json!({"name": "*-back"}), false),
            (json!({"name": "*"}), true),
            (json!({"labelSelector": "app in (web)"}), true),
            (json!({"labelSelector": "!app"}), false),
        ] {
            let rule = rule(json!({"target": target, "paths": ["/spec"]})).unwrap();
            let selects = rule.selects("apps", "Deployment", Some("shop"), "web-api-front", label);
            assert_eq!(selects, expected, "{target}");
        }
        assert!(rule(json!({"paths": ["/spec"]})).unwrap().selects("", "Node", None, "n", |_| None));
    }
}
