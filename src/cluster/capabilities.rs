use kube::Client;

use crate::pack::render::Capabilities;

/// What templates are told of the cluster: its version and the group versions that it serves, as of now.
///
/// # Errors
/// The API server does not answer, or not with that.
pub async fn capabilities(client: &Client) -> kube::Result<Capabilities> {
    let kube_version = client.apiserver_version().await?.git_version;
    let mut api_versions = client.list_core_api_versions().await?.versions;
    let groups = client.list_api_groups().await?.groups;
    api_versions
        .extend(groups.into_iter().flat_map(|group| group.versions).map(|served| served.group_version));
    api_versions.sort();
    Ok(Capabilities { kube_version, api_versions })
}
