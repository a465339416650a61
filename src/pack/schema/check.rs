//! Values against compiled rules.
//!
//! Every visit of a rule has a price, also in branches that fail, so that no schema takes longer than the fuel
//! lasts. Messages say what the schema wants and where, never what stands there: it may be a secret.

mod collections;
mod evaluated;
mod scalars;

use std::collections::{HashMap, HashSet};

use fancy_regex::Regex;
use serde_json::Value;

use super::compile::{Compiled, Id, Node, Rule};
use super::pattern;
use super::wording::{Path, compare, enum_text, is_a, type_names};

/// Rules inside rules.
const DEPTH: usize = 500;
/// Violations that are told of.
const SHOWN: usize = 5;

/// What judging may still cost, and whether it is to end.
pub struct Fuel<'s> {
    /// Visits of rules and values.
    pub left: u64,
    /// Asked now and then.
    pub stop: &'s dyn Fn() -> bool,
}

impl std::fmt::Debug for Fuel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fuel").field("left", &self.left).finish_non_exhaustive()
    }
}

/// One value that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where in the values: `image.tag`, `hosts[0]`; empty for the values themselves.
    pub path: String,
    /// What the schema wants there, such as `must be a string`.
    pub wants: String,
}

/// Why values are not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They do not fit. The first few, and how many more there are.
    Violations(Vec<Violation>, usize),
    /// It is not known: judging takes too much.
    Limit(String),
}

pub(super) fn check(compiled: &Compiled, values: &Value, fuel: &mut Fuel<'_>) -> Result<(), Refusal> {
    let mut check = Check {
        nodes: &compiled.nodes,
        fuel,
        patterns: HashMap::new(),
        active: HashSet::new(),
        depth: 0,
        found: Vec::new(),
        more: 0,
    };
    let fits = check.node(compiled.root, values, &Path::Root, true).map_err(Refusal::Limit)?;
    if fits { Ok(()) } else { Err(Refusal::Violations(check.found, check.more)) }
}

/// The text says which limit.
pub(super) type Judged<T> = Result<T, String>;

pub(super) struct Check<'c, 'f, 's> {
    pub(super) nodes: &'c [Node],
    fuel: &'f mut Fuel<'s>,
    patterns: HashMap<&'c str, Regex>,
    /// References that are being followed, each with the value that it is followed for.
    active: HashSet<(Id, usize)>,
    depth: usize,
    found: Vec<Violation>,
    more: usize,
}

impl<'c> Check<'c, '_, '_> {
    pub(super) fn pay(&mut self, price: u64) -> Judged<()> {
        if (self.fuel.stop)() {
            return Err("judging the values takes too long".to_owned());
        }
        self.fuel.left = self
            .fuel
            .left
            .checked_sub(price)
            .ok_or_else(|| "judging the values by the schema takes too much work".to_owned())?;
        Ok(())
    }

    /// Whether a value fits. With `report`, remembers what does not; without, ends at the first.
    pub(super) fn node(&mut self, id: Id, value: &Value, path: &Path<'_>, report: bool) -> Judged<bool> {
        self.pay(1)?;
        let nodes = self.nodes;
        let rules = match &nodes[id] {
            Node::Always => return Ok(true),
            Node::Never => return Ok(self.fail(report, path, || "is not allowed".to_owned())),
            Node::Rules(rules) => rules,
        };
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("the schema refers to itself more than {DEPTH} levels deep"));
        }
        let mut fits = true;
        for rule in rules {
            fits &= self.rule(id, rule, value, path, report)?;
            if !fits && !report {
                break;
            }
        }
        self.depth -= 1;
        Ok(fits)
    }

    fn fail(&mut self, report: bool, path: &Path<'_>, wants: impl FnOnce() -> String) -> bool {
        if report {
            if self.found.len() < SHOWN {
                self.found.push(Violation { path: path.text(), wants: wants() });
            } else {
                self.more += 1;
            }
        }
        false
    }

    /// `fits`, and tells when it is not so.
    fn hold(
        &mut self,
        fits: bool,
        report: bool,
        path: &Path<'_>,
        wants: impl FnOnce() -> String,
    ) -> Judged<bool> {
        Ok(fits || self.fail(report, path, wants))
    }

    fn rule(&mut self, id: Id, rule: &'c Rule, value: &Value, path: &Path<'_>, report: bool) -> Judged<bool> {
        self.pay(1)?;
        match rule {
            Rule::Reference(target) => self.reference(*target, value, path, report),
            Rule::Type(types) => {
                let fits = types.iter().any(|kind| is_a(value, *kind));
                self.hold(fits, report, path, || format!("must be {}", type_names(types)))
            }
            Rule::Enum(options) => {
                for option in options {
                    if self.equal(option, value)? {
                        return Ok(true);
                    }
                }
                Ok(self.fail(report, path, || enum_text(options)))
            }
            Rule::AllOf(list) => self.all_of(list, value, path, report),
            Rule::AnyOf(list) => self.any_of(list, value, path, report),
            Rule::OneOf(list) => self.one_of(list, value, path, report),
            Rule::Not(not) => {
                let fits = self.node(*not, value, path, false)?;
                self.hold(!fits, report, path, || "is what the schema forbids (not)".to_owned())
            }
            Rule::If { condition, then, otherwise } => {
                let branch = if self.node(*condition, value, path, false)? { then } else { otherwise };
                branch.map_or(Ok(true), |id| self.node(id, value, path, report))
            }
            rule => match value {
                Value::Number(number) => self.number(rule, number, path, report),
                Value::String(text) => self.text(rule, text, path, report),
                Value::Array(items) => self.list(id, rule, value, items, path, report),
                Value::Object(map) => self.object(id, rule, value, map, path, report),
                Value::Null | Value::Bool(_) => Ok(true),
            },
        }
    }

    fn reference(&mut self, target: Id, value: &Value, path: &Path<'_>, report: bool) -> Judged<bool> {
        // A schema that refers to itself for the same value says nothing by that.
        let step = (target, std::ptr::from_ref(value) as usize);
        if !self.active.insert(step) {
            return Ok(true);
        }
        let fits = self.node(target, value, path, report);
        self.active.remove(&step);
        fits
    }

    fn all_of(&mut self, list: &[Id], value: &Value, path: &Path<'_>, report: bool) -> Judged<bool> {
        let mut fits = true;
        for id in list {
            fits &= self.node(*id, value, path, report)?;
            if !fits && !report {
                break;
            }
        }
        Ok(fits)
    }

    fn any_of(&mut self, list: &[Id], value: &Value, path: &Path<'_>, report: bool) -> Judged<bool> {
        for id in list {
            if self.node(*id, value, path, false)? {
                return Ok(true);
            }
        }
        Ok(self.fail(report, path, || format!("must fit one of {} alternatives (anyOf)", list.len())))
    }

    fn one_of(&mut self, list: &[Id], value: &Value, path: &Path<'_>, report: bool) -> Judged<bool> {
        let mut count = 0;
        for id in list {
            count += usize::from(self.node(*id, value, path, false)?);
            if count > 1 {
                break;
            }
        }
        self.hold(count == 1, report, path, || {
            format!("must fit exactly one of {} alternatives (oneOf)", list.len())
        })
    }

    pub(super) fn matches(&mut self, pattern: &'c str, text: &str) -> Judged<bool> {
        self.pay(256 + 8 * text.len() as u64)?;
        if text.len() > pattern::TEXT {
            return Err(format!("a text of more than {} KiB is held to a pattern", pattern::TEXT >> 10));
        }
        if !self.patterns.contains_key(pattern) {
            self.pay(2_000)?;
            self.patterns.insert(pattern, pattern::compile(pattern)?);
        }
        // An error is the limit on steps back: a text for which that much is needed is not what the pattern means.
        Ok(self.patterns.get(pattern).is_some_and(|regex| regex.is_match(text).unwrap_or(false)))
    }

    /// `1` is `1.0`, also inside.
    fn equal(&mut self, a: &Value, b: &Value) -> Judged<bool> {
        self.pay(1)?;
        Ok(match (a, b) {
            (Value::Number(a), Value::Number(b)) => compare(a, b).is_eq(),
            (Value::String(a), Value::String(b)) => {
                self.pay(a.len().min(b.len()) as u64 / 64)?;
                a == b
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (a, b) in a.iter().zip(b) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
                for ((key, a), (other, b)) in a.iter().zip(b) {
                    if key != other || !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            _ => false,
        })
    }
}
