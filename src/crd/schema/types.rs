use serde_json::{Map, Value};

use super::{Compare, Said, brief};
use crate::crd::path::Path;
use crate::crd::same::said;
use crate::crd::{Kind, Severity};

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// What a schema says of the type of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Type<'s> {
    Named(&'s str),
    IntOrString,
    /// Both keywords: the narrower one counts.
    Both(&'s str),
    Any,
    /// No text: the server refuses it.
    Wrong(&'s Value),
}

fn of(schema: &Map<String, Value>) -> Type<'_> {
    let either = said(schema, INT_OR_STRING).is_some();
    match said(schema, "type") {
        None if either => Type::IntOrString,
        None => Type::Any,
        Some(Value::String(name)) if either => Type::Both(name),
        Some(Value::String(name)) => Type::Named(name),
        Some(other) => Type::Wrong(other),
    }
}

fn text(of: Type<'_>) -> String {
    match of {
        Type::Named(name) => name.to_owned(),
        Type::IntOrString => "int-or-string".to_owned(),
        Type::Both(name) => format!("{name} and int-or-string"),
        Type::Any => "anything".to_owned(),
        Type::Wrong(value) => brief(value),
    }
}

impl Compare<'_> {
    /// Whether the keywords that belong to a type can still be compared.
    pub(super) fn types(
        &mut self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: &Path<'_>,
    ) -> bool {
        let (from, to) = (of(old), of(new));
        if from == to {
            return true;
        }
        let wider = matches!(
            (from, to),
            (Type::Named("integer"), Type::Named("number"))
                | (Type::Named("integer" | "string") | Type::Both(_), Type::IntOrString)
                | (_, Type::Any)
        );
        let keyword = if said(old, "type") == said(new, "type") { INT_OR_STRING } else { "type" };
        let (severity, consequence) = if wider {
            (Severity::Warning, "what was valid stays valid, but clients may meet what they cannot read")
        } else {
            (Severity::Dangerous, "existing values are refused, and clients cannot read new ones")
        };
        let said = Said::new(Kind::ChangeFieldType, severity, old.get(keyword), new.get(keyword));
        let said = if wider { said } else { said.refusing() };
        let message = format!("the type changed from {} to {}: {consequence}", text(from), text(to));
        self.say(said, keyword, at, message);
        // Of values that become others as a whole nothing more needs to be said; of those that stay, everything.
        wider || from == Type::Any
    }
}
