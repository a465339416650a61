//! What may stand behind a flag, and why something else may not.

use std::sync::Arc;

use crate::api;
use crate::manifest::yaml;

/// A DNS label, as the API server wants it of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Namespace(pub(super) String);

pub(super) fn namespace(text: &str) -> Result<Namespace, String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    if bytes.len() <= 63 && bytes.iter().all(|byte| inner(*byte)) && edge(bytes.first()) && edge(bytes.last())
    {
        return Ok(Namespace(text.to_owned()));
    }
    Err("a namespace has 1 to 63 characters of a-z, 0-9 and -, with no - at an end".to_owned())
}

/// The name of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account(pub(super) String);

pub(super) fn account(text: &str) -> Result<Account, String> {
    if api::is_account_name(text) {
        return Ok(Account(text.to_owned()));
    }
    Err("a service account has 1 to 253 characters of a-z, 0-9, - and dots".to_owned())
}

/// Rules of what is left to others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IgnoreRules(pub(super) Vec<Arc<api::IgnoreRule>>);

pub(super) fn ignore_rules(text: &str) -> Result<IgnoreRules, String> {
    let value = yaml::parse_value(text, "the rules").map_err(|error| error.to_string())?;
    let written: Vec<api::DriftIgnore> =
        serde_json::from_value(value).map_err(|error| format!("no list of rules: {error}"))?;
    let parsed = written.iter().enumerate().map(|(at, rule)| {
        let bad = |bad: api::BadRule| match bad.field.as_str() {
            "" => format!("[{at}] {}", bad.message),
            field => format!("[{at}].{field}: {}", bad.message),
        };
        api::IgnoreRule::parse(rule).map(Arc::new).map_err(bad)
    });
    parsed.collect::<Result<_, _>>().map(IgnoreRules)
}

pub(super) fn namespace_or_all(text: &str) -> Result<Namespace, String> {
    if text == "*" { Ok(Namespace(text.to_owned())) } else { namespace(text) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tenancy {
    Single,
    Multi,
}

impl From<Tenancy> for api::Tenancy {
    fn from(tenancy: Tenancy) -> Self {
        match tenancy {
            Tenancy::Single => Self::Single,
            Tenancy::Multi => Self::Multi,
        }
    }
}

/// Room for the largest manifest that is not worked with alone by design.
const MEMORY_MIN: u64 = 16 << 20;

pub(super) fn memory_budget(text: &str) -> Result<u64, String> {
    size(text, MEMORY_MIN)
}

/// A number of bytes, in Ki, Mi, Gi or Ti if that is said.
pub(super) fn size(text: &str, least: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        _ => return Err("a size is a number of bytes, such as 268435456, 256Mi or 2Gi".to_owned()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= least => Ok(bytes),
        Some(_) => Err(format!("it must be at least {}Mi", least >> 20)),
        None => Err("a size is a number of bytes, such as 268435456, 256Mi or 2Gi".to_owned()),
    }
}
