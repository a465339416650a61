//! Values of several origins laid on each other, and where each of them came from.
//!
//! The layers of a user are laid on each other first (later ones win) and then on the defaults of the pack. What came
//! from where is said for whole subtrees: a path speaks for everything below it that has no path of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::values::{self, Step};

/// Layers above the defaults, at most: one bit of a `Sources` each.
pub const LAYERS_MAX: usize = 60;

/// Scalars, lists and objects of all layers together.
const NODES: usize = 140_000;

/// What the provenance of one revision may take, as JSON. It is stored with each revision.
const PROVENANCE_BYTES: usize = 64 << 10;

/// Values of one origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Such as `ConfigMap/apps/web#values.yaml`.
    pub origin: String,
    /// Where the user asks for it, such as `spec.valuesFrom[0]`.
    pub field: String,
    pub content: Content,
}

/// What a layer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// An object, laid on what is below.
    Values(Arc<Value>),
    /// One value at a path.
    At(Vec<Step>, Value),
}

/// Why a layer cannot be laid on those below. Holds keys of paths, never a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Its path goes through something that has no such part.
    Path(String),
    /// With it there are too many fields and items.
    TooLarge(usize),
}

/// Lays the layers of a user on each other. A null stays: it is to remove a default of the pack.
///
/// # Errors
/// The number of the layer that does not fit.
pub fn lay(layers: &[Layer]) -> Result<Value, (usize, Misfit)> {
    let mut user = Value::Object(Map::new());
    let mut nodes = 0;
    for (number, layer) in layers.iter().enumerate() {
        user = match &layer.content {
            Content::Values(over) => {
                nodes += values::nodes(over);
                if nodes > NODES {
                    return Err((number, Misfit::TooLarge(NODES)));
                }
                values::overlay(user, Value::clone(over))
            }
            Content::At(steps, value) => {
                nodes += steps.len() + 1;
                values::set_at(user, steps, value.clone()).map_err(|why| (number, Misfit::Path(why)))?
            }
        };
    }
    Ok(user)
}

/// Where the parts of the merged values came from, in the shape of Sherpack's records: path to source.
///
/// Within 64 KiB: when every part alone takes more, the deeper ones are told together, as `merged` from several sources.
/// Layers that do not fit (see [`lay`]) are left out.
#[must_use]
pub fn provenance(defaults: &Value, layers: &[Layer]) -> BTreeMap<String, Value> {
    let mut user = Value::Object(Map::new());
    let mut origin = Origin::Of(0);
    for (number, layer) in layers.iter().enumerate().take(LAYERS_MAX) {
        let bit = 2 << number;
        match &layer.content {
            Content::Values(over) => {
                origin = over_origin(Some(&user), origin, over, bit);
                user = values::overlay(user, Value::clone(over));
            }
            Content::At(steps, value) => {
                if let Ok(set) = values::set_at(user.clone(), steps, value.clone()) {
                    origin = at_origin(Some(&user), origin, steps, bit);
                    user = set;
                }
            }
        }
    }
    let origin = on_defaults(Some(defaults), &user, origin);
    let sources = |mask: Sources| source(mask, layers);
    let mut best = BTreeMap::new();
    for depth in 0.. {
        let mut told = Told { entries: BTreeMap::new(), bytes: 0, whole: true };
        if !told.tell(&origin, "", depth, &sources) && depth > 0 {
            break;
        }
        let whole = told.whole;
        best = told.entries;
        if whole {
            break;
        }
    }
    best
}

/// Which layers had a part in something: bit 0 the defaults of the pack, then one for each layer.
type Sources = u64;

const DEFAULTS: Sources = 1;

/// Where a value came from. The fields are exactly those of the object that it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Of(Sources),
    Fields(BTreeMap<String, Self>),
}

impl Origin {
    fn sources(&self) -> Sources {
        match self {
            Self::Of(sources) => *sources,
            Self::Fields(fields) => fields.values().fold(0, |all, field| all | field.sources()),
        }
    }

    /// The fields of `value`, each with its origin.
    fn fields(self, value: Option<&Value>) -> BTreeMap<String, Self> {
        match self {
            Self::Fields(fields) => fields,
            Self::Of(sources) => {
                let object = value.and_then(Value::as_object).into_iter().flatten();
                object.map(|(key, _)| (key.clone(), Self::Of(sources))).collect()
            }
        }
    }

    fn of_fields(fields: BTreeMap<String, Self>, when_empty: Sources) -> Self {
        match fields.values().next() {
            None => Self::Of(when_empty),
            Some(Self::Of(first)) => {
                let first = Self::Of(*first);
                if fields.values().all(|field| *field == first) { first } else { Self::Fields(fields) }
            }
            Some(Self::Fields(_)) => Self::Fields(fields),
        }
    }
}

/// The origin of `overlay(base, over)`.
fn over_origin(base: Option<&Value>, origin: Origin, over: &Value, bit: Sources) -> Origin {
    let (Some(Value::Object(below)), Value::Object(above)) = (base, over) else {
        return Origin::Of(bit);
    };
    if above.is_empty() && !below.is_empty() {
        return origin;
    }
    let mut fields = origin.fields(base);
    for (key, over) in above {
        let theirs = fields.remove(key);
        let field = match theirs {
            Some(origin) => over_origin(below.get(key), origin, over, bit),
            None => Origin::Of(bit),
        };
        fields.insert(key.clone(), field);
    }
    Origin::of_fields(fields, bit)
}

/// The origin of `set_at(base, steps, …)`. A list counts as one value, of all who had a part in it.
fn at_origin(base: Option<&Value>, origin: Origin, steps: &[Step], bit: Sources) -> Origin {
    match steps.split_first() {
        None => Origin::Of(bit),
        Some((Step::Index(_), _)) => match base {
            Some(Value::Array(_)) => Origin::Of(origin.sources() | bit),
            _ => Origin::Of(bit),
        },
        Some((Step::Key(key), rest)) => {
            let mut fields = origin.fields(base);
            let below = base.and_then(|base| base.get(key));
            let theirs = fields.remove(key).unwrap_or(Origin::Of(bit));
            fields.insert(key.clone(), at_origin(below, theirs, rest, bit));
            Origin::of_fields(fields, bit)
        }
    }
}

/// The origin of `merge(base, over)`.
fn on_defaults(base: Option<&Value>, over: &Value, origin: Origin) -> Origin {
    let Value::Object(above) = over else { return origin };
    let all = origin.sources();
    let mut fields = match base {
        Some(Value::Object(_)) => Origin::Of(DEFAULTS).fields(base),
        _ => BTreeMap::new(),
    };
    let mut theirs = origin.fields(Some(over));
    for (key, over) in above {
        let origin = theirs.remove(key).unwrap_or(Origin::Of(all));
        fields.remove(key);
        if !over.is_null() {
            let below = base.and_then(|base| base.get(key));
            fields.insert(key.clone(), on_defaults(below, over, origin));
        }
    }
    Origin::of_fields(fields, if all == 0 { DEFAULTS } else { all })
}

/// A source as records tell it.
fn source(sources: Sources, layers: &[Layer]) -> Value {
    let one = |bit: usize| match bit.checked_sub(1).and_then(|number| layers.get(number)) {
        None => json!({"type": "pack-default"}),
        // The line is not known; readers of the format may want a number.
        Some(layer) => json!({"type": "values-file", "path": layer.origin, "line": 0}),
    };
    let bits: Vec<usize> = (0..=layers.len().min(LAYERS_MAX)).filter(|bit| sources >> bit & 1 == 1).collect();
    match bits.as_slice() {
        [] => one(0),
        [bit] => one(*bit),
        several => {
            let sources: Vec<Value> = several.iter().map(|bit| one(*bit)).collect();
            json!({"type": "merged", "sources": sources})
        }
    }
}

struct Told {
    entries: BTreeMap<String, Value>,
    bytes: usize,
    /// Nothing was told together for want of depth.
    whole: bool,
}

impl Told {
    /// Tells an origin down to `depth`. `false`: that is too much.
    fn tell(
        &mut self,
        origin: &Origin,
        path: &str,
        depth: usize,
        source: &impl Fn(Sources) -> Value,
    ) -> bool {
        if let Origin::Fields(fields) = origin {
            if depth > 0 {
                return fields
                    .iter()
                    .all(|(key, field)| self.tell(field, &joined(path, key), depth - 1, source));
            }
            self.whole = false;
        }
        let source = source(origin.sources());
        self.bytes += path.len() + source.to_string().len() + 6;
        self.entries.insert(path.to_owned(), source);
        self.bytes <= PROVENANCE_BYTES
    }
}

/// The path of a field, as `--set` writes it.
fn joined(path: &str, key: &str) -> String {
    let mut joined = if path.is_empty() { String::new() } else { format!("{path}.") };
    for c in key.chars() {
        if matches!(c, '.' | '[' | '\\') {
            joined.push('\\');
        }
        joined.push(c);
    }
    joined
}

/// Every leaf of `values` with its path and the source that a record gives for it: that of the nearest path above.
#[must_use]
pub fn leaves<'v>(
    values: &'v Value,
    sources: &'v BTreeMap<String, Value>,
) -> Vec<(String, &'v Value, Option<&'v Value>)> {
    let mut found = Vec::new();
    walk(values, String::new(), None, sources, &mut found);
    found
}

fn walk<'v>(
    value: &'v Value,
    path: String,
    above: Option<&'v Value>,
    sources: &'v BTreeMap<String, Value>,
    found: &mut Vec<(String, &'v Value, Option<&'v Value>)>,
) {
    let source = sources.get(&path).or(above);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                walk(field, joined(&path, key), source, sources, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                walk(item, format!("{path}[{index}]"), source, sources, found);
            }
        }
        _ => found.push((path, value, source)),
    }
}

/// A source in words, such as `defaults of the pack`, or the object and key; `unknown` for none.
#[must_use]
pub fn describe(source: Option<&Value>) -> String {
    let Some(source) = source else { return "unknown".to_owned() };
    let text = |field: &str| source.get(field).and_then(Value::as_str).unwrap_or("?");
    match text("type") {
        "pack-default" => "defaults of the pack".to_owned(),
        "schema-default" => "defaults of the schema".to_owned(),
        "values-file" => text("path").to_owned(),
        "command-line" => text("flag").to_owned(),
        "environment" => format!("${}", text("var")),
        "merged" => {
            let sources = source.get("sources").and_then(Value::as_array).into_iter().flatten();
            sources.map(|source| describe(Some(source))).collect::<Vec<_>>().join(" + ")
        }
        other => other.to_owned(),
    }
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
