mod generic;
mod pods;
mod services;
mod workloads;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::*;
use crate::manifest::yaml::parse_documents;

/// The moment at which every test looks.
fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn live(yaml: &str) -> Value {
    parse_documents(yaml, "test.yaml").unwrap().remove(0)
}

fn judge(yaml: &str) -> Health {
    assess(&live(yaml), None, now())
}

/// Rows of (what is added to `head`, status, reason); every row that fails is shown.
fn table(head: &str, rows: &[(&str, Status, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(body, status, reason)| {
            let health = judge(&format!("{head}\n{body}"));
            ((health.status, health.reason.as_str()) != (*status, *reason))
                .then(|| format!("{body}\n  wanted {status} {reason}, got {health:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{head}\n{}", wrong.join("\n"));
}

const PROGRESS: Status = Status::InProgress;
const CURRENT: (Status, &str) = (Status::Current, "Current");
