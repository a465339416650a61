//! The networks from which Services get their addresses.

use std::time::Duration;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Client;
use kube::api::{Api, ListParams};

use super::status_code;

/// A cluster has one or two, and more only where addresses ran out.
const MOST: u32 = 100;
/// Nothing waits longer for it.
const DEADLINE: Duration = Duration::from_secs(5);

/// Networks such as `10.96.0.0/12`; none from an API server that does not tell.
///
/// # Errors
/// What the API server answered, or that it did not.
pub async fn service_networks(client: &Client) -> kube::Result<Vec<String>> {
    let networks: Api<ServiceCIDR> = Api::all(client.clone());
    let params = ListParams::default().limit(MOST);
    let listed = match tokio::time::timeout(DEADLINE, networks.list(&params)).await {
        Ok(Err(error)) if status_code(&error) == Some(404) => return Ok(Vec::new()),
        Ok(listed) => listed?,
        Err(_) => {
            let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer within 5s");
            return Err(kube::Error::Service(Box::new(late)));
        }
    };
    Ok(listed.items.into_iter().filter_map(|network| network.spec?.cidrs).flatten().collect())
}
