//! Records for people to look at: read without the key that seals them, so nothing is said of who wrote them.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::{Api, Client};
use serde_json::Value;

use super::backend::bounded;
use super::codec::{Because, KEY_BYTES};
use super::{Error, Head, MacKey, Provenance, Records, Stored, Unreadable};
use crate::api::{HistoryStorage, names};
use crate::release::Private;

/// What there is of one revision.
#[derive(Clone, Debug)]
pub enum Found {
    /// There is no such revision.
    Nothing,
    /// What it says, whichever tool wrote it.
    Record(Box<Stored>),
    /// There is one, and it cannot be read.
    Unreadable(Unreadable),
}

/// A key that seals nothing. A driver that has it shows every record as another tool's and must not write.
#[must_use]
pub fn no_key() -> MacKey {
    MacKey::new([0; KEY_BYTES])
}

/// Reads a revision, or the newest one.
///
/// # Errors
/// As for [`Records::get`] and [`Records::newest`].
pub async fn find(
    records: &impl Records,
    namespace: &str,
    release: &str,
    revision: Option<u32>,
) -> Result<Found, Error> {
    let head = match revision {
        Some(revision) => records.get(namespace, release, revision).await?,
        None => records.newest(namespace, release).await?,
    };
    Ok(match head {
        Head::None => Found::Nothing,
        Head::Ours(stored) | Head::Foreign(stored) => Found::Record(stored),
        Head::Unreadable(unreadable) => Found::Unreadable(unreadable),
    })
}

/// Who says to be at work on a revision. For people: nothing of it is proved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Another tool wrote it.
    pub foreign: bool,
    /// The process that works on it, or for another tool the field manager that last wrote it, as far as that is known.
    pub holder: Option<String>,
}

/// Asks who works on a revision, by one read.
///
/// # Errors
/// What the API server answered.
pub async fn claim(client: &Client, storage: HistoryStorage, stored: &Stored) -> Result<Claim, Error> {
    let foreign = stored.provenance == Provenance::Foreign(Because::NoPrivatePart);
    let (managers, private) = sealed(client, storage, stored).await?;
    let holder = if foreign {
        last_writer(&managers.unwrap_or_default())
    } else {
        holder(&private.unwrap_or_default())
    };
    Ok(Claim { foreign, holder })
}

/// The private part of a revision as it says itself to be; `None` where there is none, or none that can be seen here: it
/// stands in other objects or in a file. Nothing of it is proved.
///
/// # Errors
/// What the API server answered.
pub async fn private(
    client: &Client,
    storage: HistoryStorage,
    stored: &Stored,
) -> Result<Option<Private>, Error> {
    let (_, sealed) = sealed(client, storage, stored).await?;
    let envelope: Option<Value> = sealed.and_then(|sealed| serde_json::from_slice(&sealed).ok());
    let private = envelope.and_then(|mut envelope| envelope.get_mut("private").map(Value::take));
    Ok(private.and_then(|private| serde_json::from_value(private).ok()))
}

/// Who wrote the object of a revision, and the private part in it.
async fn sealed(
    client: &Client,
    storage: HistoryStorage,
    stored: &Stored,
) -> Result<(Option<Vec<ManagedFieldsEntry>>, Option<Vec<u8>>), Error> {
    let (namespace, name) = (&stored.namespace, &stored.secret_name);
    Ok(match storage {
        HistoryStorage::File => (None, None),
        HistoryStorage::Secret => {
            let what = format!("get Secret {namespace}/{name}");
            let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
            let found = bounded(&what, namespace, 0, api.get_opt(name)).await?.unwrap_or_default();
            let private = found.data.unwrap_or_default().remove(names::DATA_PRIVATE);
            (found.metadata.managed_fields, private.map(|bytes| bytes.0))
        }
        HistoryStorage::ConfigMap => {
            let what = format!("get ConfigMap {namespace}/{name}");
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            let found = bounded(&what, namespace, 0, api.get_opt(name)).await?.unwrap_or_default();
            let private = found.data.unwrap_or_default().remove(names::DATA_PRIVATE);
            (found.metadata.managed_fields, private.map(String::into_bytes))
        }
    })
}

fn last_writer(managers: &[ManagedFieldsEntry]) -> Option<String> {
    let newest = managers.iter().max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    newest.manager.clone().filter(|manager| !manager.is_empty())
}

/// The holder that a private part names, if it stands where it can be seen.
fn holder(sealed: &[u8]) -> Option<String> {
    let envelope: Value = serde_json::from_slice(sealed).ok()?;
    let holder = envelope.pointer("/private/holder")?.as_str()?;
    (!holder.is_empty()).then(|| holder.to_owned())
}
