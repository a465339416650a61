//! The newest revision of what is locked: from memory while the watches agree, else read, as the account that acts.
//!
//! Of Helm, the Secrets of the newest revision, of the next one and of the first one are referred to, so that its
//! change, its successor and a new installation are told by the watch of referenced objects. Records of other Sherpack
//! tools are told by the watch of records.

use std::collections::HashSet;

use crate::api::{ActsAs, HistoryStorage, Installer, LockOf, PackStatus, reasons};
use crate::cluster::{Reference, Referent};
use crate::plan::rights::{Right, describe};
use crate::reconcile::Error;
use crate::reconcile::access::preflight::right;
use crate::reconcile::drift::external::External;
use crate::reconcile::state::guard::{Guard, Head, Told};
use crate::release::guard::Found;
use crate::storage::{
    self, AnyRecords, HelmFound, HelmNewest, HelmRecords, Keeping, Records, Stored, helm_key,
};
use crate::watch::{Newest, RecordsOf};

/// What a Sherpack tool may keep its records in; only the operator reads its files.
const STORAGES: [HistoryStorage; 2] = [HistoryStorage::Secret, HistoryStorage::ConfigMap];

impl External<'_> {
    /// Something is to be done that was not when the last try failed.
    pub(in crate::reconcile) fn has_news(&self, lock: &LockOf, guard: &Guard) -> bool {
        self.scope.generation_changed()
            || self.scope.ctx.names.is_contested(self.scope.key)
            || guard.head.as_ref().is_some_and(|head| head.at != self.told(lock))
            || !self.scope.ctx.guards.suspicions(self.scope.key).is_empty()
    }

    fn told(&self, lock: &LockOf) -> Told {
        match lock.installer {
            Installer::Helm => Told::References(self.scope.ctx.references.changes(self.scope.key)),
            Installer::Sherpack => Told::Records(
                STORAGES.map(|storage| self.scope.ctx.record_watch.newest(&records_of(lock, storage))),
            ),
        }
    }

    /// Makes sure that `guard.head` is the newest revision.
    pub(super) async fn look_up(&mut self, lock: &LockOf, guard: &mut Guard) -> Result<(), Error> {
        let known = self.scope.release.status.as_ref().and_then(|status| status.revision);
        let known = known.and_then(|revision| u32::try_from(revision).ok());
        let mut revision = guard.head.as_ref().and_then(Head::revision).or(known).unwrap_or(1);
        let contested = self.scope.ctx.names.is_contested(self.scope.key);
        if contested {
            // An answer of a moment ago may be why it still has the lock.
            self.access().doubt_rights(reasons::FORBIDDEN);
        }
        // Twice as soon as the revision is known: what is referred to is known before it is read.
        for _ in 0..super::TRIES {
            if let Err(error) = self.access().require_account().await {
                // It hears of the records once an account acts that may have them.
                self.refer_to(HashSet::new(), &[]);
                return Err(error);
            }
            let storages = self.readable_storages(lock).await?;
            self.refer(lock, revision, &storages);
            let at = self.told(lock);
            // What is not deployed is read in each pass: there is nothing else to do, and passes are rare.
            let still = |head: &Head| head.at == at && head.is_deployed();
            if guard.head.as_ref().is_some_and(still) && !contested && !self.newest().spec_changed() {
                return Ok(());
            }
            let head = match lock.installer {
                Installer::Helm => {
                    let newest = self.helm().newest(&lock.namespace, &lock.name).await;
                    let newest = newest.map_err(|error| unread(lock, error))?;
                    if let Some(newest) = newest.as_ref().filter(|newest| newest.revision != revision) {
                        revision = newest.revision;
                        continue;
                    }
                    self.read_helm(lock, newest, at, guard).await?
                }
                Installer::Sherpack => self.read_sherpack(lock, at, &storages, guard).await?,
            };
            guard.head = Some(head);
            return Ok(());
        }
        Err(Error::Undecided)
    }

    /// Where a Sherpack tool may keep records that the account may know of. Whether there are any in another namespace is
    /// not for one that may not read them there.
    async fn readable_storages(&self, lock: &LockOf) -> Result<Vec<HistoryStorage>, Error> {
        let account =
            self.scope.cluster.account().filter(|_| lock.namespace != self.scope.key.namespace).cloned();
        let (Some(account), Installer::Sherpack) = (account, lock.installer) else {
            return Ok(STORAGES.to_vec());
        };
        // Who may list them knows of each.
        let needed = |storage: HistoryStorage| {
            let resource = if storage == HistoryStorage::ConfigMap { "configmaps" } else { "secrets" };
            right("list", "", resource, Some(&lock.namespace), "")
        };
        let all = STORAGES.into_iter().map(needed).collect();
        let missing: HashSet<Right> =
            self.scope.ctx.rights.missing(self.scope.cluster, all).await?.all().collect();
        let storages: Vec<HistoryStorage> =
            STORAGES.into_iter().filter(|storage| !missing.contains(&needed(*storage))).collect();
        if storages.is_empty() {
            self.refer_to(HashSet::new(), &[]);
            let missing = describe(&[needed(HistoryStorage::Secret)]);
            return Err(Error::RightsMissing { account, missing });
        }
        Ok(storages)
    }

    /// Sets what wakes this release.
    fn refer(&self, lock: &LockOf, revision: u32, storages: &[HistoryStorage]) {
        match lock.installer {
            Installer::Helm => {
                // Installed again after it was uninstalled, it begins with 1.
                let revisions = [1, revision, revision.saturating_add(1)];
                let secrets = revisions.map(|revision| secret(lock, &helm_key(&lock.name, revision)));
                self.refer_to(HashSet::from(secrets), &[]);
            }
            Installer::Sherpack => {
                let names: Vec<RecordsOf> =
                    storages.iter().map(|storage| records_of(lock, *storage)).collect();
                self.refer_to(HashSet::new(), &names);
            }
        }
    }

    fn refer_to(&self, mut references: HashSet<Reference>, records: &[RecordsOf]) {
        if let ActsAs::ServiceAccount(name) = &self.scope.settings.acts_as {
            references.insert(Reference::new(Referent::ServiceAccount, &self.scope.key.namespace, name));
        }
        self.scope.ctx.record_watch.claim(self.scope.key, records);
        self.scope.ctx.references.refer(self.scope.key, references);
    }

    fn helm(&self) -> HelmRecords {
        self.scope.ctx.records.helm(self.scope.cluster.client().clone())
    }

    async fn read_helm(
        &self,
        lock: &LockOf,
        newest: Option<HelmNewest>,
        at: Told,
        guard: &mut Guard,
    ) -> Result<Head, Error> {
        let Some(newest) = newest else { return Ok(Head::nothing(at)) };
        let reference = secret(lock, &newest.secret);
        let before = self.scope.ctx.references.seen(&reference);
        let read = self.helm().get(&lock.namespace, &newest.secret).await;
        let head = Head { version: newest.version.clone(), ..Head::nothing(at) };
        Ok(match read.map_err(|error| unread(lock, error))? {
            HelmFound::Nothing => Head::nothing(at),
            HelmFound::Unreadable(unreadable) => {
                Head { found: Found::Unreadable(unreadable.to_string()), ..head }
            }
            HelmFound::Release(release, version) => {
                // So that the first list of the watch is no news.
                self.scope.ctx.references.read(&reference, before, version.parse().ok());
                let storage::HelmRelease { revision, status, manifest, chart, server_side, .. } = *release;
                guard.manifest = Some(manifest);
                let pack = chart.map(|(name, version, app_version)| PackStatus {
                    name,
                    version,
                    app_version,
                    digest: None,
                });
                Head { found: Found::Revision { revision, status }, version, pack, server_side, ..head }
            }
        })
    }

    async fn read_sherpack(
        &self,
        lock: &LockOf,
        at: Told,
        storages: &[HistoryStorage],
        guard: &mut Guard,
    ) -> Result<Head, Error> {
        let Told::Records(newest) = at else { return Ok(Head::nothing(at)) };
        for (storage, before) in STORAGES.into_iter().zip(newest) {
            if before == Newest::None || !storages.contains(&storage) {
                continue;
            }
            let of = records_of(lock, storage);
            let read = self.sherpack(storage).newest(&lock.namespace, &lock.name).await;
            let read = read.map_err(|error| unread(lock, error))?;
            let head = Head { storage, ..Head::nothing(at) };
            let (stored, ours) = match read {
                storage::Head::None => {
                    self.scope.ctx.record_watch.read(&of, before, Newest::None);
                    continue;
                }
                storage::Head::Unreadable(unreadable) => {
                    return Ok(Head { found: Found::Unreadable(unreadable.to_string()), ..head });
                }
                storage::Head::Foreign(stored) => (stored, None),
                storage::Head::Ours(stored) => {
                    let owner = stored.private.as_ref().map(|private| &private.owner);
                    let owner = owner.map(|owner| format!("{}/{}", owner.namespace, owner.name));
                    (stored, owner)
                }
            };
            let mut stored = stored;
            guard.manifest = Some(std::mem::take(&mut stored.record.manifest));
            let Stored { record, resource_version, .. } = stored.slim();
            return Ok(Head {
                found: Found::Revision { revision: record.version, status: record.state.name().to_owned() },
                version: resource_version,
                pack: Some(PackStatus {
                    name: record.pack.name,
                    version: record.pack.version.to_string(),
                    app_version: record.pack.app_version,
                    digest: None,
                }),
                server_side: true,
                installed_by: ours,
                ..head
            });
        }
        Ok(Head::nothing(at))
    }

    fn sherpack(&self, storage: HistoryStorage) -> AnyRecords {
        let stores = self.scope.ctx.records.seen_by(self.scope.cluster.client().clone());
        stores.of(&Keeping { storage, ..Keeping::default() })
    }

    /// Reads the manifest of the head again. `None`: it is not the newest any more.
    pub(super) async fn manifest(&self, lock: &LockOf, guard: &mut Guard) -> Result<Option<String>, Error> {
        let Some(head) = &guard.head else { return Ok(None) };
        if let Some(manifest) = guard.manifest.take() {
            return Ok(Some(manifest));
        }
        let Some(revision) = head.revision() else { return Ok(None) };
        let read = match lock.installer {
            Installer::Helm => {
                let read = self.helm().get(&lock.namespace, &helm_key(&lock.name, revision)).await;
                match read.map_err(|error| unread(lock, error))? {
                    HelmFound::Release(release, version) => Some((release.manifest, version)),
                    HelmFound::Nothing | HelmFound::Unreadable(_) => None,
                }
            }
            Installer::Sherpack => {
                let read = self.sherpack(head.storage).get(&lock.namespace, &lock.name, revision).await;
                match read.map_err(|error| unread(lock, error))? {
                    storage::Head::Foreign(stored) => Some((stored.record.manifest, stored.resource_version)),
                    storage::Head::None | storage::Head::Ours(_) | storage::Head::Unreadable(_) => None,
                }
            }
        };
        Ok(read.filter(|(_, version)| *version == head.version).map(|(manifest, _)| manifest))
    }

    /// Asks the API server whether the head is still the newest revision, and unchanged.
    pub(super) async fn is_still_newest(&self, lock: &LockOf, guard: &Guard) -> Result<bool, Error> {
        let Some(head) = &guard.head else { return Ok(false) };
        let newest = match lock.installer {
            Installer::Helm => {
                let newest = self.helm().newest(&lock.namespace, &lock.name).await;
                let newest = newest.map_err(|error| unread(lock, error))?;
                newest.map(|newest| (newest.revision, newest.version))
            }
            Installer::Sherpack => {
                let all = self.sherpack(head.storage).list(&lock.namespace, &lock.name).await;
                let all = all.map_err(|error| unread(lock, error))?;
                let newest = all.into_iter().max_by_key(|meta| meta.revision);
                newest.map(|meta| (meta.revision, meta.resource_version))
            }
        };
        Ok(newest == head.revision().map(|revision| (revision, head.version.clone())))
    }
}

fn secret(lock: &LockOf, name: &str) -> Reference {
    Reference::new(Referent::Secret, &lock.namespace, name)
}

fn records_of(lock: &LockOf, storage: HistoryStorage) -> RecordsOf {
    RecordsOf { storage, namespace: lock.namespace.clone(), stem: lock.name.clone() }
}

/// Who may not read records need not be the operator.
fn unread(lock: &LockOf, error: storage::Error) -> Error {
    match error {
        storage::Error::Forbidden { message, .. } => {
            Error::ReadForbidden { what: format!("the records of {lock}"), message }
        }
        error => error.into(),
    }
}
