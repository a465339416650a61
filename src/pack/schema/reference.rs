//! Where references inside a schema lead. Identifiers are compared and never followed.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

/// Bytes of an identifier. A longer one names nothing.
const URI: usize = 2000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    Six,
    Seven,
    Later,
}

impl Draft {
    /// What a schema says of itself; without a word, the latest.
    pub(super) fn of(root: &Value) -> Self {
        match root.get("$schema").and_then(Value::as_str) {
            Some(uri) if uri.contains("draft-03") || uri.contains("draft-04") => Self::Four,
            Some(uri) if uri.contains("draft-06") => Self::Six,
            Some(uri) if uri.contains("draft-07") => Self::Seven,
            _ => Self::Later,
        }
    }
}

/// Where a schema stands.
#[derive(Clone)]
pub(super) struct Scope<'v> {
    /// The nearest schema around with an identifier of its own, or the root.
    resource: &'v Value,
    uri: Rc<str>,
}

/// Why a reference names nothing.
pub(super) enum Lost {
    /// It leads out of the document.
    Elsewhere,
    /// It leads to a place that is not there.
    Nowhere,
}

/// Everything that can be named.
pub(super) struct References<'v> {
    draft: Draft,
    resources: HashMap<String, &'v Value>,
    anchors: HashMap<(usize, &'v str), &'v Value>,
}

/// Addresses tell the parts of one document apart.
pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

impl<'v> References<'v> {
    /// Finds everything that a reference can name. Gives the scope of the root too.
    pub(super) fn of(root: &'v Value, draft: Draft) -> (Self, Scope<'v>) {
        let mut all = Self { draft, resources: HashMap::new(), anchors: HashMap::new() };
        let outermost = Scope { resource: root, uri: "".into() };
        let start = all.inside(root, &outermost);
        all.resources.insert(start.uri.to_string(), root);
        all.resources.insert(String::new(), root);
        let mut todo = vec![(root, start.clone())];
        while let Some((value, scope)) = todo.pop() {
            let scope = if std::ptr::eq(value, root) {
                scope
            } else {
                let scope = all.inside(value, &scope);
                all.resources.entry(scope.uri.to_string()).or_insert(scope.resource);
                scope
            };
            match value {
                Value::Object(map) => {
                    let own =
                        if draft < Draft::Later { ["$id", "id"] } else { ["$anchor", "$dynamicAnchor"] };
                    for name in own.into_iter().filter_map(|key| map.get(key)?.as_str()) {
                        let name = name.strip_prefix('#').unwrap_or(name);
                        all.anchors.entry((address(scope.resource), name)).or_insert(value);
                    }
                    todo.extend(map.values().map(|value| (value, scope.clone())));
                }
                Value::Array(items) => todo.extend(items.iter().map(|value| (value, scope.clone()))),
                _ => {}
            }
        }
        (all, start)
    }

    /// The scope inside a schema.
    pub(super) fn inside(&self, value: &'v Value, around: &Scope<'v>) -> Scope<'v> {
        let key = if self.draft == Draft::Four { "id" } else { "$id" };
        let own =
            value.get(key).and_then(Value::as_str).filter(|own| !own.starts_with('#') && own.len() <= URI);
        let uri = own.map(|own| join(&around.uri, own.trim_end_matches('#'))).filter(|uri| uri.len() <= URI);
        uri.map_or_else(|| around.clone(), |uri| Scope { resource: value, uri: uri.into() })
    }

    /// What a reference names, and its scope.
    pub(super) fn follow(&self, reference: &str, from: &Scope<'v>) -> Result<(&'v Value, Scope<'v>), Lost> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let (resource, uri) = if document.is_empty() {
            (from.resource, Rc::clone(&from.uri))
        } else {
            let uri = join(&from.uri, document);
            (*self.resources.get(&uri).ok_or(Lost::Elsewhere)?, uri.into())
        };
        let fragment = percent_decoded(fragment);
        let found = if fragment.is_empty() {
            Some(resource)
        } else if fragment.starts_with('/') {
            resource.pointer(&fragment)
        } else {
            self.anchors.get(&(address(resource), fragment.as_str())).copied()
        };
        Ok((found.ok_or(Lost::Nowhere)?, Scope { resource, uri }))
    }
}

/// An identifier relative to another one. Only to compare them, never to follow them.
fn join(base: &str, uri: &str) -> String {
    let absolute = uri.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    if absolute {
        return uri.to_owned();
    }
    let origin =
        base.find("://").map_or(0, |at| base[at + 3..].find('/').map_or(base.len(), |end| at + 3 + end));
    if uri.starts_with('/') {
        return format!("{}{uri}", &base[..origin]);
    }
    let folder = base[origin..].rfind('/').map_or(origin, |at| origin + at);
    if base.is_empty() { uri.to_owned() } else { format!("{}/{uri}", &base[..folder]) }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = match rest {
            [b'%', a, b, ..] => {
                std::str::from_utf8(&[*a, *b]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
