use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::Error;

/// Levels of JSON in one definition. The API server has no limit of its own but the stack of its decoder; real schemas stay below 60.
const DEPTH: usize = 160;
/// Bytes of one definition: what the API server takes as the body of a request.
const BYTES: usize = 3 << 20;

/// A map without anything in it, for what is absent.
pub(super) static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A CustomResourceDefinition as data, with the server's defaults filled in.
///
/// Invariant: of bounded size and depth, so whatever walks it may recurse.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// `metadata.name`; `plural.group` when a file has none.
    pub name: String,
    /// `spec`, defaults included.
    pub(super) spec: Map<String, Value>,
    /// `metadata.annotations`.
    pub(super) annotations: Map<String, Value>,
    /// Versions in which objects may be stored.
    pub(super) stored: Vec<String>,
    /// Whether scope and kind are fixed. A definition that says nothing about itself is taken for one that is in use.
    pub(super) established: bool,
}

/// One entry of `spec.versions`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'d> {
    pub(super) index: usize,
    pub(super) name: &'d str,
    pub(super) body: &'d Map<String, Value>,
}

impl<'d> Version<'d> {
    pub(super) fn served(&self) -> bool {
        self.body.get("served") == Some(&Value::Bool(true))
    }

    pub(super) fn is_storage(&self) -> bool {
        self.body.get("storage") == Some(&Value::Bool(true))
    }

    pub(super) fn schema(&self) -> Option<&'d Map<String, Value>> {
        self.body.get("schema")?.get("openAPIV3Schema")?.as_object()
    }

    pub(super) fn path(&self) -> String {
        format!("spec.versions[{}]", self.index)
    }
}

impl Definition {
    /// Reads a document.
    ///
    /// Lenient: what the server would refuse is no error here, because two such documents can be compared all the same; see
    /// [`admissible`](super::admissible()).
    ///
    /// # Errors
    /// It is no definition of apiextensions.k8s.io/v1, has no spec with versions, or is too deep or too large.
    pub fn from_value(document: &Value) -> Result<Self, Error> {
        let spec = Self::readable(document)?.clone();
        Ok(Self::made(document, spec))
    }

    /// The same for a document that no caller needs any more: large ones are not copied.
    ///
    /// # Errors
    /// As [`Definition::from_value`].
    pub fn take(mut document: Value) -> Result<Self, Error> {
        Self::readable(&document)?;
        let spec = document.get_mut("spec").map(Value::take);
        // As was read in the line before the last.
        let Some(Value::Object(spec)) = spec else { return Self::from_value(&document) };
        Ok(Self::made(&document, spec))
    }

    fn readable(document: &Value) -> Result<&Map<String, Value>, Error> {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
        let name = text("/metadata/name").filter(|name| !name.is_empty());
        let called = || shown(name.unwrap_or("a definition without a name"));
        of_this_api(document, &called)?;
        measure(document, &called)?;
        let malformed = |path: &str, problem: &str| Error::Malformed {
            name: called(),
            path: path.into(),
            problem: problem.into(),
        };
        let spec = match document.get("spec") {
            Some(Value::Object(spec)) => spec,
            None | Some(Value::Null) => return Err(malformed("spec", "is missing")),
            Some(_) => return Err(malformed("spec", "is not an object")),
        };
        match spec.get("versions") {
            Some(Value::Array(versions)) => {
                for (index, version) in versions.iter().enumerate() {
                    if version.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
                        let path = format!("spec.versions[{index}].name");
                        return Err(malformed(&path, "is missing or not a text"));
                    }
                }
            }
            None | Some(Value::Null) => return Err(malformed("spec.versions", "is missing")),
            Some(_) => return Err(malformed("spec.versions", "is not a list")),
        }
        Ok(spec)
    }

    fn made(document: &Value, mut spec: Map<String, Value>) -> Self {
        defaults(&mut spec);
        let name = document.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let part = |parent: &str, key: &str| {
            spec.get(parent)
                .and_then(|parent| parent.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let group = spec.get("group").and_then(Value::as_str).unwrap_or_default();
        let name = name.map_or_else(|| format!("{}.{group}", part("names", "plural")), str::to_owned);
        let annotations =
            document.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut definition =
            Self { name, spec, annotations, stored: Vec::new(), established: established(document) };
        let recorded = document.pointer("/status/storedVersions").and_then(Value::as_array);
        let mut stored: Vec<String> =
            recorded.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        // The server keeps the storage version in the list; a file has no list.
        let storage = definition.versions().find(Version::is_storage).map(|version| version.name.to_owned());
        stored.extend(storage.filter(|storage| !stored.contains(storage)));
        definition.stored = stored;
        definition
    }

    pub(super) fn text(&self, parent: Option<&str>, key: &str) -> &str {
        let map = match parent {
            Some(parent) => self.spec.get(parent).and_then(Value::as_object),
            None => Some(&self.spec),
        };
        map.and_then(|map| map.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = Version<'_>> {
        let all = self.spec.get("versions").and_then(Value::as_array).into_iter().flatten().enumerate();
        all.filter_map(|(index, version)| {
            let body = version.as_object()?;
            Some(Version { index, name: body.get("name")?.as_str()?, body })
        })
    }

    pub(super) fn version(&self, name: &str) -> Option<Version<'_>> {
        self.versions().find(|version| version.name == name)
    }

    pub(super) fn storage(&self) -> Option<Version<'_>> {
        self.versions().find(Version::is_storage)
    }

    /// Whether a webhook turns an object of one version into one of another.
    pub(super) fn converts(&self) -> bool {
        self.text(Some("conversion"), "strategy") == "Webhook"
    }

    /// The schema of a version.
    #[must_use]
    pub fn schema(&self, version: &str) -> Option<&Map<String, Value>> {
        self.version(version)?.schema()
    }

    /// The kind of the objects.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text(Some("names"), "kind")
    }
}

fn of_this_api(document: &Value, called: &dyn Fn() -> String) -> Result<(), Error> {
    let found = |value: Option<&Value>| match value {
        None => "missing".to_owned(),
        Some(Value::String(text)) => format!("`{}`", shown(text)),
        Some(_) => "not a text".to_owned(),
    };
    let kind = document.get("kind");
    if kind.and_then(Value::as_str) != Some("CustomResourceDefinition") {
        return Err(Error::NotADefinition { name: called(), path: "kind", found: found(kind) });
    }
    let api = document.get("apiVersion");
    match api.and_then(Value::as_str).and_then(|api| api.strip_prefix("apiextensions.k8s.io/")) {
        Some("v1") => Ok(()),
        Some(old) if old.starts_with("v1beta") || old.starts_with("v1alpha") => {
            Err(Error::OldApi { name: called(), found: shown(old) })
        }
        _ => Err(Error::NotADefinition { name: called(), path: "apiVersion", found: found(api) }),
    }
}

/// What the server fills in, so that a file and what became of it are the same.
fn defaults(spec: &mut Map<String, Value>) {
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let absent = |names: &Map<String, Value>, key: &str| {
            names.get(key).is_none_or(|value| value.is_null() || value.as_str() == Some(""))
        };
        if !kind.is_empty() {
            if absent(names, "singular") {
                names.insert("singular".into(), kind.to_lowercase().into());
            }
            if absent(names, "listKind") {
                names.insert("listKind".into(), format!("{kind}List").into());
            }
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), json!({"strategy": "None"}));
    }
    if let Some(service) = spec
        .get_mut("conversion")
        .and_then(|c| c.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut)
    {
        service.entry("port").or_insert_with(|| json!(443));
    }
    if spec.get("preserveUnknownFields").is_some_and(|value| value == &Value::Bool(false) || value.is_null())
    {
        spec.remove("preserveUnknownFields");
    }
}

fn established(document: &Value) -> bool {
    let Some(conditions) = document.pointer("/status/conditions").and_then(Value::as_array) else {
        return true;
    };
    conditions.is_empty()
        || conditions
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Refuses what is too deep to walk or too large for the server.
fn measure(document: &Value, called: &dyn Fn() -> String) -> Result<(), Error> {
    let mut place = Vec::new();
    let Some(bytes) = size(document, &mut place) else {
        place.reverse();
        let path = shown(place.concat().trim_start_matches('.'));
        return Err(Error::TooDeep { name: called(), path, limit: DEPTH });
    };
    if bytes <= BYTES {
        return Ok(());
    }
    let versions = document.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let sizes =
        versions.enumerate().map(|(index, version)| (size(version, &mut Vec::new()).unwrap_or(0), index));
    let (part, path) = match sizes.max() {
        Some((part, index)) => (part, format!("`spec.versions[{index}]`")),
        None => (bytes, "the document".to_owned()),
    };
    Err(Error::TooLarge { name: called(), path, part, bytes, limit: BYTES })
}

/// Bytes as compact JSON, give or take escapes. `None`: too deep, and `place` has the way there, the last step first.
fn size(value: &Value, place: &mut Vec<String>) -> Option<usize> {
    fn walk(value: &Value, left: usize, place: &mut Vec<String>) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match value {
            Value::Null | Value::Bool(_) => Some(5),
            Value::Number(_) => Some(8),
            Value::String(text) => Some(text.len() + 3),
            Value::Array(items) => items.iter().enumerate().try_fold(2, |sum, (index, item)| {
                let size = walk(item, left, place);
                if size.is_none() {
                    place.push(format!("[{index}]"));
                }
                Some(sum + size?)
            }),
            Value::Object(map) => map.iter().try_fold(2, |sum, (key, item)| {
                let size = walk(item, left, place);
                if size.is_none() {
                    place.push(format!(".{key}"));
                }
                Some(sum + key.len() + 4 + size?)
            }),
        }
    }
    walk(value, DEPTH, place)
}

/// Text of a document in a message: never more than a line or two.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 200;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(MOST).collect();
    short.push('…');
    short
}
