//! `export`: all revisions of a release in one file, for another cluster or a backup.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use crate::api::{self, HistoryStorage, SherpackRelease};
use crate::cli::cluster::{Connection, on_runtime};
use crate::release::{Private, Record};
use crate::storage::{self, AnyRecords, Head, Keeping, Records as _, Stores};

/// What a file may take: `export` writes no larger one, and `import` reads none.
pub(in crate::cli) const LIMITS: Limits = Limits { bytes: 256 << 20, values: 4_000_000, revisions: 1000 };

/// See [`LIMITS`].
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Limits {
    pub(in crate::cli) bytes: u64,
    /// Values of JSON: each takes many times the memory of its text.
    pub(in crate::cli) values: usize,
    pub(in crate::cli) revisions: usize,
}

impl Limits {
    /// Whether the text of a file is within them.
    ///
    /// # Errors
    /// What is too much of it.
    pub(in crate::cli) fn of_text(&self, text: &[u8]) -> Result<(), String> {
        if text.len() as u64 > self.bytes {
            return Err(format!("larger than {} bytes", self.bytes));
        }
        if storage::codec::nodes(text) > self.values {
            return Err(format!("of more than {} values of JSON", self.values));
        }
        Ok(())
    }

    /// Whether so many revisions are within them.
    ///
    /// # Errors
    /// That they are too many.
    pub(in crate::cli) fn of_revisions(&self, count: usize) -> Result<(), String> {
        if count <= self.revisions {
            Ok(())
        } else {
            Err(format!("of {count} revisions, more than {}", self.revisions))
        }
    }
}

/// What `import` expects of the field `format`.
pub(in crate::cli) const FORMAT: &str = "sherpack-operator/export/v1";

/// Where the API server, the key of the records and records in files are.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Place {
    /// Where the operator keeps the key that seals revisions
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "sherpack-system")]
    pub(in crate::cli) operator_namespace: String,

    /// Directory of revisions that are kept in files, as given to the operator
    #[arg(long, env = "SHERPACK_STORAGE_DIR", value_name = "DIR")]
    pub(in crate::cli) storage_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(in crate::cli) connection: Connection,
}

/// Write all revisions of a release to a file.
///
/// The file holds values and manifests in clear, secrets too, and a user who imports it lets it decide what the operator
/// does: it is made readable for you alone. Objects of the release are not in it.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Name of the SherpackRelease
    release: String,

    /// Namespace of the SherpackRelease
    #[arg(short, long, default_value = "default")]
    namespace: String,

    /// The file to write; it must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Add the key that seals revisions, for a cluster whose operator has none yet
    #[arg(long)]
    with_key: bool,

    #[command(flatten)]
    place: Place,
}

/// The file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Export {
    pub(in crate::cli) format: String,
    /// Name and namespace of the release in records.
    pub(in crate::cli) release: String,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) storage: HistoryStorage,
    pub(in crate::cli) storage_namespace: String,
    pub(in crate::cli) compression: api::Compression,
    pub(in crate::cli) large: api::LargeRevision,
    /// Hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) key: Option<String>,
    /// Oldest first.
    pub(in crate::cli) revisions: Vec<Revision>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Revision {
    pub(in crate::cli) record: Record,
    /// Without it the revision is another tool's.
    pub(in crate::cli) private: Option<Private>,
}

/// Exit code 0 when the file is written, 2 when not.
#[expect(clippy::print_stderr, reason = "stderr is the story")]
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    let Args { release, namespace, output, with_key, place } = args;
    let what = format!("{namespace}/{release}");
    let exported = on_runtime(export(&place, &namespace, &release, with_key))
        .and_then(|export| write(&export, &output).map(|()| export));
    match exported {
        Ok(export) => {
            let key = if export.key.is_some() { ", and the key that seals revisions" } else { "" };
            eprintln!(
                "{}: {} revisions of {what}, with all secrets in their values and manifests{key}: keep it as secret as those",
                output.display(),
                export.revisions.len()
            );
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

async fn export(place: &Place, namespace: &str, release: &str, with_key: bool) -> Result<Export, String> {
    let (client, _) = place.connection.open().await?;
    let api: kube::Api<SherpackRelease> = kube::Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(release).await.map_err(|error| {
        format!("SherpackRelease {namespace}/{release}: {}", crate::cluster::describe(&error))
    })?;
    let found = found.ok_or_else(|| format!("there is no SherpackRelease {namespace}/{release}"))?;
    let keys = storage::read_keys(&client, &place.operator_namespace).await.map_err(|e| e.to_string())?;
    let keys = keys.ok_or_else(|| {
        format!(
            "there is no Secret {}/{}: nothing can be proved",
            place.operator_namespace,
            storage::RECORD_KEY_SECRET
        )
    })?;
    let history = found.spec.history.clone().unwrap_or_default();
    let mut export = Export {
        format: FORMAT.to_owned(),
        release: found.release_name().to_owned(),
        namespace: found.target_namespace().to_owned(),
        storage: found.history_storage(),
        storage_namespace: found.history_namespace().to_owned(),
        compression: history.compression.unwrap_or_default(),
        large: history.large.unwrap_or_default(),
        key: with_key.then(|| keys.current().to_hex()),
        revisions: Vec::new(),
    };
    let records = export.records(&Stores::new(client, keys, place.storage_dir.clone()));
    let failed = |error: storage::Error| error.to_string();
    let mut all: Vec<Head> =
        records.history(&export.namespace, &export.release).try_collect().await.map_err(failed)?;
    all.sort_by_key(Head::revision);
    all.dedup_by_key(|head| head.revision());
    for head in all {
        match head {
            // Without its private part it would be another tool's in the file.
            Head::Foreign(stored) if stored.unproved.is_some() => {
                return Err(format!(
                    "revision {} of {namespace}/{release} cannot be proved: restore its key first",
                    stored.record.version
                ));
            }
            Head::Ours(stored) | Head::Foreign(stored) => {
                export.revisions.push(Revision { record: stored.record, private: stored.private });
            }
            Head::Unreadable(unreadable) => return Err(unreadable.to_string()),
            Head::None => {}
        }
    }
    match export.revisions.last() {
        None => Err(format!("{namespace}/{release} has no revisions")),
        Some(newest) if newest.record.state.is_pending() => Err(format!(
            "revision {} of {namespace}/{release} is {}: export it when that has ended, or two operators would go on \
             with it",
            newest.record.version,
            newest.record.state.name()
        )),
        Some(_) => Ok(export),
    }
}

impl Export {
    /// The driver that keeps these revisions.
    pub(in crate::cli) fn records(&self, stores: &Stores) -> AnyRecords {
        stores.of(&Keeping {
            storage: self.storage,
            namespace: Some(self.storage_namespace.clone()),
            compression: self.compression.into(),
            large: self.large.into(),
        })
    }
}

fn write(export: &Export, path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = serde_json::to_vec(export).map_err(|error| failed(error.into()))?;
    LIMITS.of_revisions(export.revisions.len()).and_then(|()| LIMITS.of_text(&text)).map_err(|much| {
        format!("the file would be {much}, and `import` reads no such file: lower spec.history.limit first")
    })?;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)
}
