//! The objects of stored revisions. A long manifest takes so long to parse that it does not belong on an async thread: all passes
//! share those.

use std::collections::BTreeSet;

use crate::manifest::{self, Object, ObjectId, yaml};
use crate::plan::{self, Parts};
use crate::reconcile::Error;
use crate::release::Shipped;
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

/// The objects of a stored manifest, as they were applied.
fn stored_objects(stored: &Stored) -> Result<Vec<Object>, manifest::Error> {
    let file = format!("the manifest of revision {}", stored.record.version);
    let documents = yaml::parse_documents(&stored.record.manifest, &file)?;
    let shipped: Vec<&Shipped> = stored.private.iter().flat_map(|private| &private.definitions).collect();
    let elsewhere =
        shipped.iter().filter(|shipped| shipped.written).filter_map(|shipped| shipped.body.clone());
    let objects: Vec<Object> =
        elsewhere.chain(documents).map(Object::from_value).collect::<Result<_, _>>()?;
    // A rollback may have to leave a definition of its manifest as it is.
    let left = |object: &Object| shipped.iter().any(|one| !one.written && one.name == object.id.name);
    Ok(objects.into_iter().filter(|object| !object.id.is_definition() || !left(object)).collect())
}

/// The objects and hooks of a stored revision.
pub(crate) fn stored_parts(stored: &Stored) -> Result<Parts, plan::Error> {
    let mut objects = stored_objects(stored)?;
    let file = format!("the hooks of revision {}", stored.record.version);
    for hook in &stored.record.hooks {
        for document in yaml::parse_documents(&hook.resource, &file)? {
            objects.push(Object::from_value(document)?);
        }
    }
    let mut parts = plan::split(objects)?;
    if let Some(private) = &stored.private {
        parts.webhooks_later = webhooks_later(&private.definitions);
    }
    Ok(parts)
}

/// The definitions whose webhook is set once it can answer.
pub(in crate::reconcile) fn webhooks_later(shipped: &[Shipped]) -> BTreeSet<ObjectId> {
    let later = shipped.iter().filter(|shipped| shipped.webhook_later);
    later.map(|shipped| ObjectId::definition(&shipped.name)).collect()
}
