//! `import`: puts what `export` wrote into a cluster, sealed with that cluster's key.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kube::Client;

use super::cluster::on_runtime;
use super::export::{Export, FORMAT, Place};
use crate::release::{PRIVATE_VERSION, revision_of};
use crate::storage::{self, Head, KeyRing, MacKey, Records as _, Stores};

/// Store the revisions of a file that `export` wrote.
///
/// Import before the SherpackRelease is applied; it makes no new revision then, and its objects are put in place as
/// the newest revision says. The operator will do what the file says: import only what you would apply.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file
    file: PathBuf,

    #[command(flatten)]
    place: Place,
}

/// Exit code 0 when everything is stored, 2 when not.
#[expect(clippy::print_stderr, reason = "stderr is the story")]
pub(super) fn run(args: Args) -> ExitCode {
    let Args { file, place } = args;
    let imported = read(&file).and_then(|export| {
        let what = format!("{}/{}", export.namespace, export.release);
        on_runtime(import(&place, export)).map(|count| format!("{count} revisions of {what} are stored"))
    });
    match imported {
        Ok(story) => {
            eprintln!("{story}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn read(path: &Path) -> Result<Export, String> {
    let name = path.display();
    let text = std::fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    let mut export: Export = serde_json::from_slice(&text)
        .map_err(|error| format!("{name} is not what `export` of this version writes: {error}"))?;
    if export.format != FORMAT {
        let found: String = export.format.chars().take(80).collect();
        return Err(format!("{name} has format {found:?}, this version reads {FORMAT:?}"));
    }
    for private in export.revisions.iter_mut().filter_map(|revision| revision.private.as_mut()) {
        // As it will be written, so that a second import finds what the first one stored.
        private.version = PRIVATE_VERSION;
    }
    let strange = export.revisions.iter().find(|revision| {
        let record = &revision.record;
        (&record.name, &record.namespace) != (&export.release, &export.namespace)
            || revision_of(&record.key()).is_none()
    });
    match strange {
        Some(strange) => Err(format!(
            "{name}: revision {} is of {}/{}, not of {}/{}",
            strange.record.version,
            strange.record.namespace,
            strange.record.name,
            export.namespace,
            export.release
        )),
        None => Ok(export),
    }
}

/// The keys of the cluster; the first one is made, or is that of the file.
async fn keys(client: &Client, namespace: &str, carried: Option<MacKey>) -> Result<KeyRing, String> {
    let failed = |error: storage::Error| error.to_string();
    if let Some(ring) = storage::read_keys(client, namespace).await.map_err(failed)? {
        return Ok(ring);
    }
    if carried.is_none()
        && let Some(release) = storage::finalized(client, None).await.map_err(failed)?
    {
        return Err(format!(
            "Secret {namespace}/{} is missing, and it seals the records of releases such as {release}: restore it \
             first",
            storage::RECORD_KEY_SECRET
        ));
    }
    storage::make_key(client, namespace, carried).await.map_err(failed)
}

async fn import(place: &Place, export: Export) -> Result<usize, String> {
    let (client, _) = place.connection.open().await?;
    let carried = export.key.as_deref().map(MacKey::from_hex);
    let carried =
        carried.map(|key| key.ok_or_else(|| "the key in the file is no key".to_owned())).transpose()?;
    let failed = |error: storage::Error| error.to_string();
    let keys = keys(&client, &place.operator_namespace, carried).await?;
    let records = export.records(&Stores::new(client, keys, place.storage_dir.clone()));
    let (namespace, release) = (&export.namespace, &export.release);
    // All or nothing, as far as that can be said beforehand: what is there already must be what would be written.
    for meta in records.list(namespace, release).await.map_err(failed)? {
        let there = records.get(namespace, release, meta.revision).await.map_err(failed)?;
        let same = export.revisions.iter().any(|revision| {
            matches!(&there, Head::Ours(stored) | Head::Foreign(stored)
                if stored.record == revision.record && stored.private == revision.private)
        });
        if !same {
            return Err(format!(
                "{namespace}/{release} has a revision {} already, and it is not that of the file: nothing was stored",
                meta.revision
            ));
        }
    }
    let newest = export.revisions.iter().map(|revision| revision.record.version).max();
    for revision in &export.revisions {
        let head = Some(revision.record.version) == newest;
        records.import(&revision.record, revision.private.as_ref(), head).await.map_err(failed)?;
    }
    Ok(export.revisions.len())
}
