//! One archive of a registry or repository. Blocks on the network.

use super::{Reach, client, failure};
use crate::cli::cluster::on_runtime;
use crate::cli::output::answer::Failure;
use crate::source::http::Timing;
use crate::source::oci::{self, Artifact, Pulled};
use crate::source::repository::{self, Listed};

pub(super) fn pulled(artifact: &Artifact, reach: &Reach) -> Result<Pulled, Failure> {
    let credentials = reach.login(artifact)?;
    on_runtime(async {
        oci::archive(&client(Timing::default()), artifact, &credentials)
            .await
            .map_err(|error| failure(error, Some(artifact), &credentials))
    })
}

pub(super) fn listed(listed: &Listed, reach: &Reach) -> Result<Vec<u8>, Failure> {
    let credentials = reach.credentials()?;
    on_runtime(async {
        repository::archive(&client(Timing::default()), listed, &credentials)
            .await
            .map_err(|error| failure(error, None, &credentials))
    })
}
