//! `status`: where one release stands, and the one command that helps next.

use std::fmt::Write as _;
use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::json;

use super::list::state;
use crate::api::reasons::condition::{DRIFTED, HEALTHY, READY, TESTED};
use crate::api::{
    DriftStatus, OperationStatus, SherpackRelease, SherpackReleaseStatus, WaitingFor, conditions, reasons,
};
use crate::cli::cluster::{Target, on_runtime};
use crate::cli::output::advice::{About, Advice, advice, page};
use crate::cli::output::answer::{Answer, Failure, Format, finish, pretty};
use crate::cli::output::table::{age, clean, columns, moment, span};

/// Show where a release stands: conditions, revision, pack, operation, drift, and what to do next.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    target: Target,

    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Exit code 0 when the release is Ready for its newest spec, 1 when not, 2 when the cluster cannot be asked.
pub(in crate::cli) fn run(args: Args, tool: &'static str) -> ExitCode {
    finish(on_runtime(status(&args, tool)))
}

async fn status(args: &Args, tool: &'static str) -> Result<Answer, Failure> {
    let place = args.target.open().await?;
    let release = place.release().await?;
    let text = match args.output {
        Format::Table => text(&release, tool, Timestamp::now()),
        Format::Json => {
            let Advice { why, command } = next(&release, tool);
            pretty(&json!({
                "namespace": place.namespace, "name": place.name, "generation": release.metadata.generation,
                "deleting": release.metadata.deletion_timestamp.is_some(), "status": release.status,
                "next": {"why": why, "command": command, "docs": docs(&release)},
            }))
        }
    };
    Ok(Answer { text, findings: !is_ready(&release) })
}

pub(in crate::cli) fn is_ready(release: &SherpackRelease) -> bool {
    let Some(status) = &release.status else { return false };
    status.observed_generation == release.metadata.generation
        && conditions::is_true(&status.conditions, READY)
}

fn text(release: &SherpackRelease, tool: &'static str, now: Timestamp) -> String {
    let empty = SherpackReleaseStatus::default();
    let status = release.status.as_ref().unwrap_or(&empty);
    let mut text = String::new();
    // Writing to a String does not fail.
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{:<11}{}", format!("{key}:"), clean(value));
    };
    let meta = &release.metadata;
    let (namespace, name) =
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
    line("Release", &format!("{namespace}/{name}"));
    if release.target_namespace() != namespace || release.release_name() != name {
        line("Installs", &format!("{} in {}", release.release_name(), release.target_namespace()));
    }
    if let Some(pack) = &status.pack {
        let app = pack.app_version.as_ref().map(|app| format!(" (app version {app})")).unwrap_or_default();
        line("Pack", &format!("{} {}{app}", pack.name, pack.version));
    }
    if let Some(revision) = status.revision {
        let state = state(release, status).map(|state| format!(", {state}")).unwrap_or_default();
        line("Revision", &format!("{revision}{state}"));
    }
    if let Some(operation) = &status.operation {
        line("Operation", &describe_operation(operation, now));
    }
    if let Some(drift) = &status.drift {
        line("Drift", &describe_drift(drift, now));
    }
    if status.observed_generation != meta.generation {
        line("Note", "the operator has not seen the newest spec yet; what follows is of the one before");
    }
    let rows: Vec<[String; 5]> = status
        .conditions
        .iter()
        .map(|condition| {
            let since = age(Some(condition.last_transition_time.0), now);
            let (kind, value) = (condition.type_.clone(), condition.status.clone());
            [kind, value, condition.reason.clone(), since, condition.message.clone()]
        })
        .collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n{}", columns(["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"], &rows));
    }
    let waiting = status.operation.iter().flat_map(|operation| &operation.waiting_for);
    let rows: Vec<[String; 4]> = waiting.map(|waiting| waiting_row(waiting, now)).collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n{}", columns(["WAITING FOR", "STATE", "SINCE", "WHY"], &rows));
    }
    let Advice { why, command } = next(release, tool);
    let docs = docs(release).map(|page| format!("Docs: {page}\n")).unwrap_or_default();
    let _ = write!(text, "\n{docs}Next: {why}\n  {}\n", clean(&command));
    text
}

fn describe_operation(operation: &OperationStatus, now: Timestamp) -> String {
    let mut text = operation.action.clone();
    if let Some(revision) = operation.revision {
        let _ = write!(text, " to revision {revision}");
    }
    if let Some(phase) = &operation.phase {
        let _ = write!(text, ", phase {phase}");
    }
    if let (Some(wave), Some(waves)) = (operation.wave, operation.waves) {
        let _ = write!(text, ", wave {wave} of {waves}");
    }
    if let (Some(step), Some(steps)) = (operation.step, operation.steps) {
        let _ = write!(text, ", step {step} of {steps}");
    }
    if let Some(attempt) = operation.attempt {
        let _ = write!(text, ", attempt {attempt}");
    }
    if let Some(started) = &operation.started_at {
        let _ = write!(text, ", for {}", age(Some(started.0), now));
    }
    if let Some(deadline) = &operation.deadline {
        let left = deadline.0.as_second().saturating_sub(now.as_second());
        let _ = write!(text, ", until {} ({} left)", moment(Some(deadline.0)), span(left));
    }
    text
}

fn describe_drift(drift: &DriftStatus, now: Timestamp) -> String {
    let mut parts = Vec::new();
    parts.extend(drift.count.filter(|count| *count > 0).map(|count| format!("{count} objects differ")));
    parts.extend((!drift.contended.is_empty()).then(|| format!("{} contended", drift.contended.len())));
    if let Some(at) = &drift.last_reverted_at {
        let last = drift.objects.first().map(|object| format!(": {}", object.object)).unwrap_or_default();
        parts.push(format!("last put back {} ago{last}", age(Some(at.0), now)));
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn waiting_row(waiting: &WaitingFor, now: Timestamp) -> [String; 4] {
    let state = match (waiting.ready, waiting.desired) {
        (Some(ready), Some(desired)) => format!("{} {ready}/{desired}", waiting.state),
        _ => waiting.state.clone(),
    };
    let since = age(waiting.since.as_ref().map(|since| since.0), now);
    [waiting.object.clone(), state, since, waiting.reason.clone().unwrap_or_default()]
}

/// The one command for what stands in the way, or for what is worth a look when nothing does.
pub(in crate::cli) fn next(release: &SherpackRelease, tool: &'static str) -> Advice {
    let status = release.status.clone().unwrap_or_default();
    let (namespace, name) = (
        release.metadata.namespace.clone().unwrap_or_default(),
        release.metadata.name.clone().unwrap_or_default(),
    );
    let (reason, message) = blocking(release, &status);
    let waiting = status.operation.iter().flat_map(|operation| &operation.waiting_for).next();
    let object = waiting.and_then(|waiting| object_in(&waiting.object)).or_else(|| object_in(&message));
    let dependency = match release.spec.depends_on.as_deref() {
        Some([only]) => {
            let of = only.namespace.clone().unwrap_or_else(|| namespace.clone());
            Some((of, only.name.clone()))
        }
        _ => None,
    };
    let target_namespace = release.target_namespace().to_owned();
    let account = release.spec.service_account_name.clone();
    advice(&reason, &About { tool, namespace, name, target_namespace, account, object, dependency })
}

/// What the documentation says of the reason for which a release is not Ready.
fn docs(release: &SherpackRelease) -> Option<String> {
    let status = release.status.as_ref().filter(|_| !is_ready(release))?;
    page(&blocking(release, status).0)
}

/// Reason and message of what a person should look at first.
fn blocking(release: &SherpackRelease, status: &SherpackReleaseStatus) -> (String, String) {
    let find = |type_| conditions::find(&status.conditions, type_);
    let of = |condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        (condition.reason.clone(), condition.message.clone())
    };
    if status.observed_generation != release.metadata.generation {
        return (reasons::PROGRESSING.to_owned(), String::new());
    }
    let Some(ready) = find(READY) else { return (reasons::PROGRESSING.to_owned(), String::new()) };
    if ready.status != "True" {
        return of(ready);
    }
    let worse = [(HEALTHY, "False"), (TESTED, "False"), (DRIFTED, "True")];
    let worse = worse.iter().find_map(|(type_, bad)| find(type_).filter(|found| found.status == *bad));
    of(worse.unwrap_or(ready))
}

/// The first object that a text names as our messages do, `Kind namespace/name` or `Kind name:`, as kubectl takes it.
fn object_in(text: &str) -> Option<(String, Option<String>)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = |word: &str| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
    };
    let kind = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let alone = words.len() == 2;
    words.windows(2).find_map(|pair| {
        let name = pair[1].trim_end_matches([':', ',', ';']);
        let named = alone || name.len() < pair[1].len();
        let found = match name.split_once('/') {
            Some((namespace, name)) if plain(namespace) && plain(name) => {
                Some((name, Some(namespace.to_owned())))
            }
            None if named && plain(name) => Some((name, None)),
            _ => None,
        };
        let (name, namespace) = found.filter(|_| kind(pair[0]))?;
        Some((format!("{}/{name}", pair[0].to_lowercase()), namespace))
    })
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
