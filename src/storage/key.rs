//! The key that seals private parts, in a Secret beside the operator.
//!
//! Owns that Secret. Invariant: it is written once, by create only; a key that cannot be read is reported and never
//! replaced, because a new key makes every record another tool's. The key is never logged.
//!
//! RBAC, in the operator's own namespace: `get` and `create` on `secrets`. `create` cannot be limited to a name; `get`
//! can, to [`RECORD_KEY_SECRET`].

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};

use super::{
    Error,
    codec::{KEY_BYTES, MacKey},
    shelf::bounded,
};
use crate::api::names;

/// Name of the Secret that holds the key.
pub const RECORD_KEY_SECRET: &str = "sherpack-operator-record-key";
/// Its data key: 32 random bytes.
pub const RECORD_KEY_DATA: &str = "key";

const DESCRIPTION: &str = "Seals the revision records of sherpack-operator. Back it up with them: without this key \
                           they count as records of another tool, and nothing of them is locked or pruned.";

/// Reads the key from the operator's namespace, and makes one if there is none.
///
/// One read and no write when it exists. Two operators that start at once agree on the key of the first.
///
/// # Errors
/// [`Error::KeyInvalid`] if the Secret is there without 32 bytes in it; otherwise those of the API server.
pub async fn load_key(client: &Client, namespace: &str) -> Result<MacKey, Error> {
    load_key_or(client, namespace, None).await
}

/// As [`load_key`]; the key that is made is `given`, if there is one.
///
/// # Errors
/// As [`load_key`].
pub async fn load_key_or(client: &Client, namespace: &str, given: Option<MacKey>) -> Result<MacKey, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    if let Some(found) = read(&api, namespace).await? {
        return parse(&found, namespace);
    }
    let mut bytes = [0; KEY_BYTES];
    match given {
        Some(given) => bytes = given.bytes(),
        None => getrandom::fill(&mut bytes).map_err(Error::Random)?,
    }
    let secret = key_secret(namespace, bytes);
    let post = PostParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PostParams::default() };
    let what = format!("create Secret {namespace}/{RECORD_KEY_SECRET}");
    match bounded(&what, namespace, KEY_BYTES, api.create(&post, &secret)).await {
        Ok(_) => Ok(MacKey::new(bytes)),
        // Somebody was faster, or an earlier send of this call got through: what is stored counts.
        Err(Error::Conflict { what }) => {
            let found = read(&api, namespace).await?.ok_or(Error::Conflict { what })?;
            parse(&found, namespace)
        }
        Err(error) => Err(error),
    }
}

async fn read(api: &Api<Secret>, namespace: &str) -> Result<Option<Secret>, Error> {
    let what = format!("get Secret {namespace}/{RECORD_KEY_SECRET}");
    bounded(&what, namespace, 0, api.get_opt(RECORD_KEY_SECRET)).await
}

fn key_secret(namespace: &str, bytes: [u8; KEY_BYTES]) -> Secret {
    let pair = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    Secret {
        metadata: ObjectMeta {
            name: Some(RECORD_KEY_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            // Not `managed-by=sherpack`: readers of records select by that.
            labels: Some(pair("app.kubernetes.io/name", names::MANAGER_OWN)),
            annotations: Some(pair("kubernetes.io/description", DESCRIPTION)),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(RECORD_KEY_DATA.to_owned(), ByteString(bytes.to_vec()))])),
        // A key that changes is a key that is lost.
        immutable: Some(true),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn parse(secret: &Secret, namespace: &str) -> Result<MacKey, Error> {
    let invalid =
        |message: String| Error::KeyInvalid { secret: format!("{namespace}/{RECORD_KEY_SECRET}"), message };
    let bytes = secret
        .data
        .as_ref()
        .and_then(|data| data.get(RECORD_KEY_DATA))
        .ok_or_else(|| invalid(format!("data key {RECORD_KEY_DATA:?} is missing")))?;
    let key: [u8; KEY_BYTES] = bytes.0.as_slice().try_into().map_err(|_| {
        invalid(format!("data key {RECORD_KEY_DATA:?} holds {} bytes, not {KEY_BYTES}", bytes.0.len()))
    })?;
    Ok(MacKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_length_is_refused_without_showing_it() {
        let mut secret = key_secret("op", [b'k'; KEY_BYTES]);
        assert!(parse(&secret, "op").is_ok());
        secret.data = Some(BTreeMap::from([("key".to_owned(), ByteString(b"kkkk".to_vec()))]));
        let error = parse(&secret, "op").unwrap_err();
        assert_eq!(error.reason(), "RecordKeyInvalid");
        assert!(
            error.to_string().contains("op/sherpack-operator-record-key")
                && !error.to_string().contains("kkkk")
        );
        secret.data = None;
        assert_eq!(parse(&secret, "op").unwrap_err().reason(), "RecordKeyInvalid");
    }

    #[test]
    fn the_key_secret_is_not_taken_for_a_record() {
        let secret = key_secret("op", [0; KEY_BYTES]);
        assert!(!secret.metadata.labels.unwrap().contains_key(names::MANAGED_BY));
        assert_eq!(secret.immutable, Some(true));
    }
}
