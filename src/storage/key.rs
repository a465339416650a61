//! The keys that seal private parts, in two Secrets beside the operator.
//!
//! [`RECORD_KEY_SECRET`] holds the first key and is immutable. From the second key on [`RECORD_KEYS_SECRET`] holds all of
//! them and says which one seals; the first Secret then holds no key any more, so that a version that knows only that
//! one stops instead of taking the records of the others for another tool's.
//!
//! Owns both Secrets. Invariants:
//!
//! * A key is in one of the Secrets before anything is sealed with it, and none is ever taken out.
//! * The second Secret holds all keys before the first one is touched, so no crash between two writes loses a key.
//! * A key that cannot be read is reported and never replaced. The keys are never logged.
//!
//! RBAC, in the operator's own namespace: `get`, `create`, `update` and `delete` on `secrets`.

pub(super) mod finalized;

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{ObjectReference, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource as _,
    api::{DeleteParams, PostParams, Preconditions},
};

use super::{
    Error,
    backend::bounded,
    codec::{KEY_BYTES, KeyRing, MacKey},
};
use crate::api::names;

/// Name of the Secret that holds the first key.
pub const RECORD_KEY_SECRET: &str = "sherpack-operator-record-key";
/// Its data key: 32 random bytes.
pub const RECORD_KEY_DATA: &str = "key";
/// Its data key once there are several keys; says where they are.
const MOVED_DATA: &str = "moved";
/// Name of the Secret that holds all keys once there are several: each under its id.
pub const RECORD_KEYS_SECRET: &str = "sherpack-operator-record-keys";
/// Its data key with the id of the key that seals.
const CURRENT_DATA: &str = "current";

const DESCRIPTION: &str = "Seals the revision records of sherpack-operator. Back it up with them: without this key \
                           their releases are held.";

/// How often two writers may meet before that is an error.
const ROUNDS: usize = 5;

/// What the two Secrets say.
#[derive(Default)]
struct Found {
    first: Option<Secret>,
    all: Option<Secret>,
}

/// What was done to keep the keys.
pub struct Kept {
    pub ring: KeyRing,
    /// The Secrets that were missing.
    pub restored: Vec<ObjectReference>,
}

/// Reads the keys from the operator's namespace; `None`: there are none.
///
/// # Errors
/// [`Error::KeyInvalid`] if a Secret is there and not what it should be; otherwise those of the API server.
pub async fn read_keys(client: &Client, namespace: &str) -> Result<Option<KeyRing>, Error> {
    look(&api(client, namespace), namespace).await?.ring(namespace)
}

/// Whether the keys have moved into the second Secret and that is missing: a process that has them may store them.
///
/// # Errors
/// Those of the API server.
pub async fn keys_are_missing(client: &Client, namespace: &str) -> Result<bool, Error> {
    Ok(look(&api(client, namespace), namespace).await?.lacks_all())
}

/// Makes the first key, or stores `given` as such. Two that do so at once agree on that of the faster one.
///
/// # Errors
/// As [`read_keys`].
pub async fn make_key(client: &Client, namespace: &str, given: Option<MacKey>) -> Result<KeyRing, Error> {
    let ring = KeyRing::of(match given {
        Some(given) => given,
        None => random()?,
    });
    let api = api(client, namespace);
    if look(&api, namespace).await?.lacks_all() {
        return Ok(keep_keys(client, namespace, &ring).await?.ring);
    }
    match create(&api, namespace, &first_secret(namespace, &ring)).await {
        Ok(_) => Ok(ring),
        // Another process was faster, or an earlier send of this call got through: what is stored counts.
        Err(conflict @ Error::Conflict { .. }) => {
            look(&api, namespace).await?.ring(namespace)?.ok_or(conflict)
        }
        Err(error) => Err(error),
    }
}

/// Brings `known` and what is stored together: no key of either is lost, and a missing Secret is written again. Which key
/// seals is what is stored, as long as something is.
///
/// # Errors
/// As [`read_keys`].
pub async fn keep_keys(client: &Client, namespace: &str, known: &KeyRing) -> Result<Kept, Error> {
    let api = api(client, namespace);
    let mut restored = Vec::new();
    for _ in 0..ROUNDS {
        let found = look(&api, namespace).await?;
        let stored = match found.ring(namespace) {
            // The keys have moved and that Secret is missing: we have them.
            Err(Error::KeyInvalid { .. }) if found.lacks_all() => None,
            stored => stored?,
        };
        let ring = match stored {
            Some(stored) => known.keys().cloned().fold(stored, KeyRing::and),
            None => known.clone(),
        };
        match write(&api, namespace, &found, &ring, &mut restored).await {
            Ok(()) => return Ok(Kept { ring, restored }),
            Err(Error::Conflict { .. } | Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Conflict { what: format!("write Secret {namespace}/{RECORD_KEYS_SECRET}") })
}

/// Adds a key. With `current` it seals from now on; otherwise it only opens.
///
/// # Errors
/// As [`read_keys`]; [`Error::KeyInvalid`] also when there is no key yet.
pub async fn add_key(client: &Client, namespace: &str, key: MacKey, current: bool) -> Result<KeyRing, Error> {
    let missing =
        || invalid(namespace, RECORD_KEY_SECRET, "there is none to which one could be added".to_owned());
    let known = read_keys(client, namespace).await?.ok_or_else(missing)?;
    // First a ring that opens with the new key and seals with the old one: a process that reads it now can read what comes.
    let kept = keep_keys(client, namespace, &known.and(key.clone())).await?.ring;
    if !current || kept.current().is(&key) {
        return Ok(kept);
    }
    let api = api(client, namespace);
    let found = look(&api, namespace).await?;
    let stored = found.ring(namespace)?.unwrap_or(kept);
    let ring = stored.keys().cloned().fold(KeyRing::of(key), KeyRing::and);
    let version = found.all.as_ref().and_then(|all| all.metadata.resource_version.clone());
    replace(&api, namespace, &all_secret(namespace, &ring, version)).await?;
    Ok(ring)
}

/// A new key.
///
/// # Errors
/// [`Error::Random`].
pub fn random() -> Result<MacKey, Error> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(MacKey::new(bytes))
}

impl Found {
    /// The keys; `None`: there are none.
    fn ring(&self, namespace: &str) -> Result<Option<KeyRing>, Error> {
        let first = match &self.first {
            Some(secret) => parse_first(secret, namespace)?,
            None => None,
        };
        let all = self.all.as_ref().map(|secret| parse_all(secret, namespace)).transpose()?;
        match (all, first) {
            (Some(all), Some(first)) => Ok(Some(all.and(first))),
            (Some(all), None) => Ok(Some(all)),
            (None, Some(first)) => Ok(Some(KeyRing::of(first))),
            (None, None) if self.first.is_some() => {
                let message = "the keys are in it, and it is missing: restore it from a backup".to_owned();
                Err(invalid(namespace, RECORD_KEYS_SECRET, message))
            }
            (None, None) => Ok(None),
        }
    }

    /// The Secret with all keys is missing, and it is known that it was there.
    fn lacks_all(&self) -> bool {
        let moved = |secret: &Secret| secret.data.as_ref().is_some_and(|data| data.contains_key(MOVED_DATA));
        self.all.is_none() && self.first.as_ref().is_some_and(moved)
    }
}

async fn look(api: &Api<Secret>, namespace: &str) -> Result<Found, Error> {
    // In the order in which they are written: what the second one lacked then is in the first one still.
    let first = get(api, namespace, RECORD_KEY_SECRET).await?;
    let all = get(api, namespace, RECORD_KEYS_SECRET).await?;
    Ok(Found { first, all })
}

/// Writes what differs from what `ring` needs; see the head of this file for the order.
async fn write(
    api: &Api<Secret>,
    namespace: &str,
    found: &Found,
    ring: &KeyRing,
    restored: &mut Vec<ObjectReference>,
) -> Result<(), Error> {
    let several = ring.keys().count() > 1;
    if several || found.lacks_all() {
        let version = found.all.as_ref().and_then(|all| all.metadata.resource_version.clone());
        let all = all_secret(namespace, ring, version);
        match &found.all {
            None => {
                let created = create(api, namespace, &all).await?;
                if found.lacks_all() {
                    restored.push(created.object_ref(&()));
                }
            }
            Some(stored) if stored.data != all.data => replace(api, namespace, &all).await?,
            Some(_) => {}
        }
    }
    let first = first_secret(namespace, ring);
    match &found.first {
        None => restored.push(create(api, namespace, &first).await?.object_ref(&())),
        Some(stored) if several && stored.data != first.data => {
            delete(api, namespace, stored).await?;
            create(api, namespace, &first).await?;
        }
        Some(_) => {}
    }
    Ok(())
}

fn api(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

async fn get(api: &Api<Secret>, namespace: &str, name: &str) -> Result<Option<Secret>, Error> {
    bounded(&format!("get Secret {namespace}/{name}"), namespace, 0, api.get_opt(name)).await
}

fn params() -> PostParams {
    PostParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PostParams::default() }
}

async fn create(api: &Api<Secret>, namespace: &str, secret: &Secret) -> Result<Secret, Error> {
    let what = format!("create Secret {namespace}/{}", secret.metadata.name.as_deref().unwrap_or_default());
    let post = params();
    bounded(&what, namespace, KEY_BYTES, api.create(&post, secret)).await
}

async fn replace(api: &Api<Secret>, namespace: &str, secret: &Secret) -> Result<(), Error> {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let (what, post) = (format!("update Secret {namespace}/{name}"), params());
    bounded(&what, namespace, KEY_BYTES, api.replace(name, &post, secret)).await.map(drop)
}

async fn delete(api: &Api<Secret>, namespace: &str, secret: &Secret) -> Result<(), Error> {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let preconditions = Preconditions { uid: secret.metadata.uid.clone(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let what = format!("delete Secret {namespace}/{name}");
    bounded(&what, namespace, 0, api.delete(name, &params)).await.map(drop)
}

fn secret(namespace: &str, name: &str, data: BTreeMap<String, ByteString>, immutable: bool) -> Secret {
    let pair = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            // Not `managed-by=sherpack`: readers of records select by that.
            labels: Some(pair("app.kubernetes.io/name", names::MANAGER_OWN)),
            annotations: Some(pair("kubernetes.io/description", DESCRIPTION)),
            ..ObjectMeta::default()
        },
        data: Some(data),
        immutable: immutable.then_some(true),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

/// What [`RECORD_KEY_SECRET`] is for this ring.
fn first_secret(namespace: &str, ring: &KeyRing) -> Secret {
    let (name, value) = match ring.keys().count() {
        1 => (RECORD_KEY_DATA, ByteString(ring.current().bytes().to_vec())),
        _ => (MOVED_DATA, ByteString(RECORD_KEYS_SECRET.as_bytes().to_vec())),
    };
    // A key that changes is a key that is lost.
    secret(namespace, RECORD_KEY_SECRET, BTreeMap::from([(name.to_owned(), value)]), true)
}

/// What [`RECORD_KEYS_SECRET`] is for this ring.
fn all_secret(namespace: &str, ring: &KeyRing, version: Option<String>) -> Secret {
    let mut data: BTreeMap<String, ByteString> =
        ring.keys().map(|key| (key.id(), ByteString(key.bytes().to_vec()))).collect();
    data.insert(CURRENT_DATA.to_owned(), ByteString(ring.current().id().into_bytes()));
    let mut secret = secret(namespace, RECORD_KEYS_SECRET, data, false);
    secret.metadata.resource_version = version;
    secret
}

fn invalid(namespace: &str, name: &str, message: String) -> Error {
    Error::KeyInvalid { secret: format!("{namespace}/{name}"), message }
}

fn key_in(secret: &Secret, name: &str) -> Result<MacKey, String> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(name));
    let bytes = bytes.ok_or_else(|| format!("data key {name:?} is missing"))?;
    let key: Result<[u8; KEY_BYTES], _> = bytes.0.as_slice().try_into();
    key.map(MacKey::new)
        .map_err(|_| format!("data key {name:?} holds {} bytes, not {KEY_BYTES}", bytes.0.len()))
}

/// The key in [`RECORD_KEY_SECRET`]; `None`: it has moved.
fn parse_first(secret: &Secret, namespace: &str) -> Result<Option<MacKey>, Error> {
    let has = |name| secret.data.as_ref().is_some_and(|data| data.contains_key(name));
    if has(MOVED_DATA) && !has(RECORD_KEY_DATA) {
        return Ok(None);
    }
    key_in(secret, RECORD_KEY_DATA)
        .map(Some)
        .map_err(|message| invalid(namespace, RECORD_KEY_SECRET, message))
}

fn parse_all(secret: &Secret, namespace: &str) -> Result<KeyRing, Error> {
    let invalid = |message| invalid(namespace, RECORD_KEYS_SECRET, message);
    let data = secret.data.as_ref();
    let current = data.and_then(|data| data.get(CURRENT_DATA)).map(|id| String::from_utf8_lossy(&id.0));
    let current = current.ok_or_else(|| invalid(format!("data key {CURRENT_DATA:?} is missing")))?;
    let mut ring = KeyRing::of(key_in(secret, current.trim()).map_err(invalid)?);
    for id in data.iter().flat_map(|data| data.keys()).filter(|id| *id != CURRENT_DATA) {
        let key = key_in(secret, id).map_err(invalid)?;
        if key.id() != *id {
            return Err(invalid(format!("data key {id:?} holds another key")));
        }
        ring = ring.and(key);
    }
    Ok(ring)
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
