use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Compare, META, Said, Sense, Turn, map};
use crate::crd::path::{Path, Step};
use crate::crd::same::{data, said};
use crate::crd::{Kind, Severity};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const REST: &str = "additionalProperties";

impl Compare<'_> {
    /// `properties`, `required` and `additionalProperties`.
    pub(super) fn fields(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
        sense: Sense,
    ) {
        let (before, after) = (map(old, "properties"), map(new, "properties"));
        for (name, to) in after {
            match before.get(name) {
                Some(from) => self.below(from, to, &at.then(Step::Property(name)), sense),
                None if sense == Sense::Structure => self.new_field(name, to, old, new, at),
                None => {
                    let message = format!("{name} is described, and may be refused");
                    let path = at.then(Step::Property(name));
                    self.constraint(Turn::Tighter, "", &path, sense, (None, Some(to)), message);
                }
            }
        }
        for (name, from) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            if sense == Sense::Structure {
                self.lost_field(name, from, old, new, at);
            } else {
                let message = format!("{name} may be anything");
                let path = at.then(Step::Property(name));
                self.constraint(Turn::Looser, "", &path, sense, (Some(from), None), message);
            }
        }
        self.wrong_map("properties", old, new, at);
        self.required(old, new, at, sense);
        self.rest(old, new, at, sense);
    }

    fn wrong_map(
        &mut self,
        keyword: &str,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
    ) {
        let (from, to) = (said(old, keyword), said(new, keyword));
        let fine = |value: Option<&Value>| value.is_none_or(Value::is_object);
        if (!fine(from) || !fine(to)) && from != to {
            self.unhandled(keyword, at, from, to);
        }
    }

    fn new_field(
        &mut self,
        name: &str,
        to: &Value,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
    ) {
        let path = at.then(Step::Property(name));
        let said_new = |kind, severity| Said::new(kind, severity, None, Some(to));
        if is_whole(new, at) && META.contains(&name) {
            let message = "it is described, and was always known".to_owned();
            return self.say(said_new(Kind::AddOptionalField, Severity::Safe), "", &path, message);
        }
        if names(new).contains(name) && !names(old).contains(name) {
            let said = said_new(Kind::AddRequiredField, Severity::Dangerous).refusing();
            return match defaulted(new, name) {
                true => {
                    let message = "it is new and required, and has a default".to_owned();
                    self.say(said_new(Kind::AddRequiredField, Severity::Safe), "", &path, message);
                }
                false => {
                    self.say(said, "", &path, "it is new and required: no existing object has it".to_owned());
                }
            };
        }
        let anything = said(old, REST) == Some(&Value::Bool(true));
        if said(old, PRESERVE).is_some() || anything {
            let said = said_new(Kind::AddOptionalField, Severity::Warning).refusing();
            let message = "it is described, where objects may already have anything".to_owned();
            self.say(said, "", &path, message);
        } else {
            self.say(said_new(Kind::AddOptionalField, Severity::Safe), "", &path, "it is new".to_owned());
            if let Some(rest @ Value::Object(_)) = said(old, REST) {
                self.below(rest, to, &path, Sense::Structure);
            }
        }
    }

    fn lost_field(
        &mut self,
        name: &str,
        from: &Value,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
    ) {
        let path = at.then(Step::Property(name));
        let kind = if names(old).contains(name) { Kind::RemoveRequiredField } else { Kind::RemoveField };
        let gone = |severity| Said::new(kind, severity, Some(from), None);
        if is_whole(new, at) && META.contains(&name) {
            let said = Said::new(Kind::RemoveField, Severity::Safe, Some(from), None);
            return self.say(said, "", &path, "it is no longer described, but always known".to_owned());
        }
        match said(new, REST) {
            _ if said(new, PRESERVE).is_some() => {
                self.say(
                    gone(Severity::Warning),
                    "",
                    &path,
                    "it is no longer described, and kept as it is".to_owned(),
                );
            }
            Some(Value::Bool(true)) => {
                let message =
                    "it is one of any keys now, and what is inside of it is not described".to_owned();
                let said = gone(if from.get("type").is_some_and(is_scalar) {
                    Severity::Warning
                } else {
                    Severity::Dangerous
                });
                self.say(said.pruning(), "", &path, message);
            }
            Some(rest @ Value::Object(_)) => {
                self.say(gone(Severity::Warning), "", &path, "it is one of any keys now".to_owned());
                self.below(from, rest, &path, Sense::Structure);
            }
            _ => {
                let message = "it is gone: dropped from existing objects at their next write".to_owned();
                self.say(gone(Severity::Dangerous).pruning(), "", &path, message);
            }
        }
    }

    fn required(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>, sense: Sense) {
        let (before, after) = (names(old), names(new));
        let (known, still) = (map(old, "properties"), map(new, "properties"));
        for name in after.difference(&before) {
            let (from, to) = (old.get("required"), new.get("required"));
            if sense != Sense::Structure {
                let message = format!("{name} is required");
                self.constraint(Turn::Tighter, "required", at, sense, (from, to), message);
            } else if still.contains_key(*name)
                && !known.contains_key(*name)
                && !(is_whole(new, at) && META.contains(name))
            {
                // Said with the field.
            } else if is_whole(new, at) && META.contains(name) {
                let said = Said::new(Kind::MakeRequired, Severity::Safe, from, to);
                self.say(said, "required", at, format!("{name} is required, and every object has it"));
            } else if defaulted(new, name) {
                let said = Said::new(Kind::MakeRequired, Severity::Safe, from, to);
                self.say_of(
                    said,
                    at.schema("required"),
                    at.field().with(name),
                    "it is required, and has a default".into(),
                );
            } else {
                let said = Said::new(Kind::MakeRequired, Severity::Dangerous, from, to).refusing();
                let message = "it is required: objects without it are refused".to_owned();
                self.say_of(said, at.schema("required"), at.field().with(name), message);
            }
        }
        for name in before.difference(&after) {
            let (from, to) = (old.get("required"), new.get("required"));
            if sense != Sense::Structure {
                let message = format!("{name} is no longer required");
                self.constraint(Turn::Looser, "required", at, sense, (from, to), message);
            } else if still.contains_key(*name) || !known.contains_key(*name) {
                let said = Said::new(Kind::MakeOptional, Severity::Safe, from, to);
                self.say_of(
                    said,
                    at.schema("required"),
                    at.field().with(name),
                    "it is no longer required".to_owned(),
                );
            }
        }
        if sense == Sense::Structure {
            for name in before.intersection(&after).filter(|name| known.contains_key(**name)) {
                if defaulted(old, name) && !defaulted(new, name) && still.contains_key(*name) {
                    let path = at.then(Step::Property(name));
                    let (from, to) = (known[*name].get("default"), None);
                    let said = Said::new(Kind::RemoveDefault, Severity::Dangerous, from, to).refusing();
                    let message = "it is required and has no default any more: objects that never had a value are refused";
                    self.say(said, "default", &path, message.to_owned());
                }
            }
        }
    }

    /// `additionalProperties`: absent, any key, no further key, or a schema for every key.
    fn rest(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, at: &Path<'_>, sense: Sense) {
        let (from, to) = (said(old, REST), said(new, REST));
        if from.map(data) == to.map(data) {
            return;
        }
        let kept = |schema| said(schema, PRESERVE).is_some();
        let say = |kind, severity| Said::new(kind, severity, from, to);
        match (from, to) {
            (Some(from @ Value::Object(_)), Some(to @ Value::Object(_))) => {
                self.below(from, to, &at.then(Step::Values), sense);
            }
            (None, Some(Value::Object(_))) if kept(old) => {
                let message =
                    "further keys are described, where objects may already have anything".to_owned();
                self.constraint(Turn::Tighter, REST, at, sense, (from, to), message);
            }
            (None | Some(Value::Bool(false)), Some(Value::Bool(true) | Value::Object(_)))
                if sense == Sense::Structure =>
            {
                let message = "any further key is valid and kept".to_owned();
                self.say(say(Kind::AddAdditionalProperties, Severity::Safe), REST, at, message);
            }
            (Some(Value::Bool(true) | Value::Object(_)), None) if kept(new) => {
                let message = "further keys are no longer described, and kept as they are".to_owned();
                self.constraint(Turn::Looser, REST, at, sense, (from, to), message);
            }
            (Some(Value::Bool(true) | Value::Object(_)), None | Some(Value::Bool(false)))
                if sense == Sense::Structure =>
            {
                let effect = if to.is_none() { "dropped from existing objects" } else { "refused" };
                let said = say(Kind::RemoveAdditionalProperties, Severity::Dangerous);
                let said = if to.is_none() { said.pruning() } else { said.refusing() };
                self.say(said, REST, at, format!("keys that are not listed are {effect}"));
            }
            (None | Some(Value::Bool(true)), _) => {
                let message = "further keys may be refused".to_owned();
                self.constraint(Turn::Tighter, REST, at, sense, (from, to), message);
            }
            (Some(Value::Object(_)), Some(Value::Bool(true))) => {
                let message =
                    "the values of further keys are not described: fields inside of them are dropped"
                        .to_owned();
                if from.and_then(|from| from.get("type")).is_some_and(is_scalar) {
                    self.constraint(
                        Turn::Looser,
                        REST,
                        at,
                        sense,
                        (from, to),
                        "further keys may be anything".into(),
                    );
                } else {
                    self.say(say(Kind::ChangeValidation, Severity::Dangerous).pruning(), REST, at, message);
                }
            }
            (Some(Value::Bool(false)), _) | (_, None) => {
                let message = "further keys are not refused any more".to_owned();
                self.constraint(Turn::Looser, REST, at, sense, (from, to), message);
            }
            _ => self.unhandled(REST, at, from, to),
        }
    }
}

fn is_scalar(of: &Value) -> bool {
    matches!(of.as_str(), Some("string" | "integer" | "number" | "boolean"))
}

fn names(schema: &Map<String, Value>) -> BTreeSet<&str> {
    said(schema, "required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn defaulted(schema: &Map<String, Value>, name: &str) -> bool {
    map(schema, "properties")
        .get(name)
        .and_then(|field| field.get("default"))
        .is_some_and(|default| !default.is_null())
}

/// Whether the place is a whole object of Kubernetes.
fn is_whole(schema: &Map<String, Value>, at: &Path<'_>) -> bool {
    at.is_root() || said(schema, "x-kubernetes-embedded-resource").is_some()
}
