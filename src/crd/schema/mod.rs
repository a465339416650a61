//! Two schemas of one version: every keyword is compared, or reported as `Unhandled`.
//!
//! The walk visits a place of both schemas once, and what it does there is linear in what stands there.

mod bounds;
mod branches;
mod fields;
mod lists;
mod rules;
mod types;
mod values;

use serde_json::{Map, Value};

use super::change::{Change, Effect, Probe};
use super::definition::NOTHING;
use super::keywords::fits;
use super::path::{Field, Path};
use super::same::{data, said, same};
use super::{Kind, Severity};

/// Every keyword that is compared.
pub(super) const KEYWORDS: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "example",
    "externalDocs",
    "default",
    "enum",
    "nullable",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// Fields that every whole object has, whatever its schema says.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What being stricter at a place means for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    /// The schema that describes the fields: what it does not name is dropped.
    Structure,
    /// Below `allOf` or `anyOf`: stricter is stricter, but nothing is dropped.
    Same,
    /// Below `not`: stricter is looser.
    Inverted,
    /// Below `oneOf`: either may refuse what was valid.
    Unclear,
}

impl Sense {
    fn below_not(self) -> Self {
        match self {
            Self::Structure | Self::Same => Self::Inverted,
            Self::Inverted => Self::Same,
            Self::Unclear => Self::Unclear,
        }
    }

    fn below_branch(self) -> Self {
        if self == Self::Structure { Self::Same } else { self }
    }
}

/// What a constraint became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Tighter,
    Looser,
    Other,
}

/// Collects the changes of one version.
pub(super) struct Compare<'o> {
    pub(super) version: &'o str,
    pub(super) out: &'o mut Vec<Change>,
}

/// What is said of one keyword.
struct Said<'v> {
    kind: Kind,
    severity: Severity,
    old: Option<&'v Value>,
    new: Option<&'v Value>,
    effect: Option<Effect>,
}

impl<'v> Said<'v> {
    fn new(kind: Kind, severity: Severity, old: Option<&'v Value>, new: Option<&'v Value>) -> Self {
        Self { kind, severity, old, new, effect: None }
    }

    fn refusing(self) -> Self {
        Self { effect: Some(Effect::Refused), ..self }
    }

    fn pruning(self) -> Self {
        Self { effect: Some(Effect::Pruned), ..self }
    }
}

impl Compare<'_> {
    /// Compares what stands at one place, and everything below it.
    pub(super) fn schema(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
        sense: Sense,
    ) {
        // Most of a definition stays as it is.
        if old == new {
            return;
        }
        let comparable = self.types(old, new, at);
        if comparable {
            self.bounds(old, new, at, sense);
            self.fields(old, new, at, sense);
            self.items(old, new, at, sense);
            self.merging(old, new, at);
        }
        self.values(old, new, at, sense);
        self.kept(old, new, at);
        self.branches(old, new, at, sense);
        self.rules(old, new, at);
        self.words(old, new, at);
        self.others(old, new, at);
        self.unreadable(old, new, at);
    }

    /// Keywords with a value that is none: what it would mean cannot be said.
    fn unreadable(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>) {
        let both = old.iter().chain(new.iter().filter(|(keyword, _)| !old.contains_key(*keyword)));
        for (keyword, _) in both.filter(|(keyword, value)| {
            !fits(keyword, value) || new.get(*keyword).is_some_and(|value| !fits(keyword, value))
        }) {
            let (from, to) = (old.get(keyword), new.get(keyword));
            if from != to {
                self.unhandled(keyword, at, from, to);
            }
        }
    }

    /// The places below which a schema is expected, whatever stands there.
    fn below(&mut self, old: &Value, new: &Value, at: &Path<'_>, sense: Sense) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => self.schema(old, new, at, sense),
            (Value::Object(old), Value::Null) => self.schema(old, &NOTHING, at, sense),
            (Value::Null, Value::Object(new)) => self.schema(&NOTHING, new, at, sense),
            (old, new) if data(old) == data(new) => {}
            (old, new) => self.unhandled("", at, Some(old), Some(new)),
        }
    }

    fn words(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>) {
        for keyword in ["title", "description", "example", "externalDocs"] {
            let (old, new) = (said(old, keyword), said(new, keyword));
            if !same(keyword, old, new) {
                let said = Said::new(Kind::UpdateDescription, Severity::Safe, old, new);
                self.say(said, keyword, at, format!("{keyword} {}", became(old, new)));
            }
        }
    }

    fn others(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>) {
        let unknown = |(keyword, _): &(&String, &Value)| !KEYWORDS.contains(&keyword.as_str());
        for (keyword, old) in old.iter().filter(unknown) {
            let (old, new) = (Some(old).filter(|old| !old.is_null()), said(new, keyword));
            if !same(keyword, old, new) {
                self.unhandled(keyword, at, old, new);
            }
        }
        for (keyword, new) in new.iter().filter(unknown).filter(|(keyword, _)| !old.contains_key(*keyword)) {
            if !new.is_null() {
                self.unhandled(keyword, at, None, Some(new));
            }
        }
    }

    fn unhandled(&mut self, keyword: &str, at: &Path<'_>, old: Option<&Value>, new: Option<&Value>) {
        let said = Said::new(Kind::Unhandled, Severity::Warning, old, new);
        let what = if keyword.is_empty() { "the schema" } else { keyword };
        self.say(said, keyword, at, format!("{what} {}, and what that means is not known", became(old, new)));
    }

    /// A constraint that became tighter or looser.
    fn constraint(
        &mut self,
        turn: Turn,
        keyword: &str,
        at: &Path<'_>,
        sense: Sense,
        values: (Option<&Value>, Option<&Value>),
        message: String,
    ) {
        let turn = match (sense, turn) {
            (Sense::Unclear, _) | (_, Turn::Other) => Turn::Other,
            (Sense::Inverted, Turn::Tighter) => Turn::Looser,
            (Sense::Inverted, Turn::Looser) => Turn::Tighter,
            (_, turn) => turn,
        };
        let (kind, severity) = match turn {
            Turn::Tighter => (Kind::TightenValidation, Severity::Dangerous),
            Turn::Looser => (Kind::RelaxValidation, Severity::Safe),
            Turn::Other => (Kind::ChangeValidation, Severity::Dangerous),
        };
        let said = Said::new(kind, severity, values.0, values.1);
        let said = if turn == Turn::Looser { said } else { said.refusing() };
        self.say(said, keyword, at, message);
    }

    fn say(&mut self, said: Said<'_>, keyword: &str, at: &Path<'_>, message: String) {
        let field = at.field();
        self.say_of(said, at.schema(keyword), field, message);
    }

    fn say_of(&mut self, said: Said<'_>, path: String, field: Field, message: String) {
        let message = format!("{} {field}: {message}", self.version);
        let probe = said.effect.map(|effect| Probe { version: self.version.to_owned(), field, effect });
        self.out.push(Change {
            kind: said.kind,
            path,
            severity: said.severity,
            message,
            old: said.old.cloned(),
            new: said.new.cloned(),
            probe,
        });
    }
}

/// `is new`, `is gone`, or `changed`.
fn became(old: Option<&Value>, new: Option<&Value>) -> &'static str {
    match (old, new) {
        (None, _) => "is new",
        (_, None) => "is gone",
        _ => "changed",
    }
}

/// A value in a message: short.
fn brief(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= MOST {
        return text;
    }
    let mut short: String = text.chars().take(MOST).collect();
    short.push('…');
    short
}

/// What stands at a place, when it is a map.
fn map<'s>(schema: &'s Map<String, Value>, keyword: &str) -> &'s Map<String, Value> {
    said(schema, keyword).and_then(Value::as_object).unwrap_or(&NOTHING)
}
