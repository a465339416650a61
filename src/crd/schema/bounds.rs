use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::{Compare, Sense, Turn, brief};
use crate::crd::path::Path;
use crate::crd::same::{compare, said, same};

/// Formats that the server checks, without dashes, and those of numbers.
const FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
    "int32",
    "int64",
    "float",
    "double",
];

/// An end of the numbers that are valid.
struct End<'s> {
    value: &'s Number,
    open: bool,
}

impl Compare<'_> {
    /// Keywords that bound numbers, lengths and counts.
    pub(super) fn bounds(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
        sense: Sense,
    ) {
        self.end(old, new, at, sense, ("minimum", "exclusiveMinimum"));
        self.end(old, new, at, sense, ("maximum", "exclusiveMaximum"));
        for keyword in ["minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties"] {
            let (old, new) = (said(old, keyword), said(new, keyword));
            if same(keyword, old, new) {
                continue;
            }
            let turn = match (old, new) {
                (None, Some(_)) => Turn::Tighter,
                (Some(_), None) => Turn::Looser,
                (Some(Value::Number(old)), Some(Value::Number(new))) => {
                    if compare(new, old).is_gt() == keyword.starts_with("min") {
                        Turn::Tighter
                    } else {
                        Turn::Looser
                    }
                }
                _ => Turn::Other,
            };
            self.constraint(turn, keyword, at, sense, (old, new), moved(keyword, old, new));
        }
        self.multiple(old, new, at, sense);
        self.unique(old, new, at, sense);
        self.format(old, new, at, sense);
    }

    fn end(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
        sense: Sense,
        (keyword, open): (&'static str, &'static str),
    ) {
        let same_bound = same(keyword, said(old, keyword), said(new, keyword));
        if same_bound && same(open, said(old, open), said(new, open)) {
            return;
        }
        let (was, is) = (said(old, keyword), said(new, keyword));
        let lower = keyword == "minimum";
        let turn = match (end(old, keyword, open), end(new, keyword, open)) {
            // An open end of nothing.
            (None, None) => Turn::Looser,
            (None, Some(_)) => Turn::Tighter,
            (Some(_), None) => Turn::Looser,
            (Some(from), Some(to)) => {
                let order = if lower { compare(to.value, from.value) } else { compare(from.value, to.value) };
                match order {
                    Ordering::Greater => Turn::Tighter,
                    Ordering::Less => Turn::Looser,
                    Ordering::Equal if to.open == from.open => Turn::Other,
                    Ordering::Equal if to.open => Turn::Tighter,
                    Ordering::Equal => Turn::Looser,
                }
            }
        };
        if same_bound {
            let message = format!("{open} {}", super::became(said(old, open), said(new, open)));
            self.constraint(turn, open, at, sense, (old.get(open), new.get(open)), message);
        } else {
            self.constraint(turn, keyword, at, sense, (was, is), moved(keyword, was, is));
        }
    }

    fn multiple(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>, sense: Sense) {
        let (old, new) = (said(old, "multipleOf"), said(new, "multipleOf"));
        if same("multipleOf", old, new) {
            return;
        }
        let divides = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) if a != 0.0 => (b / a).fract() == 0.0,
            _ => false,
        };
        let turn = match (old, new) {
            (None, _) => Turn::Tighter,
            (_, None) => Turn::Looser,
            (Some(old), Some(new)) if divides(new, old) => Turn::Looser,
            (Some(old), Some(new)) if divides(old, new) => Turn::Tighter,
            _ => Turn::Other,
        };
        self.constraint(turn, "multipleOf", at, sense, (old, new), moved("multipleOf", old, new));
    }

    fn unique(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>, sense: Sense) {
        let (old, new) = (said(old, "uniqueItems"), said(new, "uniqueItems"));
        if !same("uniqueItems", old, new) {
            let turn = if new.is_some() { Turn::Tighter } else { Turn::Looser };
            self.constraint(turn, "uniqueItems", at, sense, (old, new), moved("uniqueItems", old, new));
        }
    }

    fn format(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>, sense: Sense) {
        let (old, new) = (said(old, "format"), said(new, "format"));
        if same("format", old, new) {
            return;
        }
        let checked = |format: Option<&Value>| {
            format
                .and_then(Value::as_str)
                .is_some_and(|format| FORMATS.contains(&format.replace('-', "").as_str()))
        };
        let pair = (old.and_then(Value::as_str), new.and_then(Value::as_str));
        let turn = match pair {
            (Some("int32"), Some("int64")) | (Some("float"), Some("double")) => Turn::Looser,
            (Some("int64"), Some("int32")) | (Some("double"), Some("float")) => Turn::Tighter,
            _ => match (old.is_some(), new.is_some()) {
                (_, false) => Turn::Looser,
                (false, _) => Turn::Tighter,
                _ if checked(old) && !checked(new) => Turn::Looser,
                _ if !checked(old) => Turn::Tighter,
                _ => Turn::Other,
            },
        };
        self.constraint(turn, "format", at, sense, (old, new), moved("format", old, new));
    }
}

fn end<'s>(schema: &'s Map<String, Value>, keyword: &str, open: &str) -> Option<End<'s>> {
    let value = said(schema, keyword)?.as_number()?;
    Some(End { value, open: said(schema, open).is_some() })
}

/// `maxLength went from 256 to 512`
pub(super) fn moved(keyword: &str, old: Option<&Value>, new: Option<&Value>) -> String {
    match (old, new) {
        (None, Some(new)) => format!("{keyword} {} is new", brief(new)),
        (Some(old), None) => format!("{keyword} {} is gone", brief(old)),
        (Some(old), Some(new)) => format!("{keyword} changed from {} to {}", brief(old), brief(new)),
        (None, None) => format!("{keyword} changed"),
    }
}
