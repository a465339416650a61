//! Whether an object fits a schema, and what of it is kept.
//!
//! The part of the server's validation that can be had without it: everything but CEL rules and rare formats, of which it says that it
//! cannot tell. Bounded: an object costs at most [`FUEL`] steps.

use std::collections::BTreeSet;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::path::{Field, Part};
use super::same::{compare, data, said};

/// Places of schemas that are looked at for one object.
const FUEL: usize = 300_000;
/// Findings of each sort that are kept of one object.
const MANY: usize = 32;
/// Bytes of a compiled pattern.
const COMPILED: usize = 256 << 10;

/// What a schema makes of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Where the object is not valid, and why; the first few.
    pub refused: Vec<(Field, String)>,
    /// What would be dropped at its next write; the first few.
    pub pruned: Vec<Field>,
    /// Where it cannot be told whether the object is valid, and because of which keyword.
    pub unclear: Vec<(Field, &'static str)>,
    /// Too much work: there may be more of everything.
    pub unfinished: bool,
}

/// Judges an object, or with a part of a schema a part of one.
#[must_use]
pub fn check(schema: &Map<String, Value>, object: &Value) -> Fit {
    let mut check = Check { fit: Fit::default(), fuel: FUEL, place: Vec::new(), bare: false };
    check.value(schema, object, true);
    check.prune(schema, object, true);
    check.fit
}

/// The same for a value inside of an object, such as a default.
pub(super) fn check_value(schema: &Map<String, Value>, value: &Value) -> Fit {
    let mut check = Check { fit: Fit::default(), fuel: FUEL, place: Vec::new(), bare: true };
    let whole = said(schema, "x-kubernetes-embedded-resource").is_some();
    check.value(schema, value, whole);
    check.prune(schema, value, whole);
    check.fit
}

struct Check {
    fit: Fit,
    fuel: usize,
    place: Vec<Part>,
    /// Nothing will fill in the defaults of what is missing.
    bare: bool,
}

impl Check {
    fn refuse(&mut self, why: impl Into<String>) {
        if self.fit.refused.len() < MANY {
            self.fit.refused.push((Field(self.place.clone()), why.into()));
        } else {
            self.fit.unfinished = true;
        }
    }

    fn unclear(&mut self, keyword: &'static str) {
        if self.fit.unclear.len() < MANY {
            self.fit.unclear.push((Field(self.place.clone()), keyword));
        } else {
            self.fit.unfinished = true;
        }
    }

    fn step(&mut self) -> bool {
        self.fit.unfinished |= self.fuel == 0;
        self.fuel = self.fuel.saturating_sub(1);
        !self.fit.unfinished
    }

    fn below(&mut self, part: Part, work: impl FnOnce(&mut Self)) {
        self.place.push(part);
        work(self);
        self.place.pop();
    }

    /// Whether a value fits, without a word about it. `None`: it cannot be told.
    fn fits(&mut self, schema: &Map<String, Value>, value: &Value) -> Option<bool> {
        let mut inner = Self { fit: Fit::default(), fuel: self.fuel, place: Vec::new(), bare: self.bare };
        inner.value(schema, value, false);
        self.fuel = inner.fuel;
        self.fit.unfinished |= inner.fit.unfinished && inner.fit.refused.is_empty();
        match (inner.fit.refused.is_empty(), inner.fit.unclear.is_empty() && !inner.fit.unfinished) {
            (false, _) => Some(false),
            (true, true) => Some(true),
            (true, false) => None,
        }
    }

    fn value(&mut self, schema: &Map<String, Value>, value: &Value, whole: bool) {
        if !self.step() {
            return;
        }
        if said(schema, "x-kubernetes-validations").is_some() {
            self.unclear("x-kubernetes-validations");
        }
        if !self.of_type(schema, value) {
            return;
        }
        self.scalar(schema, value);
        match value {
            Value::Object(map) => self.object(schema, map, whole),
            Value::Array(items) => self.list(schema, items),
            _ => {}
        }
        self.branches(schema, value);
    }

    fn of_type(&mut self, schema: &Map<String, Value>, value: &Value) -> bool {
        let of = said(schema, "type").and_then(Value::as_str);
        if value.is_null() {
            // A null that may not be is replaced by the default.
            let fine =
                said(schema, "nullable").is_some() || of.is_none() || said(schema, "default").is_some();
            if !fine {
                self.refuse("must not be null");
            }
            return false;
        }
        let whole = value.as_i64().is_some()
            || value.as_u64().is_some()
            || value.as_f64().is_some_and(|float| float.fract() == 0.0);
        let either = said(schema, "x-kubernetes-int-or-string").is_some();
        let fits = match of {
            // A type beside it is the narrower one.
            None if either => value.is_string() || whole,
            of => match of {
                Some("object") => value.is_object(),
                Some("array") => value.is_array(),
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                Some("number") => value.is_number(),
                Some("integer") => whole,
                _ => true,
            },
        };
        if !fits {
            self.refuse(format!("must be of type {}", of.unwrap_or("integer or string")));
        }
        fits
    }

    fn scalar(&mut self, schema: &Map<String, Value>, value: &Value) {
        if let Some(allowed) = said(schema, "enum").and_then(Value::as_array) {
            let value = data(value);
            if !allowed.iter().any(|one| data(one) == value) {
                self.refuse("is not one of the values of enum");
            }
        }
        let number = |keyword: &str| said(schema, keyword).and_then(Value::as_number);
        if let Value::Number(value) = value {
            let open = |keyword: &str| said(schema, keyword).is_some();
            if let Some(bound) = number("minimum") {
                let order = compare(value, bound);
                if order.is_lt() || (order.is_eq() && open("exclusiveMinimum")) {
                    self.refuse(format!("is below the minimum {bound}"));
                }
            }
            if let Some(bound) = number("maximum") {
                let order = compare(value, bound);
                if order.is_gt() || (order.is_eq() && open("exclusiveMaximum")) {
                    self.refuse(format!("is above the maximum {bound}"));
                }
            }
            if let (Some(step), Some(value)) =
                (number("multipleOf").and_then(serde_json::Number::as_f64), value.as_f64())
                && step != 0.0
                && (value / step).fract() != 0.0
            {
                self.refuse(format!("is no multiple of {step}"));
            }
        }
        if let Value::String(text) = value {
            self.count(schema, "Length", text.chars().count());
            if let Some(pattern) = said(schema, "pattern").and_then(Value::as_str) {
                match RegexBuilder::new(pattern).size_limit(COMPILED).dfa_size_limit(COMPILED).build() {
                    Ok(regex) if regex.is_match(text) => {}
                    Ok(_) => self.refuse("does not match the pattern"),
                    Err(_) => self.unclear("pattern"),
                }
            }
        }
        if let Some(format) = said(schema, "format").and_then(Value::as_str) {
            match of_format(format, value) {
                Some(true) => {}
                Some(false) => self.refuse(format!("is no {format}")),
                None => self.unclear("format"),
            }
        }
    }

    fn count(&mut self, schema: &Map<String, Value>, what: &str, count: usize) {
        let bound = |end: &str| said(schema, &format!("{end}{what}")).and_then(Value::as_f64);
        #[expect(clippy::cast_precision_loss, reason = "no object has 2^52 of anything")]
        let count = count as f64;
        if bound("min").is_some_and(|bound| count < bound) {
            self.refuse(format!("has less than min{what}"));
        }
        if bound("max").is_some_and(|bound| count > bound) {
            self.refuse(format!("has more than max{what}"));
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, object: &Map<String, Value>, whole: bool) {
        self.count(schema, "Properties", object.len());
        let fields = said(schema, "properties").and_then(Value::as_object);
        let required = said(schema, "required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            let defaulted =
                || fields.and_then(|all| all.get(name)).and_then(|field| field.get("default")).is_some();
            if !object.contains_key(name) && (self.bare || !defaulted()) {
                self.below(Part::Key(name.to_owned()), |check| check.refuse("is required"));
            }
        }
        if said(schema, "x-kubernetes-embedded-resource").is_some() {
            for name in ["apiVersion", "kind"] {
                if object.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                    self.below(Part::Key(name.to_owned()), |check| check.refuse("is required"));
                }
            }
        }
        let rest = said(schema, "additionalProperties");
        for (name, value) in object {
            let described = fields.and_then(|fields| fields.get(name)).and_then(Value::as_object);
            let part = Part::Key(name.clone());
            match (described, rest) {
                (Some(field), _) => self.below(part, |check| check.value(field, value, false)),
                (None, Some(Value::Object(rest))) => {
                    self.below(part, |check| check.value(rest, value, false));
                }
                (None, Some(Value::Bool(false))) if !(whole && is_meta(name)) => {
                    self.below(part, |check| check.refuse("is not allowed"));
                }
                _ => {}
            }
        }
    }

    fn list(&mut self, schema: &Map<String, Value>, items: &[Value]) {
        self.count(schema, "Items", items.len());
        if let Some(inner) = said(schema, "items").and_then(Value::as_object) {
            for (index, item) in items.iter().enumerate() {
                self.below(Part::Index(index), |check| check.value(inner, item, false));
            }
        }
        let keys: Vec<&str> = match said(schema, "x-kubernetes-list-map-keys").and_then(Value::as_array) {
            Some(keys) => keys.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
        };
        let identity = |item: &Value| match said(schema, "x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Some(data(item).to_string()),
            Some("map") => {
                let values: Vec<Value> =
                    keys.iter().map(|key| item.get(*key).map(data).unwrap_or_default()).collect();
                Some(Value::from(values).to_string())
            }
            _ => None,
        };
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if identity(item).is_some_and(|identity| !seen.insert(identity)) {
                self.below(Part::Index(index), |check| check.refuse("is there twice"));
            }
        }
    }

    fn branches(&mut self, schema: &Map<String, Value>, value: &Value) {
        let list = |word: &str| -> Vec<&Map<String, Value>> {
            let all = said(schema, word).and_then(Value::as_array);
            all.into_iter().flatten().filter_map(Value::as_object).collect()
        };
        for branch in list("allOf") {
            self.value(branch, value, false);
        }
        for word in ["anyOf", "oneOf"] {
            let branches = list(word);
            if branches.is_empty() {
                continue;
            }
            let answers: Vec<Option<bool>> = branches.iter().map(|branch| self.fits(branch, value)).collect();
            let sure = answers.iter().filter(|answer| **answer == Some(true)).count();
            let open = answers.iter().filter(|answer| answer.is_none()).count();
            match (word, sure, open) {
                ("anyOf", 1.., _) | ("oneOf", 1, 0) => {}
                ("oneOf", 2.., _) => self.refuse("fits several cases of oneOf"),
                (_, _, 1..) => self.unclear(word),
                _ => self.refuse(format!("fits no case of {word}")),
            }
        }
        if let Some(not) = said(schema, "not").and_then(Value::as_object) {
            match self.fits(not, value) {
                Some(true) => self.refuse("fits what it must not"),
                Some(false) => {}
                None => self.unclear("not"),
            }
        }
    }

    /// What the server would drop: whatever no property names.
    fn prune(&mut self, schema: &Map<String, Value>, value: &Value, whole: bool) {
        if !self.step() {
            return;
        }
        let keeps = said(schema, "x-kubernetes-preserve-unknown-fields").is_some();
        let whole = whole || said(schema, "x-kubernetes-embedded-resource").is_some();
        match value {
            Value::Object(map) => {
                let fields = said(schema, "properties").and_then(Value::as_object);
                let rest = said(schema, "additionalProperties").filter(|rest| **rest != Value::Bool(false));
                for (name, inner) in map {
                    if whole && is_meta(name) {
                        continue;
                    }
                    let described = fields.and_then(|fields| fields.get(name)).and_then(Value::as_object);
                    let part = Part::Key(name.clone());
                    match (described, rest) {
                        (Some(field), _) => self.below(part, |check| check.prune(field, inner, false)),
                        (None, Some(Value::Object(rest))) => {
                            self.below(part, |check| check.prune(rest, inner, false));
                        }
                        // Of any key, but what is inside of it is not described and goes.
                        (None, Some(_)) if !keeps => {
                            self.below(part, |check| check.prune(&Map::new(), inner, false));
                        }
                        (None, Some(_)) => {}
                        (None, None) if keeps => {}
                        (None, None) if self.fit.pruned.len() < MANY => {
                            self.below(part, |check| check.fit.pruned.push(Field(check.place.clone())));
                        }
                        (None, None) => self.fit.unfinished = true,
                    }
                }
            }
            Value::Array(items) => {
                let nothing = Map::new();
                let inner = said(schema, "items").and_then(Value::as_object);
                if keeps && inner.is_none() {
                    return;
                }
                for (index, item) in items.iter().enumerate() {
                    self.below(Part::Index(index), |check| {
                        check.prune(inner.unwrap_or(&nothing), item, false);
                    });
                }
            }
            _ => {}
        }
    }
}

fn is_meta(name: &str) -> bool {
    ["apiVersion", "kind", "metadata"].contains(&name)
}

/// `None`: the server checks it, and here it cannot be checked.
fn of_format(format: &str, value: &Value) -> Option<bool> {
    match (format.replace('-', "").as_str(), value) {
        ("int32", Value::Number(number)) => {
            Some(number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()))
        }
        ("int64" | "float" | "double" | "password", _) => Some(true),
        ("datetime", Value::String(text)) => {
            Some(text.contains(['T', 't']) && text.parse::<jiff::Timestamp>().is_ok())
        }
        ("date", Value::String(text)) => Some(text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()),
        ("byte", Value::String(text)) => Some(is_base64(text)),
        ("ipv4", Value::String(text)) => Some(text.parse::<std::net::Ipv4Addr>().is_ok()),
        ("ipv6", Value::String(text)) => Some(text.parse::<std::net::Ipv6Addr>().is_ok()),
        (
            "bsonobjectid" | "uri" | "email" | "hostname" | "cidr" | "mac" | "uuid" | "uuid3" | "uuid4"
            | "uuid5" | "isbn" | "isbn10" | "isbn13" | "creditcard" | "ssn" | "hexcolor" | "rgbcolor"
            | "duration" | "k8sshortname" | "k8slongname",
            Value::String(_),
        ) => None,
        _ => Some(true),
    }
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'+' || c == b'/')
}
