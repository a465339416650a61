//! The objects of stored revisions. A long manifest takes so long to parse that it does not belong on an async thread: all passes
//! share those.

use crate::manifest::{Object, yaml};
use crate::plan::Parts;
use crate::reconcile::Error;
use crate::reconcile::prepare::revision::stored_objects;
use crate::reconcile::prepare::revision::stored_parts;
use crate::storage::Stored;

/// Texts longer than this are long.
const LONG: usize = 128 << 10;

/// The objects of a stored manifest, as they were applied.
pub(in crate::reconcile) async fn objects_in(stored: &Stored) -> Result<Vec<Object>, Error> {
    parsed(stored, |stored| Ok(stored_objects(stored)?)).await
}

/// The objects and hooks of a stored revision.
pub(in crate::reconcile) async fn parts_in(stored: &Stored) -> Result<Parts, Error> {
    parsed(stored, |stored| Ok(stored_parts(stored)?)).await
}

async fn parsed<T: Send + 'static>(
    stored: &Stored,
    parse: fn(&Stored) -> Result<T, Error>,
) -> Result<T, Error> {
    let record = &stored.record;
    let hooks: usize = record.hooks.iter().map(|hook| hook.resource.len()).sum();
    if record.manifest.len() + hooks <= LONG {
        return parse(stored);
    }
    let (stored, revision) = (stored.clone(), record.version);
    let work = tokio::task::spawn_blocking(move || parse(&stored));
    work.await.map_err(|error| Error::ManifestAborted { revision, message: error.to_string() })?
}

/// These documents as one text.
pub(in crate::reconcile) async fn joined(
    bodies: Vec<serde_json::Value>,
    revision: u32,
) -> Result<String, Error> {
    let work = tokio::task::spawn_blocking(move || yaml::join(&bodies));
    work.await.map_err(|error| Error::ManifestAborted { revision, message: error.to_string() })
}
