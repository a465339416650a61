//! What the rules beside an `unevaluated..` rule have already spoken about.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Check, Judged};
use crate::pack::schema::compile::{Id, Node, Rule};
use crate::pack::schema::wording::Path;

/// Names of the fields of an object that some rule of this schema concerns.
pub(super) fn properties<'m>(
    check: &mut Check<'_, '_, '_>,
    id: Id,
    value: &Value,
    map: &'m Map<String, Value>,
) -> Judged<BTreeSet<&'m str>> {
    let mut known = BTreeSet::new();
    for beside in applied(check, id, value)? {
        let Node::Rules(rules) = &check.nodes[beside] else { continue };
        for rule in rules {
            match rule {
                Rule::Properties { named, patterns, rest } => {
                    for key in map.keys() {
                        check.pay(1)?;
                        let mut concerned = rest.is_some() || named.contains_key(key);
                        for (pattern, _) in patterns {
                            concerned = concerned || check.matches(pattern, key)?;
                        }
                        if concerned {
                            known.insert(key.as_str());
                        }
                    }
                }
                Rule::UnevaluatedProperties(_) if beside != id => {
                    known.extend(map.keys().map(String::as_str));
                }
                _ => {}
            }
        }
    }
    Ok(known)
}

/// Numbers of the items of a list that some rule of this schema concerns.
pub(super) fn items(
    check: &mut Check<'_, '_, '_>,
    id: Id,
    value: &Value,
    items: &[Value],
) -> Judged<BTreeSet<usize>> {
    let mut known = BTreeSet::new();
    for beside in applied(check, id, value)? {
        let Node::Rules(rules) = &check.nodes[beside] else { continue };
        for rule in rules {
            check.pay(1 + items.len() as u64)?;
            match rule {
                Rule::List { first, rest } => {
                    known.extend(0..if rest.is_some() { items.len() } else { first.len() });
                }
                Rule::UnevaluatedItems(_) if beside != id => known.extend(0..items.len()),
                Rule::Contains { what, .. } => {
                    for (index, item) in items.iter().enumerate() {
                        if check.node(*what, item, &Path::Root, false)? {
                            known.insert(index);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    Ok(known)
}

/// This schema, and those beside it that the value fits. Its own `unevaluated..` rules do not count.
fn applied(check: &mut Check<'_, '_, '_>, start: Id, value: &Value) -> Judged<BTreeSet<Id>> {
    let mut found = BTreeSet::from([start]);
    let mut todo = follow(check, start, value)?;
    while let Some(id) = todo.pop() {
        check.pay(1)?;
        if !found.contains(&id) && check.node(id, value, &Path::Root, false)? {
            found.insert(id);
            todo.extend(follow(check, id, value)?);
        }
    }
    Ok(found)
}

fn follow(check: &mut Check<'_, '_, '_>, id: Id, value: &Value) -> Judged<Vec<Id>> {
    let Node::Rules(rules) = &check.nodes[id] else { return Ok(Vec::new()) };
    let mut next = Vec::new();
    for rule in rules {
        match rule {
            Rule::Reference(id) => next.push(*id),
            Rule::AllOf(list) | Rule::AnyOf(list) | Rule::OneOf(list) => next.extend(list),
            Rule::If { condition, then, otherwise } => {
                let branch = if check.node(*condition, value, &Path::Root, false)? {
                    next.push(*condition);
                    then
                } else {
                    otherwise
                };
                next.extend(branch);
            }
            Rule::DependentSchemas(schemas) => {
                let present = |(key, _): &(&String, &Id)| value.get(key.as_str()).is_some();
                next.extend(schemas.iter().filter(present).map(|(_, id)| *id));
            }
            _ => {}
        }
    }
    check.pay(next.len() as u64)?;
    Ok(next)
}
