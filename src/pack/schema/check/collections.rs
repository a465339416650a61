//! Rules for lists and objects.

use std::collections::HashSet;

use serde_json::Value;

use super::{Check, Judged, evaluated};
use crate::pack::schema::compile::{Id, Rule};
use crate::pack::schema::wording::{Path, range_text};

impl<'c> Check<'c, '_, '_> {
    pub(super) fn list(
        &mut self,
        id: Id,
        rule: &'c Rule,
        value: &Value,
        items: &[Value],
        path: &Path<'_>,
        report: bool,
    ) -> Judged<bool> {
        let each = |item: usize| Path::Index(path, item);
        match rule {
            Rule::Items { min, max } => {
                let fits = (*min..=*max).contains(&(items.len() as u64));
                self.hold(fits, report, path, || format!("must have {} items", range_text(*min, *max)))
            }
            Rule::Unique => {
                let mut seen = HashSet::new();
                for item in items {
                    let text = item.to_string();
                    self.pay(1 + text.len() as u64 / 32)?;
                    if !seen.insert(text) {
                        return Ok(self.fail(report, path, || "must not have an item twice".to_owned()));
                    }
                }
                Ok(true)
            }
            Rule::List { first, rest } => {
                let mut fits = true;
                for (index, item) in items.iter().enumerate() {
                    let Some(id) = first.get(index).or(rest.as_ref()) else { break };
                    fits &= self.node(*id, item, &each(index), report)?;
                    if !fits && !report {
                        break;
                    }
                }
                Ok(fits)
            }
            Rule::Contains { what, min, max } => {
                let mut count = 0;
                for (index, item) in items.iter().enumerate() {
                    count += u64::from(self.node(*what, item, &each(index), false)?);
                }
                self.hold((*min..=*max).contains(&count), report, path, || {
                    format!("must have {} items of a certain kind (contains)", range_text(*min, *max))
                })
            }
            Rule::UnevaluatedItems(what) => {
                let known = evaluated::items(self, id, value, items)?;
                let mut fits = true;
                for (index, item) in items.iter().enumerate().filter(|(index, _)| !known.contains(index)) {
                    fits &= self.node(*what, item, &each(index), report)?;
                }
                Ok(fits)
            }
            _ => Ok(true),
        }
    }

    pub(super) fn object(
        &mut self,
        id: Id,
        rule: &'c Rule,
        value: &Value,
        map: &serde_json::Map<String, Value>,
        path: &Path<'_>,
        report: bool,
    ) -> Judged<bool> {
        let mut fits = true;
        match rule {
            Rule::Members { min, max } => {
                fits = (*min..=*max).contains(&(map.len() as u64));
                return self
                    .hold(fits, report, path, || format!("must have {} fields", range_text(*min, *max)));
            }
            Rule::Required(names) => fits &= self.present(names, map, path, report)?,
            Rule::Properties { named, patterns, rest } => {
                for (key, value) in map {
                    let place = Path::Key(path, key);
                    let mut known = false;
                    if let Some(id) = named.get(key) {
                        known = true;
                        fits &= self.node(*id, value, &place, report)?;
                    }
                    for (pattern, id) in patterns {
                        if self.matches(pattern, key)? {
                            known = true;
                            fits &= self.node(*id, value, &place, report)?;
                        }
                    }
                    if let Some(id) = rest.filter(|_| !known) {
                        fits &= self.node(id, value, &place, report)?;
                    }
                    if !fits && !report {
                        break;
                    }
                }
            }
            Rule::Names(names) => {
                for key in map.keys() {
                    let name = Value::String(key.clone());
                    if !self.node(*names, &name, path, false)? {
                        fits = self.fail(report, &Path::Key(path, key), || {
                            "has a name that is not allowed (propertyNames)".to_owned()
                        });
                    }
                }
            }
            Rule::DependentRequired(lists) => {
                for (_, names) in lists.iter().filter(|(key, _)| map.contains_key(*key)) {
                    fits &= self.present(names, map, path, report)?;
                }
            }
            Rule::DependentSchemas(schemas) => {
                for (_, id) in schemas.iter().filter(|(key, _)| map.contains_key(*key)) {
                    fits &= self.node(*id, value, path, report)?;
                }
            }
            Rule::UnevaluatedProperties(what) => {
                let known = evaluated::properties(self, id, value, map)?;
                for (key, value) in map.iter().filter(|(key, _)| !known.contains(key.as_str())) {
                    fits &= self.node(*what, value, &Path::Key(path, key), report)?;
                }
            }
            _ => {}
        }
        Ok(fits)
    }

    fn present(
        &mut self,
        names: &[String],
        map: &serde_json::Map<String, Value>,
        path: &Path<'_>,
        report: bool,
    ) -> Judged<bool> {
        self.pay(names.len() as u64)?;
        let mut fits = true;
        for name in names.iter().filter(|name| !map.contains_key(*name)) {
            fits = self.fail(report, &Path::Key(path, name), || "is required".to_owned());
        }
        Ok(fits)
    }
}
