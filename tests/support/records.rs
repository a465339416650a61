//! Revision records, opened and rewritten: as another tool, a thief or a broken disk would.

use futures::TryStreamExt;
use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use sherpack_operator::api::HistoryStorage;
use sherpack_operator::release::{Private, Record, State};
use sherpack_operator::storage::codec::{self, Decoded};
use sherpack_operator::storage::{
    AnyRecords, Compression, Head, Keeping, MacKey, RECORD_KEY_DATA, RECORD_KEY_SECRET, Records, Stores,
};

use super::Harness;
use super::wait::wait_for;

impl Harness {
    /// The Secrets of this namespace, typed.
    #[must_use]
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The Secret of a revision.
    pub async fn record_secret(&self, release: &str, revision: u32) -> Secret {
        self.secrets().get(&Record::key_of(release, revision)).await.unwrap()
    }

    /// The key of this operator's records.
    pub async fn record_key(&self) -> MacKey {
        let secret = wait_for("the key of the records", async || {
            // The operator makes it when it starts.
            self.secrets().get(RECORD_KEY_SECRET).await.map_err(|error| error.to_string())
        })
        .await;
        MacKey::new(secret.data.unwrap()[RECORD_KEY_DATA].0.as_slice().try_into().unwrap())
    }

    /// The records of this operator, wherever they are.
    pub async fn kept(&self, keeping: &Keeping) -> AnyRecords {
        let directory = self.settings.storage_dir.clone();
        Stores::new(self.client.clone(), self.record_key().await, directory).of(keeping)
    }

    /// Waits until the revisions of a release that is kept like this are in these states, oldest first.
    pub async fn keeps_states(&self, keeping: &Keeping, target: &str, release: &str, expected: &[&str]) {
        let records = self.kept(keeping).await;
        let place = self.objects.elsewhere(keeping.namespace.as_deref().unwrap_or(target));
        wait_for(&format!("the revisions of {release} are {expected:?}"), async || {
            match keeping.storage {
                HistoryStorage::Secret => place.read("Secret"),
                HistoryStorage::ConfigMap => place.read("ConfigMap"),
                HistoryStorage::File => {}
            }
            let found: Vec<Head> =
                records.history(target, release).try_collect().await.map_err(|error| error.to_string())?;
            let mut states: Vec<String> = found
                .iter()
                .map(|head| match head {
                    Head::Ours(stored) => {
                        format!("{} {}", stored.record.version, stored.record.state.name())
                    }
                    other => format!("{other:?}"),
                })
                .collect();
            states.sort();
            if states == expected { Ok(()) } else { Err(format!("{states:?}")) }
        })
        .await;
    }

    /// A revision as the operator reads it.
    pub async fn decoded(&self, release: &str, revision: u32) -> Decoded {
        codec::decode(&self.record_secret(release, revision).await, &self.record_key().await).unwrap()
    }

    /// The states of all revisions that can be read, oldest first: `1 superseded`.
    pub async fn states(&self, release: &str) -> Vec<String> {
        let key = self.record_key().await;
        let records = self.records(release).await.into_iter();
        let records = records.map(|record| serde_json::from_value::<Secret>(record).unwrap());
        records
            .map(|secret| match codec::decode(&secret, &key) {
                Ok(decoded) => format!("{} {}", decoded.record.version, decoded.record.state.name()),
                Err(unreadable) => unreadable.reason.as_str().to_owned(),
            })
            .collect()
    }

    /// Waits until the revisions of a release are in these states and its status tells of the newest of them: what the
    /// status says afterwards is not of an earlier one.
    pub async fn shows_states(&self, release: &str, expected: &[&str]) {
        self.records_show(release, expected).await;
        let newest = expected.last().copied().unwrap_or_default();
        if newest.contains("pending") {
            // The status of a short operation is not written before its end.
            return;
        }
        wait_for(&format!("the status of {release} tells of {newest:?}"), async || {
            let Some(found) = self.objects.find(&format!("SherpackRelease/{release}")).await else {
                return Ok(());
            };
            let history = found["status"]["history"].as_array().cloned().unwrap_or_default();
            // A revision that came meanwhile is as good: the status is not of an earlier one.
            let revision = |of: &str| of.split(' ').next().and_then(|number| number.parse::<u32>().ok());
            let told = history.first().map(told).unwrap_or_default();
            let later = revision(&told) > revision(newest);
            if told == newest || later { Ok(()) } else { Err(found["status"].to_string()) }
        })
        .await;
    }

    /// Waits until the revisions of a release are in these states, whatever the status says: it follows later, and it
    /// does not tell of records that no operator reads or that are not the operator's.
    pub async fn records_show(&self, release: &str, expected: &[&str]) {
        wait_for(&format!("the revisions of {release} are {expected:?}"), async || {
            let states = self.states(release).await;
            if states == expected { Ok(()) } else { Err(format!("{states:?}")) }
        })
        .await;
    }

    /// Stores a revision as another tool does: the whole object, without what is ours in it.
    pub async fn write_as_another_tool(&self, record: &Record) -> Secret {
        self.put(self.as_another_tool(record).await).await
    }

    /// What another tool would store, not stored.
    pub async fn as_another_tool(&self, record: &Record) -> Secret {
        codec::encode(record, None, Compression::Zstd, &self.record_key().await, false).unwrap()
    }

    /// Stores a revision that this operator could have written.
    pub async fn write_as_ours(&self, record: &Record, private: &Private) -> Secret {
        let key = self.record_key().await;
        self.put(codec::encode(record, Some(private), Compression::Zstd, &key, true).unwrap()).await
    }

    /// Changes what a revision says and leaves its seal as it is.
    pub async fn forge(&self, release: &str, revision: u32, change: impl FnOnce(&mut Record)) -> Secret {
        let mut record = self.decoded(release, revision).await.record;
        change(&mut record);
        let forged = codec::encode(&record, None, Compression::Zstd, &self.record_key().await, true).unwrap();
        let mut secret = self.record_secret(release, revision).await;
        secret.data.get_or_insert_default().extend(forged.data.unwrap());
        self.put(secret).await
    }

    /// Changes the bytes of a revision.
    pub async fn damage(&self, release: &str, revision: u32, change: impl FnOnce(&mut Vec<u8>)) -> Secret {
        let mut secret = self.record_secret(release, revision).await;
        change(&mut secret.data.as_mut().unwrap().get_mut("release").unwrap().0);
        self.put(secret).await
    }

    /// Deletes a revision, as a person who clears up does; gives what was there.
    pub async fn lose_record(&self, release: &str, revision: u32) -> Secret {
        let secret = self.record_secret(release, revision).await;
        self.secrets().delete(&Record::key_of(release, revision), &DeleteParams::default()).await.unwrap();
        secret
    }

    /// Puts a Secret back as a backup tool does: the same content, another object.
    pub async fn restore(&self, secret: Secret) -> Secret {
        self.put(secret).await
    }

    /// Creates or replaces a Secret, whatever version it was read at.
    async fn put(&self, mut secret: Secret) -> Secret {
        let (meta, params) = (&mut secret.metadata, PostParams::default());
        (meta.resource_version, meta.uid, meta.managed_fields) = (None, None, None);
        meta.namespace = Some(self.namespace.clone());
        let name = meta.name.clone().unwrap();
        match self.secrets().create(&params, &secret).await {
            Ok(created) => created,
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.secrets().replace(&name, &params, &secret).await.unwrap()
            }
            Err(error) => panic!("{} {name}: {error}", Secret::KIND),
        }
    }
}

/// `1 deployed`, from an entry of `status.history`.
#[must_use]
pub fn told(entry: &Value) -> String {
    format!("{} {}", entry["revision"], entry["state"].as_str().unwrap_or_default())
}

/// A pending upgrade that was begun this many seconds ago and says that it takes ten minutes.
#[must_use]
pub fn pending_since(seconds: i64) -> State {
    let started_at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    State::PendingUpgrade { started_at, timeout: 600, previous_version: 1 }
}

/// The document of one more object in the manifest of a record.
pub fn smuggle(record: &mut Record, object: &Value) {
    record.manifest = format!("{}\n---\n{}", record.manifest, json!(object));
}
