//! `import`: puts what `export` wrote into a cluster, sealed with that cluster's key.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kube::Client;

use super::export::{Export, FORMAT, LIMITS, Limits, Place};
use crate::cli::cluster::on_runtime;
use crate::release::{PRIVATE_VERSION, revision_of};
use crate::storage::{self, Head, KeyRing, MacKey, Records as _, Stores};

/// Store the revisions of a file that `export` wrote.
///
/// Import before the SherpackRelease is applied; it makes no new revision then, and its objects are put in place as
/// the newest revision says. The operator will do what the file says: import only what you would apply.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The file
    file: PathBuf,

    #[command(flatten)]
    place: Place,
}

/// Exit code 0 when everything is stored, 2 when not.
#[expect(clippy::print_stderr, reason = "stderr is the story")]
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    let Args { file, place } = args;
    let imported = read(&file, &LIMITS).and_then(|export| {
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

fn read(path: &Path, limits: &Limits) -> Result<Export, String> {
    let name = path.display();
    let much = |much: String| format!("{name} is {much}: `export` of this version writes no such file");
    let mut text = Vec::new();
    // One byte more than allowed, to tell "exactly full" from "more"; the size of a pipe is not known before.
    let file = std::fs::File::open(path).map_err(|error| format!("{name}: {error}"))?;
    file.take(limits.bytes + 1).read_to_end(&mut text).map_err(|error| format!("{name}: {error}"))?;
    limits.of_text(&text).map_err(much)?;
    let mut export: Export = serde_json::from_slice(&text)
        .map_err(|error| format!("{name} is not what `export` of this version writes: {error}"))?;
    limits.of_revisions(export.revisions.len()).map_err(much)?;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The refusal of a file with this text.
    fn refused(name: &str, text: &[u8], limits: &Limits) -> String {
        let path = std::env::temp_dir().join(format!("import-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let refused = read(&path, limits).map(|_| ()).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        refused
    }

    #[test]
    fn no_more_is_read_than_an_export_writes() {
        let record = json!({
            "name": "web", "namespace": "apps", "version": 1, "state": {"status": "deployed"},
            "pack": {"name": "web", "version": "1.0.0"}, "values": {}, "manifest": "",
            "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
        });
        let export = |revisions: Vec<Value>| {
            let export = json!({
                "format": FORMAT, "release": "web", "namespace": "apps", "storage": "Secret",
                "storage_namespace": "apps", "compression": "Zstd", "large": "Chunked", "revisions": revisions,
            });
            export.to_string().into_bytes()
        };
        let one = export(vec![json!({"record": record, "private": null})]);
        let limits = Limits { bytes: one.len() as u64, ..LIMITS };
        let path = std::env::temp_dir().join(format!("import-fits-{}", std::process::id()));
        std::fs::write(&path, &one).unwrap();
        assert_eq!(read(&path, &limits).unwrap().revisions.len(), 1);
        std::fs::remove_file(&path).unwrap();
        let less = Limits { bytes: limits.bytes - 1, ..LIMITS };
        let told = refused("bytes", &one, &less);
        assert!(told.contains(&format!("is larger than {} bytes", less.bytes)), "{told}");
        // Before it is parsed: what it takes then is many times its text.
        let told = refused(
            "values",
            format!("[{}0]", "0,".repeat(100)).as_bytes(),
            &Limits { values: 100, ..LIMITS },
        );
        assert!(told.contains("is of more than 100 values of JSON"), "{told}");
        let two = export(vec![json!({"record": record, "private": null}); 2]);
        let told = refused("revisions", &two, &Limits { revisions: 1, ..LIMITS });
        assert!(told.contains("is of 2 revisions, more than 1"), "{told}");
    }

    #[test]
    fn what_has_no_end_is_not_read_to_its_end() {
        let told =
            read(Path::new("/dev/zero"), &Limits { bytes: 1 << 16, ..LIMITS }).map(|_| ()).unwrap_err();
        assert!(told.contains("/dev/zero is larger than 65536 bytes"), "{told}");
    }
}
