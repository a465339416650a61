use serde::{Deserialize, Serialize};

use super::ObjectId;
use super::adoption::Adopted;

/// What a revision remembers of one object that it applied. Stored in the private part of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// Which object.
    pub id: ObjectId,
    /// The version under which it was applied.
    pub api_version: String,
    /// `metadata.uid`; `None` until the apply has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// [`digest`](super::digest()) of the applied body.
    pub digest: String,
    /// Revision in which the body last changed; part of the marker that each apply carries.
    pub changed_in: u32,
    /// [`managed_fields::fingerprint`](super::managed_fields::fingerprint) of what the apply answered; `None` until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Neither pruned nor uninstalled.
    #[serde(default)]
    pub keep: bool,
    /// JSON pointers that were left out of the apply because something else in the cluster sets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_over: Vec<String>,
    /// `spec.replicas` of the manifest's body: with another number, an autoscaler of the namespace is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// JSON pointers into the manifest's body that the last apply left out because a rule leaves them to others, the last
    /// one of a list first. An empty one says that the object is left to others as a whole, and is not locked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Fields because of which the object was left as it is; it is not locked then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// It was there before its release wrote it, and is handed back instead of deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adopted>,
    /// How it ended, if it is a Job that has: it is not made again, also when another client has deleted it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Ran>,
    /// [`Object::layer`](super::Object::layer): what is in a higher one is taken away first.
    #[serde(default, skip_serializing_if = "is_first")]
    pub layer: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_first(layer: &u32) -> bool {
    *layer == 0
}

/// The end of a Job that is no hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ran {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// It was applied without the ttl of the manifest, and that is still to be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ttl_due: bool,
}

impl InventoryEntry {
    /// About how many bytes it takes in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let Self { id, api_version, uid, digest, fingerprint, handed_over, ignored, skipped, .. } = self;
        let names = [&id.group, &id.kind, &id.name, api_version, digest].into_iter();
        let some = [&id.namespace, uid, fingerprint].into_iter().flatten();
        let lists = handed_over.iter().chain(ignored).chain(skipped);
        let texts: usize = names.chain(some).map(String::len).sum();
        size_of::<Self>() + texts + lists.map(|path| size_of::<String>() + path.len()).sum::<usize>()
    }

    /// Takes note that the object was there before `revision` writes it. The marker names that very revision from now on.
    pub fn adopt(&mut self, revision: u32, unexplained: bool) {
        if self.adopted.is_none() {
            self.changed_in = revision;
        }
        self.adopted.get_or_insert_default().unexplained |= unexplained;
        // Whatever an earlier try made under this name is gone.
        (self.uid, self.fingerprint) = (None, None);
    }

    /// The object is left to others as a whole.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.ignored.iter().any(String::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_without_optional_fields_is_read() {
        let json = json!({
            "id": {"group": "apps", "kind": "Deployment", "namespace": "apps", "name": "web"},
            "apiVersion": "apps/v1", "digest": "sha256:00", "changedIn": 3
        });
        let entry: InventoryEntry = serde_json::from_value(json).unwrap();
        assert_eq!((entry.changed_in, entry.keep, entry.uid, entry.fingerprint), (3, false, None, None));
    }

    #[test]
    fn an_entry_survives_json() {
        let entry = InventoryEntry {
            id: ObjectId { kind: "Secret".into(), name: "s".into(), ..ObjectId::default() },
            api_version: "v1".into(),
            uid: Some("u".into()),
            digest: "sha256:00".into(),
            changed_in: 1,
            fingerprint: Some("f".into()),
            keep: true,
            handed_over: vec!["/spec/replicas".into()],
            ignored: vec!["/data/a".into()],
            replicas: Some(2),
            skipped: vec!["spec.selector".into()],
            adopted: Some(Adopted { kept: Some("sha256:11".into()), deployed: false, unexplained: true }),
            ran: Some(Ran { failed: false, ttl_due: true }),
            layer: 2,
        };
        let json = serde_json::to_value(&entry).unwrap();
        assert_eq!(json["handedOver"], json!(["/spec/replicas"]));
        assert_eq!(serde_json::from_value::<InventoryEntry>(json).unwrap(), entry);
    }
}
