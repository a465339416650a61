//! A JSON Schema to rules that refer to each other by number.
//!
//! Works off a queue and not by recursion, so that no chain of references is too long for the stack. A reference
//! leads to another place of the same document, or is refused.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::{Map, Number, Value};

use super::format::Format;
use super::pattern;
use super::reference::{Draft, Lost, References, Scope, address};
use crate::pack::shown;

/// Number of a schema in [`Compiled::nodes`].
pub(super) type Id = usize;
type Object = Map<String, Value>;

/// Different patterns of one schema: each takes time and memory whenever values are judged.
const PATTERNS: usize = 200;

#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Id,
}

#[derive(Debug)]
pub(super) enum Node {
    Always,
    Never,
    Rules(Vec<Rule>),
}

/// One thing that a schema wants. Those for a type do not concern values of other types.
#[derive(Debug)]
pub(super) enum Rule {
    Reference(Id),
    Type(Vec<Type>),
    Enum(Vec<Value>),
    MultipleOf(Number),
    Minimum { limit: Number, exclusive: bool },
    Maximum { limit: Number, exclusive: bool },
    Length { min: u64, max: u64 },
    Pattern(String),
    Format(Format),
    Items { min: u64, max: u64 },
    Unique,
    List { first: Vec<Id>, rest: Option<Id> },
    Contains { what: Id, min: u64, max: u64 },
    Members { min: u64, max: u64 },
    Required(Vec<String>),
    Properties { named: BTreeMap<String, Id>, patterns: Vec<(String, Id)>, rest: Option<Id> },
    Names(Id),
    DependentRequired(BTreeMap<String, Vec<String>>),
    DependentSchemas(BTreeMap<String, Id>),
    AllOf(Vec<Id>),
    AnyOf(Vec<Id>),
    OneOf(Vec<Id>),
    Not(Id),
    If { condition: Id, then: Option<Id>, otherwise: Option<Id> },
    UnevaluatedProperties(Id),
    UnevaluatedItems(Id),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    pub(super) const ALL: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];
}

/// Why a document is not a schema that can be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Invalid(String),
    /// A reference that leads out of the document.
    Elsewhere(String),
}

struct Compiler<'v> {
    draft: Draft,
    references: References<'v>,
    ids: HashMap<usize, Id>,
    nodes: Vec<Node>,
    /// For each node the one that it was reached from, and the keys on the way.
    places: Vec<(Id, String)>,
    queue: VecDeque<(Id, &'v Value, Scope<'v>)>,
    patterns: BTreeSet<&'v str>,
}

pub(super) fn compile(root: &Value) -> Result<Compiled, Fault> {
    let draft = Draft::of(root);
    let (references, scope) = References::of(root, draft);
    let mut compiler = Compiler {
        draft,
        references,
        ids: HashMap::new(),
        nodes: Vec::new(),
        places: Vec::new(),
        queue: VecDeque::new(),
        patterns: BTreeSet::new(),
    };
    let start = compiler.id(root, &scope, 0, String::new());
    while let Some((id, value, scope)) = compiler.queue.pop_front() {
        compiler.nodes[id] = compiler.node(id, value, scope)?;
    }
    Ok(Compiled { nodes: compiler.nodes, root: start })
}

impl<'v> Compiler<'v> {
    fn id(&mut self, value: &'v Value, scope: &Scope<'v>, from: Id, step: String) -> Id {
        if let Some(known) = self.ids.get(&address(value)) {
            return *known;
        }
        let id = self.nodes.len();
        self.nodes.push(Node::Always);
        self.places.push((from, step));
        self.ids.insert(address(value), id);
        self.queue.push_back((id, value, scope.clone()));
        id
    }

    /// Says where: as a path through the schema, shortened in the middle.
    fn fault(&self, at: Id, message: &str) -> Fault {
        let mut steps = Vec::new();
        let mut id = at;
        while id != 0 && steps.len() < 100 {
            let (from, step) = &self.places[id];
            steps.push(step.as_str());
            id = *from;
        }
        steps.reverse();
        let path: String = steps.join(".").chars().take(200).collect();
        Fault::Invalid(if path.is_empty() { message.to_owned() } else { format!("`{path}`: {message}") })
    }

    fn node(&mut self, id: Id, value: &'v Value, scope: Scope<'v>) -> Result<Node, Fault> {
        let map = match value {
            Value::Bool(true) => return Ok(Node::Always),
            Value::Bool(false) => return Ok(Node::Never),
            Value::Object(map) => map,
            _ => return Err(self.fault(id, "a schema is an object, true or false")),
        };
        let scope = self.references.inside(value, &scope);
        let mut rules = Vec::new();
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = map.get(key) else { continue };
            let Some(reference) = reference.as_str() else {
                return Err(self.fault(id, &format!("`{key}` is not text")));
            };
            let (target, scope) = match self.references.follow(reference, &scope) {
                Ok(found) => found,
                Err(Lost::Elsewhere) => return Err(Fault::Elsewhere(shown(reference, 100))),
                Err(Lost::Nowhere) => {
                    let message = format!("`{key}: {}` leads nowhere", shown(reference, 100));
                    return Err(self.fault(id, &message));
                }
            };
            let step = format!("{key}({})", shown(reference, 100));
            rules.push(Rule::Reference(self.id(target, &scope, id, step)));
        }
        // Also those that nothing refers to: a mistake there is one.
        for key in ["definitions", "$defs"] {
            for (name, value) in map.get(key).and_then(Value::as_object).into_iter().flatten() {
                self.id(value, &scope, id, format!("{key}.{}", shown(name, 100)));
            }
        }
        // Before draft 2019-09, nothing counts beside a reference.
        if rules.is_empty() || self.draft == Draft::Later {
            self.scalars(id, map, &mut rules)?;
            self.lists(id, map, &scope, &mut rules)?;
            self.objects(id, map, &scope, &mut rules)?;
            self.combinations(id, map, &scope, &mut rules)?;
        }
        Ok(if rules.is_empty() { Node::Always } else { Node::Rules(rules) })
    }

    fn scalars(&mut self, id: Id, map: &'v Object, rules: &mut Vec<Rule>) -> Result<(), Fault> {
        if let Some(types) = map.get("type") {
            let one = std::slice::from_ref(types);
            let names = types.as_array().map_or(one, Vec::as_slice);
            let known =
                |name: &Value| Type::ALL.iter().find(|(known, _)| name == known).map(|(_, kind)| *kind);
            let types: Option<Vec<Type>> = names.iter().map(known).collect();
            let types = types.ok_or_else(|| self.fault(id, "`type` names no type of JSON"))?;
            rules.push(Rule::Type(types));
        }
        match map.get("enum") {
            None => {}
            Some(Value::Array(options)) => rules.push(Rule::Enum(options.clone())),
            Some(_) => return Err(self.fault(id, "`enum` is not a list")),
        }
        if let Some(value) = map.get("const").filter(|_| self.draft > Draft::Four) {
            rules.push(Rule::Enum(vec![value.clone()]));
        }
        if let Some(number) = self.number(id, map, "multipleOf")? {
            if number.as_f64().is_none_or(|number| number <= 0.0) {
                return Err(self.fault(id, "`multipleOf` is not above 0"));
            }
            rules.push(Rule::MultipleOf(number));
        }
        // In draft 4 the exclusive ones are switches.
        let switch = |key: &str| map.get(key) == Some(&Value::Bool(true));
        if let Some(limit) = self.number(id, map, "minimum")? {
            rules.push(Rule::Minimum { limit, exclusive: switch("exclusiveMinimum") });
        }
        if let Some(limit) = self.number(id, map, "maximum")? {
            rules.push(Rule::Maximum { limit, exclusive: switch("exclusiveMaximum") });
        }
        if let Some(limit) = self.exclusive(id, map, "exclusiveMinimum")? {
            rules.push(Rule::Minimum { limit, exclusive: true });
        }
        if let Some(limit) = self.exclusive(id, map, "exclusiveMaximum")? {
            rules.push(Rule::Maximum { limit, exclusive: true });
        }
        if let Some((min, max)) = self.range(id, map, "minLength", "maxLength")? {
            rules.push(Rule::Length { min, max });
        }
        if let Some(pattern) = map.get("pattern") {
            let Some(pattern) = pattern.as_str() else { return Err(self.fault(id, "`pattern` is not text")) };
            self.pattern(id, pattern)?;
            rules.push(Rule::Pattern(pattern.to_owned()));
        }
        // Later drafts only annotate with it.
        if let Some(name) = map.get("format").and_then(Value::as_str).filter(|_| self.draft < Draft::Later) {
            rules.extend(Format::of(name).map(Rule::Format));
        }
        Ok(())
    }

    fn exclusive(&self, id: Id, map: &Object, key: &str) -> Result<Option<Number>, Fault> {
        if self.draft == Draft::Four { Ok(None) } else { self.number(id, map, key) }
    }

    fn lists(
        &mut self,
        id: Id,
        map: &'v Object,
        scope: &Scope<'v>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), Fault> {
        if let Some((min, max)) = self.range(id, map, "minItems", "maxItems")? {
            rules.push(Rule::Items { min, max });
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            rules.push(Rule::Unique);
        }
        let tuple = if map.get("items").is_some_and(Value::is_array) { "items" } else { "prefixItems" };
        let first = match map.get(tuple) {
            Some(_) => self.schemas(id, map, scope, tuple)?,
            None => Vec::new(),
        };
        let rest = if tuple == "items" { "additionalItems" } else { "items" };
        let rest = self.schema(id, map, scope, rest);
        if !first.is_empty() || rest.is_some() {
            rules.push(Rule::List { first, rest });
        }
        if let Some(what) = self.schema(id, map, scope, "contains") {
            let (min, max) = self.range(id, map, "minContains", "maxContains")?.unwrap_or((1, u64::MAX));
            let min = if map.contains_key("minContains") { min } else { 1 };
            rules.push(Rule::Contains { what, min, max });
        }
        if let Some(what) = self.schema(id, map, scope, "unevaluatedItems") {
            rules.push(Rule::UnevaluatedItems(what));
        }
        Ok(())
    }

    fn objects(
        &mut self,
        id: Id,
        map: &'v Object,
        scope: &Scope<'v>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), Fault> {
        if let Some((min, max)) = self.range(id, map, "minProperties", "maxProperties")? {
            rules.push(Rule::Members { min, max });
        }
        match map.get("required") {
            None => {}
            // A habit of draft 3 that every tool passes over.
            Some(Value::Bool(_)) if self.draft == Draft::Four => {}
            Some(names) => rules.push(Rule::Required(self.names(id, names, "required")?)),
        }
        let named = self.named(id, map, scope, "properties")?;
        let patterns: Vec<(String, Id)> =
            self.named(id, map, scope, "patternProperties")?.into_iter().collect();
        for pattern in map.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys)
        {
            self.pattern(id, pattern)?;
        }
        let rest = self.schema(id, map, scope, "additionalProperties");
        if !named.is_empty() || !patterns.is_empty() || rest.is_some() {
            rules.push(Rule::Properties { named, patterns, rest });
        }
        if let Some(names) = self.schema(id, map, scope, "propertyNames") {
            rules.push(Rule::Names(names));
        }
        let mut lists = BTreeMap::new();
        let mut schemas = self.named(id, map, scope, "dependentSchemas")?;
        for key in ["dependencies", "dependentRequired"] {
            for (name, value) in map.get(key).and_then(Value::as_object).into_iter().flatten() {
                if value.is_array() {
                    lists.insert(name.clone(), self.names(id, value, key)?);
                } else {
                    schemas.insert(
                        name.clone(),
                        self.id(value, scope, id, format!("{key}.{}", shown(name, 100))),
                    );
                }
            }
        }
        if !lists.is_empty() {
            rules.push(Rule::DependentRequired(lists));
        }
        if !schemas.is_empty() {
            rules.push(Rule::DependentSchemas(schemas));
        }
        if let Some(what) = self.schema(id, map, scope, "unevaluatedProperties") {
            rules.push(Rule::UnevaluatedProperties(what));
        }
        Ok(())
    }

    fn combinations(
        &mut self,
        id: Id,
        map: &'v Object,
        scope: &Scope<'v>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), Fault> {
        for (key, rule) in
            [("allOf", Rule::AllOf as fn(Vec<Id>) -> Rule), ("anyOf", Rule::AnyOf), ("oneOf", Rule::OneOf)]
        {
            if map.contains_key(key) {
                let list = self.schemas(id, map, scope, key)?;
                if list.is_empty() {
                    return Err(self.fault(id, &format!("`{key}` is empty")));
                }
                rules.push(rule(list));
            }
        }
        if let Some(not) = self.schema(id, map, scope, "not") {
            rules.push(Rule::Not(not));
        }
        if self.draft >= Draft::Seven
            && let Some(condition) = self.schema(id, map, scope, "if")
        {
            let then = self.schema(id, map, scope, "then");
            let otherwise = self.schema(id, map, scope, "else");
            rules.push(Rule::If { condition, then, otherwise });
        }
        // What looks at the outcome of the others comes last.
        rules.sort_by_key(|rule| matches!(rule, Rule::UnevaluatedProperties(_) | Rule::UnevaluatedItems(_)));
        Ok(())
    }

    fn schema(&mut self, id: Id, map: &'v Object, scope: &Scope<'v>, key: &str) -> Option<Id> {
        let value = map.get(key)?;
        Some(self.id(value, scope, id, key.to_owned()))
    }

    fn schemas(&mut self, id: Id, map: &'v Object, scope: &Scope<'v>, key: &str) -> Result<Vec<Id>, Fault> {
        let Some(Value::Array(list)) = map.get(key) else {
            return Err(self.fault(id, &format!("`{key}` is not a list")));
        };
        let one = |(index, value): (usize, &'v Value)| self.id(value, scope, id, format!("{key}.{index}"));
        Ok(list.iter().enumerate().map(one).collect())
    }

    fn named(
        &mut self,
        id: Id,
        map: &'v Object,
        scope: &Scope<'v>,
        key: &str,
    ) -> Result<BTreeMap<String, Id>, Fault> {
        match map.get(key) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(list)) => Ok(list
                .iter()
                .map(|(name, value)| {
                    (name.clone(), self.id(value, scope, id, format!("{key}.{}", shown(name, 100))))
                })
                .collect()),
            Some(_) => Err(self.fault(id, &format!("`{key}` is not an object"))),
        }
    }

    fn names(&self, id: Id, list: &Value, key: &str) -> Result<Vec<String>, Fault> {
        let names =
            list.as_array().and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let names = names.ok_or_else(|| self.fault(id, &format!("`{key}` is not a list of names")))?;
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn number(&self, id: Id, map: &Object, key: &str) -> Result<Option<Number>, Fault> {
        match map.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number.clone())),
            Some(_) => Err(self.fault(id, &format!("`{key}` is not a number"))),
        }
    }

    fn range(&self, id: Id, map: &Object, least: &str, most: &str) -> Result<Option<(u64, u64)>, Fault> {
        let count = |key: &str| match self.number(id, map, key)? {
            None => Ok(None),
            Some(number) => number
                .as_u64()
                .or_else(|| number.as_f64().filter(|n| *n >= 0.0 && n.fract() == 0.0).map(|n| n as u64))
                .map(Some)
                .ok_or_else(|| self.fault(id, &format!("`{key}` is not a whole number from 0"))),
        };
        let (least, most) = (count(least)?, count(most)?);
        Ok((least.is_some() || most.is_some()).then(|| (least.unwrap_or(0), most.unwrap_or(u64::MAX))))
    }

    fn pattern(&mut self, id: Id, text: &'v str) -> Result<(), Fault> {
        if !self.patterns.insert(text) {
            return Ok(());
        }
        if self.patterns.len() > PATTERNS {
            return Err(self.fault(id, &format!("there are more than {PATTERNS} patterns")));
        }
        pattern::compile(text).map(|_| ()).map_err(|message| self.fault(id, &message))
    }
}
