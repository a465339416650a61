//! What is kept of adopted objects, beside the records: found by labels, so that what no record names can go.

use kube::Api;
use kube::Client;
use kube::api::ListParams;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Error, PAGE, backend::bounded};
use crate::api::names;

/// The Secrets of `namespace` that keep what a release of this target and name adopted: their metadata. Those without the
/// label of the target, which an earlier version wrote, are not among them: it cannot be told whose they are.
///
/// # Errors
/// Those of the API server.
pub async fn kept_secrets(
    client: &Client,
    namespace: &str,
    target: &str,
    release: &str,
) -> Result<Vec<ObjectMeta>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={release},{}={target}", names::KEPT, names::RELEASE_NAMESPACE);
    let mut params = ListParams::default().labels(&selector).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page =
            bounded("list what is kept of adopted objects", namespace, 0, api.list_metadata(&params)).await?;
        found.extend(page.items.into_iter().map(|item| item.metadata));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}
