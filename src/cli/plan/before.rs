//! What a cluster has of a release before it is planned.

use std::collections::BTreeMap;

use super::Args;
use super::report::Problem;
use crate::api::{Adopt, CrdUpgrade, Crds, SherpackRelease};
use crate::cli::cluster::{Named, releases};
use crate::cli::output::answer::Failure;
use crate::cluster;
use crate::plan::definitions::course::Rules;
use crate::plan::definitions::{Author, author};
use crate::release::{Private, Record};
use crate::storage::unverified::{self, Found};
use crate::storage::{Keeping, Stores};

/// Stands for the uid of a release that does not exist yet.
const UNBORN: &str = "00000000-0000-0000-0000-000000000000";

/// What there is of the release.
pub(super) struct Before {
    /// Namespace and name of the SherpackRelease, whether there is one or not.
    pub(super) key: (String, String),
    release: Option<SherpackRelease>,
    /// Of the release itself.
    pub(super) namespace: String,
    pub(super) name: String,
    record: Option<Record>,
    pub(super) private: Option<Private>,
    /// Which release has which uid; `None`: that cannot be seen.
    living: Option<BTreeMap<String, (String, String)>>,
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<Problem>,
}

impl Before {
    pub(super) async fn read(
        client: kube::Client,
        key: (String, String),
        args: &Args,
    ) -> Result<Self, Failure> {
        let Named { release, namespace, name, keeping } = Named::find(&client, &key.0, &key.1).await?;
        let mut before = Self {
            key,
            release,
            namespace,
            name,
            record: None,
            private: None,
            living: None,
            notes: Vec::new(),
            problems: Vec::new(),
        };
        before.living = match releases(&client, None).await {
            Ok(all) => Some(all.into_iter().filter_map(identified).collect()),
            Err(failure) => {
                before.notes.push(format!("whose objects are cannot be told: {}", failure.message));
                None
            }
        };
        before.read_record(&client, &keeping, &args.records.stores(&client)).await?;
        Ok(before)
    }

    async fn read_record(
        &mut self,
        client: &kube::Client,
        keeping: &Keeping,
        stores: &Stores,
    ) -> Result<(), Failure> {
        let (namespace, name) = (&self.namespace, &self.name);
        match unverified::find(&stores.of(keeping), namespace, name, None).await {
            Ok(Found::Nothing) => {}
            Ok(Found::Unreadable(unreadable)) => {
                self.problems.push(Problem::new("RecordUnreadable", unreadable));
            }
            Ok(Found::Record(stored)) => {
                let private = unverified::private(client, keeping.storage, &stored).await;
                self.private = private.map_err(|error| error.to_string())?;
                if self.private.is_none() {
                    let version = stored.record.version;
                    self.notes.push(format!(
                        "revision {version} says nothing here of the objects that it applied, so what would be pruned is not known"
                    ));
                }
                self.record = Some(stored.record);
            }
            Err(error) => return Err(error.to_string().into()),
        }
        Ok(())
    }

    pub(super) fn revision(&self) -> u32 {
        self.record.as_ref().map_or(1, |record| record.version.saturating_add(1))
    }

    pub(super) fn rules(&self, strategy: Option<CrdUpgrade>) -> Rules {
        let spec = self.release.as_ref().map(|release| &release.spec);
        let crds: Crds = spec.and_then(|spec| spec.crds.clone()).unwrap_or_default();
        let adopt = spec.and_then(|spec| spec.install.as_ref()).and_then(|install| install.adopt);
        Rules {
            install: crds.install,
            upgrade: strategy.or(crds.upgrade),
            confirmed: crds.confirm_changes.unwrap_or_default(),
            adopt: adopt == Some(Adopt::Unowned),
            // The operator's flag is not known here.
            trust_pack: false,
        }
    }

    /// The uid of this line of revisions.
    pub(super) fn uid(&self) -> &str {
        let line = self.private.as_ref().map(|private| private.owner.uid.as_str());
        let release = self.release.as_ref().and_then(|release| release.metadata.uid.as_deref());
        line.or(release).unwrap_or(UNBORN)
    }

    pub(super) fn author(&self, live: &cluster::Applied) -> Author {
        author(live.live.metadata.annotations.as_ref(), |by| {
            if by == self.uid() {
                return Author::Us;
            }
            match &self.living {
                None => Author::Release(format!("with the uid {by}, which cannot be seen")),
                Some(living) => match living.get(by) {
                    Some(key) if *key == self.key => Author::Us,
                    Some((namespace, name)) => Author::Release(format!("{namespace}/{name}")),
                    None => Author::Departed,
                },
            }
        })
    }
}

fn identified(release: SherpackRelease) -> Option<(String, (String, String))> {
    let meta = release.metadata;
    Some((meta.uid?, (meta.namespace?, meta.name?)))
}
