//! `history`: every stored revision of a release in a line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use futures::TryStreamExt as _;
use jiff::Timestamp;
use serde::Serialize;

use crate::api::{HistoryEntry, SherpackRelease};
use crate::cli::cluster::{Named, Place, Target, on_runtime};
use crate::cli::output::answer::{Answer, Failure, Format, finish, pretty, story};
use crate::cli::output::table::{columns, moment};
use crate::release::{Action, Record, description};
use crate::storage::{Head, Records as _, Stores, unverified};

/// List the stored revisions of a release, oldest first.
///
/// The description is what the annotation sherpack.io/description of the release said when the revision was made, else
/// what happened.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    target: Target,

    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,

    /// Directory of revisions that are kept in files, as given to the operator
    #[arg(long, env = "SHERPACK_STORAGE_DIR", value_name = "DIR")]
    storage_dir: Option<PathBuf>,
}

/// One revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    revision: u32,
    updated: Option<Timestamp>,
    state: String,
    pack: Option<String>,
    version: Option<String>,
    app_version: Option<String>,
    description: String,
}

/// Exit code 0 when there are revisions, 1 when there are none, 2 when the cluster cannot be asked.
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(on_runtime(history(&args)))
}

async fn history(args: &Args) -> Result<Answer, Failure> {
    let place = args.target.open().await?;
    let release = place.release().await;
    let told: Vec<HistoryEntry> = match &release {
        Ok(SherpackRelease { status: Some(status), .. }) => status.history.clone(),
        _ => Vec::new(),
    };
    let rows = match stored(&place, args, &told).await {
        Ok(rows) => rows,
        // A user who may not read records may read the status.
        Err(failure) if !told.is_empty() => {
            story(&format!("the revisions cannot be read, so this is from the status: {}", failure.message));
            told.iter().rev().map(of_status).collect()
        }
        Err(failure) => return Err(failure),
    };
    if rows.is_empty() {
        return Err(release
            .err()
            .unwrap_or_else(|| Failure::finding(format!("{} has no revisions", place.what()))));
    }
    Ok(match args.output {
        Format::Table => table(&rows),
        Format::Json => pretty(&rows),
    }
    .into())
}

async fn stored(place: &Place, args: &Args, told: &[HistoryEntry]) -> Result<Vec<Row>, Failure> {
    let Named { namespace, name: release, keeping, .. } =
        Named::find(&place.client, &place.namespace, &place.name).await?;
    let stores = Stores::new(place.client.clone(), unverified::no_key(), args.storage_dir.clone());
    let records = stores.of(&keeping);
    // One record in memory at a time; one may come twice.
    let mut rows = BTreeMap::new();
    let mut history = std::pin::pin!(records.history(&namespace, &release));
    while let Some(head) = history.try_next().await.map_err(|error| error.to_string())? {
        let row = match head {
            Head::None => continue,
            Head::Ours(stored) | Head::Foreign(stored) => of_record(&stored.record, told),
            Head::Unreadable(unreadable) => Row {
                revision: unreadable.revision.unwrap_or(0),
                updated: None,
                state: "unreadable".to_owned(),
                pack: None,
                version: None,
                app_version: None,
                description: unreadable.to_string(),
            },
        };
        rows.insert(row.revision, row);
    }
    Ok(rows.into_values().collect())
}

fn of_record(record: &Record, told: &[HistoryEntry]) -> Row {
    // What made it stands in the sealed part of the record; the status repeats it.
    let entry = told.iter().find(|entry| entry.revision == i64::from(record.version));
    let action = entry.and_then(|entry| match entry.action.as_deref()? {
        "Install" => Some(Action::Install),
        "Upgrade" => Some(Action::Upgrade),
        "Rollback" => Some(Action::Rollback),
        "Uninstall" => Some(Action::Uninstall),
        _ => None,
    });
    Row {
        revision: record.version,
        updated: Some(record.updated_at),
        state: record.state.name().to_owned(),
        pack: Some(record.pack.name.clone()),
        version: Some(record.pack.version.to_string()),
        app_version: record.pack.app_version.clone(),
        description: description::describe(record, action),
    }
}

fn of_status(entry: &HistoryEntry) -> Row {
    Row {
        revision: u32::try_from(entry.revision).unwrap_or(0),
        updated: entry.at.as_ref().map(|at| at.0),
        state: entry.state.clone(),
        pack: entry.pack.clone(),
        version: entry.version.clone(),
        app_version: None,
        description: entry.message.clone().unwrap_or_default(),
    }
}

fn table(rows: &[Row]) -> String {
    let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let rows: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            let pack = match (&row.pack, &row.version) {
                (Some(pack), Some(version)) => format!("{pack} {version}"),
                _ => "-".to_owned(),
            };
            let Row { revision, updated, state, app_version, description, .. } = row;
            [
                revision.to_string(),
                moment(*updated),
                state.clone(),
                pack,
                dash(app_version),
                description.clone(),
            ]
        })
        .collect();
    columns(["REVISION", "UPDATED", "STATE", "PACK", "APP VERSION", "DESCRIPTION"], &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(version: u32) -> Record {
        let mut record: Record =
            serde_json::from_str(include_str!("../../release/golden/record_minimal.json")).unwrap();
        record.version = version;
        record.updated_at = "2026-01-01T12:00:00.4Z".parse().unwrap();
        record.pack.name = "podinfo".to_owned();
        record.pack.app_version = Some("6.5.0".to_owned());
        record.state = crate::release::State::Deployed;
        record
    }

    #[test]
    fn a_line_tells_when_what_and_why() {
        let told: Vec<HistoryEntry> =
            serde_json::from_value(json!([{"revision": 2, "state": "deployed", "action": "Rollback"}]))
                .unwrap();
        let mut noted = record(3);
        noted.labels.insert("sherpack.io/description".to_owned(), "Bump\u{1b}[2J".to_owned());
        noted.pack.app_version = None;
        let rows = [of_record(&record(1), &told), of_record(&record(2), &told), of_record(&noted, &told)];
        let expected = "\
REVISION  UPDATED               STATE     PACK           APP VERSION  DESCRIPTION
1         2026-01-01T12:00:00Z  deployed  podinfo 1.0.0  6.5.0        Install complete
2         2026-01-01T12:00:00Z  deployed  podinfo 1.0.0  6.5.0        Rollback complete
3         2026-01-01T12:00:00Z  deployed  podinfo 1.0.0  -            Bump [2J
";
        assert_eq!(table(&rows), expected);
        let json: serde_json::Value = serde_json::from_str(&pretty(&rows)).unwrap();
        assert_eq!(json[0]["appVersion"], "6.5.0");
    }
}
