//! The release, and its revisions as they can be read without the key that seals them.

use crate::api::SherpackRelease;
use crate::cli::cluster::{Named, Place};
use crate::cli::output::answer::Failure;
use crate::cli::releases::pending_holder;
use crate::release::State;
use crate::storage::unverified::{self, Found};
use crate::storage::{AnyRecords, Keeping, Records as _, Stored, Stores};

/// What is compared.
pub(super) struct Subject {
    pub(super) place: Place,
    /// `None`: there is none, or it may not be read.
    pub(super) release: Option<SherpackRelease>,
    /// Of the release itself.
    pub(super) namespace: String,
    pub(super) name: String,
    keeping: Keeping,
    stores: Stores,
}

impl Subject {
    pub(super) async fn find(place: Place, records: &pending_holder::Records) -> Result<Self, Failure> {
        let found = Named::find(&place.client, &place.namespace, &place.name).await;
        let Named { release, namespace, name, keeping } =
            found.map_err(|error| format!("SherpackRelease {}: {error}", place.what()))?;
        Ok(Self { namespace, name, keeping, stores: records.stores(&place.client), release, place })
    }

    fn what(&self) -> String {
        format!("a release {} in namespace {}", self.name, self.namespace)
    }

    /// A revision, or the newest one, with all that can be read of its private part. Nothing of it is proved.
    pub(super) async fn revision(&self, revision: Option<u32>) -> Result<Stored, Failure> {
        let records = self.records();
        let found = unverified::find(&records, &self.namespace, &self.name, revision).await;
        let mut stored = match found.map_err(|error| error.to_string())? {
            Found::Record(stored) => *stored,
            Found::Unreadable(unreadable) => return Err(unreadable.to_string().into()),
            Found::Nothing => {
                let revision = revision.map_or_else(|| "revision".to_owned(), |n| format!("revision {n}"));
                return Err(format!("there is no {revision} of {}", self.what()).into());
            }
        };
        let private = unverified::private(&self.place.client, self.keeping.storage, &stored).await;
        stored.private = private.map_err(|error| error.to_string())?;
        Ok(stored)
    }

    /// The revision that is deployed, and a word on a newer one that is not.
    pub(super) async fn deployed(&self) -> Result<(Stored, Option<String>), Failure> {
        let newest = self.revision(None).await?;
        if newest.record.state == State::Deployed {
            return Ok((newest, None));
        }
        let (version, state) = (newest.record.version, newest.record.state.name());
        for earlier in self.numbers().await?.into_iter().rev().filter(|number| *number < version) {
            let stored = self.revision(Some(earlier)).await?;
            if stored.record.state == State::Deployed {
                let note = format!(
                    "revision {version} is {state}: compared is revision {earlier}, the deployed one"
                );
                return Ok((stored, Some(note)));
            }
        }
        Err(format!("no revision of {} is deployed: revision {version} is {state}", self.what()).into())
    }

    /// The revision before another one.
    pub(super) async fn before(&self, revision: u32) -> Result<u32, Failure> {
        let numbers = self.numbers().await?;
        let before = numbers.into_iter().rev().find(|number| *number < revision);
        before.ok_or_else(|| format!("there is no revision before {revision} of {}", self.what()).into())
    }

    /// Oldest first.
    async fn numbers(&self) -> Result<Vec<u32>, Failure> {
        let all = self.records().list(&self.namespace, &self.name).await;
        Ok(all.map_err(|error| error.to_string())?.into_iter().map(|meta| meta.revision).collect())
    }

    fn records(&self) -> AnyRecords {
        self.stores.of(&self.keeping)
    }
}
