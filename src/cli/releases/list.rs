//! `list`: every release in a line.

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pending_holder;
use crate::api::reasons::condition::{DRIFTED, READY};
use crate::api::{SherpackRelease, SherpackReleaseStatus, conditions};
use crate::cli::cluster::{Connection, on_runtime, releases};
use crate::cli::output::answer::{Answer, Failure, Format, finish, pretty};
use crate::cli::output::table::{age, columns};

/// List releases with their state, revision, pack and age.
///
/// With --stale only those whose newest revision is pending past its time, or pending and another tool's: whose it is
/// and until when it is respected; the exit code is 1 when there are any.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Namespace of the releases [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// The releases of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Only releases that a pending revision holds
    #[arg(long)]
    stale: bool,

    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,

    #[command(flatten)]
    records: pending_holder::Records,

    #[command(flatten)]
    connection: Connection,
}

pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(on_runtime(list(&args)))
}

async fn list(args: &Args) -> Result<Answer, Failure> {
    let (client, default_namespace) = args.connection.open().await?;
    let namespace = args.namespace.clone().unwrap_or(default_namespace);
    let namespace = (!args.all_namespaces).then_some(namespace.as_str());
    let found = releases(&client, namespace).await?;
    let now = Timestamp::now();
    if args.stale {
        let (held, unknown) = pending_holder::among(&client, &args.records, &found, now).await;
        let text = match args.output {
            Format::Table => pending_holder::table(&held, now),
            Format::Json => {
                pretty(&held.iter().map(|held| pending_holder::json(held, now)).collect::<Vec<_>>())
            }
        };
        if let Some(first) = unknown.first() {
            let message = format!("{text}{} releases could not be looked at, first {first}", unknown.len());
            return Err(message.into());
        }
        return Ok(Answer { text, findings: !held.is_empty() });
    }
    Ok(match args.output {
        Format::Table => table(&found, args.all_namespaces, now),
        Format::Json => pretty(&found.iter().map(row).collect::<Vec<_>>()),
    }
    .into())
}

fn table(releases: &[SherpackRelease], all: bool, now: Timestamp) -> String {
    let cells = |release: &SherpackRelease| -> [String; 8] {
        let row = row(release);
        let text = |key: &str| match &row[key] {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => "-".to_owned(),
        };
        let created = release.metadata.creation_timestamp.as_ref().map(|created| created.0);
        let pack = match &row["version"] {
            Value::String(version) => format!("{} {version}", text("pack")),
            _ => "-".to_owned(),
        };
        let (namespace, name) = (text("namespace"), text("name"));
        [
            namespace,
            name,
            text("ready"),
            text("status"),
            text("state"),
            text("revision"),
            pack,
            age(created, now),
        ]
    };
    let rows: Vec<[String; 8]> = releases.iter().map(cells).collect();
    let head = ["NAMESPACE", "NAME", "READY", "STATUS", "STATE", "REVISION", "PACK", "AGE"];
    if all {
        return columns(head, &rows);
    }
    let rest = |[_, rest @ ..]: [String; 8]| -> [String; 7] { rest };
    let [_, head @ ..] = head;
    columns(head, &rows.into_iter().map(rest).collect::<Vec<_>>())
}

/// One release, for programs; the table shows parts of it.
fn row(release: &SherpackRelease) -> Value {
    let empty = SherpackReleaseStatus::default();
    let status = release.status.as_ref().unwrap_or(&empty);
    let ready = conditions::find(&status.conditions, READY);
    let pack = status.pack.as_ref();
    let meta = &release.metadata;
    json!({
        "namespace": meta.namespace,
        "name": meta.name,
        "ready": ready.map_or("Unknown", |ready| ready.status.as_str()),
        "status": ready.map(|ready| &ready.reason),
        "message": ready.map(|ready| &ready.message),
        "state": state(release, status),
        "revision": status.revision,
        "pack": pack.map(|pack| &pack.name),
        "version": pack.map(|pack| &pack.version),
        "appVersion": pack.and_then(|pack| pack.app_version.as_ref()),
        "suspended": release.spec.suspend.unwrap_or(false),
        "drifted": conditions::is_true(&status.conditions, DRIFTED),
        "observed": status.observed_generation == meta.generation,
        "created": meta.creation_timestamp,
    })
}

/// The state of the newest revision, in the words of records.
pub(in crate::cli) fn state(release: &SherpackRelease, status: &SherpackReleaseStatus) -> Option<String> {
    if let Some(operation) = &status.operation {
        return Some(format!("pending-{}", operation.action.to_lowercase()));
    }
    if release.metadata.deletion_timestamp.is_some() {
        return Some("deleting".to_owned());
    }
    let newest = status.history.iter().find(|entry| Some(entry.revision) == status.revision);
    newest.map(|entry| entry.state.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(status: Value) -> SherpackRelease {
        serde_json::from_value(json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "apps", "creationTimestamp": "2026-01-01T12:00:00Z"},
            "spec": {}, "status": status,
        }))
        .unwrap()
    }

    fn statuses() -> Vec<SherpackRelease> {
        let ready = |status: &str, reason: &str| {
            json!([{"type": "Ready", "status": status, "reason": reason, "message": "m",
                    "lastTransitionTime": "2026-01-01T12:00:00Z"}])
        };
        let pack = json!({"name": "podinfo", "version": "1.0.0"});
        let entry = |revision: u32, state: &str| json!({"revision": revision, "state": state});
        vec![
            release(json!({})),
            release(json!({"conditions": ready("True", "InstallSucceeded"), "revision": 1, "pack": pack,
                           "history": [entry(1, "deployed")]})),
            release(json!({"conditions": ready("Unknown", "Progressing"), "revision": 2, "pack": pack,
                           "history": [entry(1, "deployed")], "operation": {"action": "Upgrade"}})),
            release(json!({"conditions": ready("False", "HealthTimeout"), "revision": 3, "pack": pack,
                           "history": [entry(3, "failed"), entry(1, "deployed")]})),
        ]
    }

    #[test]
    fn a_line_tells_state_revision_pack_and_age() {
        let now = "2026-01-01T12:00:30Z".parse().unwrap();
        let expected = "\
NAME  READY    STATUS            STATE            REVISION  PACK           AGE
web   Unknown  -                 -                -         -              30s
web   True     InstallSucceeded  deployed         1         podinfo 1.0.0  30s
web   Unknown  Progressing       pending-upgrade  2         podinfo 1.0.0  30s
web   False    HealthTimeout     failed           3         podinfo 1.0.0  30s
";
        assert_eq!(table(&statuses(), false, now), expected);
        assert!(table(&statuses(), true, now).starts_with("NAMESPACE  NAME"));
        assert_eq!(table(&[], false, now), "NAME  READY  STATUS  STATE  REVISION  PACK  AGE\n");
    }

    #[test]
    fn a_program_gets_the_same_and_more() {
        let row = row(&statuses()[1]);
        assert_eq!((&row["state"], &row["message"]), (&json!("deployed"), &json!("m")));
        assert_eq!(row["created"], "2026-01-01T12:00:00Z");
    }
}
