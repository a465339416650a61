//! Which releases have records, whatever those are: they carry our finalizer.

use kube::{Api, Client, api::ListParams};

use crate::api::{SherpackRelease, names};
use crate::storage::{Error, PAGE, backend::bounded};

/// A SherpackRelease that carries our finalizer, of one namespace or of all: there are records of it, and a key sealed
/// them.
///
/// # Errors
/// Those of the API server.
pub async fn finalized(client: &Client, namespace: Option<&str>) -> Result<Option<String>, Error> {
    let api: Api<SherpackRelease> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page =
            bounded("list SherpackReleases", namespace.unwrap_or_default(), 0, api.list_metadata(&params))
                .await?;
        let ours = page
            .items
            .iter()
            .map(|item| &item.metadata)
            .find(|meta| meta.finalizers.iter().flatten().any(|finalizer| finalizer == names::FINALIZER));
        if let Some(ours) = ours {
            let (namespace, name) = (ours.namespace.as_deref(), ours.name.as_deref());
            return Ok(Some(format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(None),
        }
    }
}
