//! Records as Secrets in the namespace of their release.
//!
//! Thin: each method is one or two calls. The client is the operator's own, never one that impersonates.
//!
//! RBAC, in every namespace that releases are installed into: `get, list, create, update, patch, delete` on `secrets`.

use std::{collections::VecDeque, future::Future, sync::Arc};

use futures::{Stream, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;

use super::{
    CALL_TIMEOUT, Error, Head, Meta, PAGE, Records, Stored,
    codec::{self, Compression, MacKey},
    head::{heads_selector, is_chunk, release_selector},
};
use crate::{
    api::names,
    release::{Private, Record},
};

/// How often a list that grew too old is started again before it counts as an error.
const LIST_TRIES: u32 = 3;

/// The default driver: one Secret per revision.
#[derive(Clone)]
pub struct SecretRecords {
    client: Client,
    key: Arc<MacKey>,
    compression: Compression,
}

impl SecretRecords {
    /// `client` acts as the operator itself; `key` comes from [`load_key`](super::load_key).
    pub fn new(client: Client, key: MacKey) -> Self {
        Self { client, key: Arc::new(key), compression: Compression::default() }
    }

    /// The same driver, writing with another compression. All of them are read anyway.
    #[must_use]
    pub fn compressing(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    fn api(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// After a refusal for being too late: is what is stored there just what we sent? The client repeats a send that
    /// got no clear answer, and then runs into its own first one.
    async fn own_write(&self, sent: &Secret) -> Result<Option<Secret>, Error> {
        let (namespace, name) = names_of(sent);
        let what = format!("get Secret {namespace}/{name}");
        let found = bounded(&what, namespace, 0, self.api(namespace).get_opt(name)).await?;
        Ok(found.filter(|found| found.data == sent.data && found.metadata.labels == sent.metadata.labels))
    }

    async fn settle(&self, sent: &Secret, answer: Result<Secret, Error>) -> Result<Secret, Error> {
        match answer {
            Err(Error::Conflict { what }) => self.own_write(sent).await?.ok_or(Error::Conflict { what }),
            answer => answer,
        }
    }

    fn scan(
        &self,
        api: Api<Secret>,
        scope: String,
        selector: String,
    ) -> impl Stream<Item = Result<Head, Error>> + Send {
        let first = Scan { page: VecDeque::new(), next: Some(String::new()), tries: LIST_TRIES };
        stream::try_unfold(first, move |mut scan| {
            let (api, scope, selector, key) =
                (api.clone(), scope.clone(), selector.clone(), self.key.clone());
            async move {
                loop {
                    // Secrets wait encoded; one at a time is unpacked.
                    if let Some(secret) = scan.page.pop_front() {
                        if !is_chunk(&secret.metadata) {
                            return Ok(Some((Head::of(&secret, &key), scan)));
                        }
                    } else if let Some(token) = scan.next.take() {
                        let params = page_params(&selector, &token);
                        match bounded(&format!("list Secrets in {scope}"), &scope, 0, api.list(&params)).await
                        {
                            Ok(list) => {
                                scan.next = list.metadata.continue_.filter(|token| !token.is_empty());
                                scan.page = list.items.into();
                            }
                            Err(error) if is_expired(&error) && scan.tries > 1 => {
                                scan.tries -= 1;
                                scan.next = Some(String::new());
                            }
                            Err(error) => return Err(error),
                        }
                    } else {
                        return Ok(None);
                    }
                }
            }
        })
    }
}

struct Scan {
    page: VecDeque<Secret>,
    /// Token of the next page; empty for the first.
    next: Option<String>,
    tries: u32,
}

impl Records for SecretRecords {
    async fn create(&self, record: &Record, private: &Private) -> Result<Stored, Error> {
        let secret = codec::encode(record, Some(private), self.compression, &self.key, true)?;
        let (namespace, name) = names_of(&secret);
        let what = format!("create Secret {namespace}/{name}");
        let answer =
            bounded(&what, namespace, size(&secret), self.api(namespace).create(&post_params(), &secret))
                .await;
        let created = self.settle(&secret, answer).await?;
        Ok(Stored::written(record, Some(private), &created.metadata))
    }

    async fn update(
        &self,
        stored: &Stored,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        let mut secret = codec::encode(record, private, self.compression, &self.key, head)?;
        stored.succeed(&mut secret);
        let (namespace, name) = names_of(&secret);
        let what = format!("update Secret {namespace}/{name}");
        let api = self.api(namespace);
        let answer =
            bounded(&what, namespace, size(&secret), api.replace(name, &post_params(), &secret)).await;
        let updated = self.settle(&secret, answer).await?;
        Ok(Stored::written(record, private, &updated.metadata))
    }

    async fn set_head(&self, stored: &Stored, head: bool) -> Result<String, Error> {
        let value = head.then_some(codec::HEAD_VALUE);
        // With a resourceVersion in it a merge patch is refused with 409 once the object has moved on.
        let patch = json!({"metadata": {
            "resourceVersion": stored.resource_version,
            "labels": {names::HEAD: value},
        }});
        let params =
            PatchParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PatchParams::default() };
        let Stored { namespace, secret_name, .. } = stored;
        let what = format!("patch Secret {namespace}/{secret_name}");
        let api = self.api(namespace);
        let patched =
            bounded(&what, namespace, 0, api.patch_metadata(secret_name, &params, &Patch::Merge(&patch)))
                .await?;
        Ok(patched.metadata.resource_version.unwrap_or_default())
    }

    async fn get(&self, namespace: &str, release: &str, revision: u32) -> Result<Head, Error> {
        let name = Record::key_of(release, revision);
        let what = format!("get Secret {namespace}/{name}");
        let found = bounded(&what, namespace, 0, self.api(namespace).get_opt(&name)).await?;
        Ok(found.map_or(Head::None, |secret| Head::of(&secret, &self.key)))
    }

    async fn list(&self, namespace: &str, release: &str) -> Result<Vec<Meta>, Error> {
        let api = self.api(namespace);
        let (selector, what) =
            (release_selector(release), format!("list Secrets of release {namespace}/{release}"));
        let (mut metas, mut token, mut tries): (Vec<Meta>, _, _) = (Vec::new(), String::new(), LIST_TRIES);
        loop {
            let params = page_params(&selector, &token);
            match bounded(&what, namespace, 0, api.list_metadata(&params)).await {
                Ok(list) => {
                    metas.extend(list.items.iter().filter_map(|item| Meta::of(&item.metadata, release)));
                    token = list.metadata.continue_.unwrap_or_default();
                    if token.is_empty() {
                        break;
                    }
                }
                Err(error) if is_expired(&error) && tries > 1 => {
                    tries -= 1;
                    token.clear();
                    metas.clear();
                }
                Err(error) => return Err(error),
            }
        }
        metas.sort_by_key(|meta| meta.revision);
        Ok(metas)
    }

    async fn newest(&self, namespace: &str, release: &str) -> Result<Head, Error> {
        let mut found = Head::None;
        // Retention or an uninstall may take the record away between the two calls; the list is asked once more then.
        for _ in 0..2 {
            let Some(newest) = self.list(namespace, release).await?.pop() else {
                return Ok(Head::None);
            };
            found = self.get(namespace, release, newest.revision).await?;
            if !matches!(found, Head::None) {
                break;
            }
        }
        Ok(found)
    }

    fn history(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        self.scan(self.api(namespace), namespace.to_owned(), release_selector(release))
    }

    fn heads(&self, namespace: Option<&str>) -> impl Stream<Item = Result<Head, Error>> + Send {
        let api = namespace.map_or_else(|| Api::all(self.client.clone()), |namespace| self.api(namespace));
        self.scan(api, namespace.unwrap_or("all namespaces").to_owned(), heads_selector())
    }

    async fn delete(&self, meta: &Meta) -> Result<(), Error> {
        let Meta { namespace, secret_name, uid, resource_version, .. } = meta;
        let preconditions =
            Preconditions { uid: Some(uid.clone()), resource_version: Some(resource_version.clone()) };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let what = format!("delete Secret {namespace}/{secret_name}");
        match bounded(&what, namespace, 0, self.api(namespace).delete(secret_name, &params)).await {
            Ok(_) | Err(Error::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Runs one call under [`CALL_TIMEOUT`] and sorts its error.
pub(super) async fn bounded<T>(
    what: &str,
    namespace: &str,
    size: usize,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Error::from_kube(error, what, namespace, size)),
        Err(_) => Err(Error::Timeout { what: what.to_owned(), after: CALL_TIMEOUT }),
    }
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PostParams::default() }
}

fn page_params(selector: &str, token: &str) -> ListParams {
    let params = ListParams::default().labels(selector).limit(PAGE);
    if token.is_empty() { params } else { params.continue_token(token) }
}

/// The server forgot the snapshot that a continue token refers to.
fn is_expired(error: &Error) -> bool {
    matches!(error, Error::Api { source, .. } if matches!(&**source, kube::Error::Api(status) if status.code == 410))
}

fn names_of(secret: &Secret) -> (&str, &str) {
    (
        secret.metadata.namespace.as_deref().unwrap_or_default(),
        secret.metadata.name.as_deref().unwrap_or_default(),
    )
}

fn size(secret: &Secret) -> usize {
    secret.data.iter().flat_map(|data| data.values()).map(|bytes| bytes.0.len()).sum()
}
