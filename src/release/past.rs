//! What a new revision may know of those before it.
//!
//! Pure: records in, what counts of them out. May import `manifest` and below.

use std::collections::BTreeMap;

use super::{Private, State};
use crate::manifest::{InventoryEntry, ObjectId};

/// What the records before a new revision say.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The newest record of ours, as far as there is one.
    pub private: Option<Private>,
    /// It is the newest of all, so nothing of it is left to others, and what it left over is ours to prune.
    pub newest: bool,
    /// The newest revision that was deployed, or may have been, and to which no release can go back.
    pub unreachable: Option<u32>,
    /// A record of ours says that a revision of ours was deployed.
    pub deployed: bool,
    /// The revision of [`Past::private`].
    revision: u32,
    /// The newest record that names this release and cannot be proved, and what is wrong with it.
    doubt: Option<(u32, String)>,
}

impl Past {
    /// The past of a release whose newest record is its own: everything stands in that one.
    #[must_use]
    pub fn of_newest(private: &Private) -> Self {
        Self {
            private: Some(private.clone()),
            newest: true,
            unreachable: private.unreachable,
            ..Self::default()
        }
    }

    /// Takes one of several records into account, in whatever order they come. `private`: of this release, and proved.
    pub fn add(&mut self, revision: u32, state: &State, private: Option<Private>) {
        let deployed = matches!(state, State::Deployed | State::Superseded);
        match private {
            Some(private) => {
                self.unreachable = self.unreachable.max(private.unreachable);
                self.deployed |= deployed || private.last_deployed.is_some();
                if self.revision < revision {
                    (self.revision, self.private) = (revision, Some(private));
                }
            }
            None if deployed => self.unreachable = self.unreachable.max(Some(revision)),
            None => {}
        }
    }

    /// Takes a record into account that names this release and cannot be proved.
    pub fn add_doubtful(&mut self, revision: u32, problem: String) {
        self.doubt = self.doubt.take().max(Some((revision, problem)));
    }

    /// Takes into account, after all records, that `known` is the newest revision that anything speaks of. Of one that has no
    /// record of ours it cannot be said that it was not deployed.
    pub fn add_known(&mut self, known: u32) {
        let newest = self.doubt.as_ref().map_or(known, |(revision, _)| known.max(*revision));
        if newest > self.revision {
            self.unreachable = self.unreachable.max(Some(newest));
        }
    }

    /// What is wrong with a record that is newer than [`Past::private`].
    #[must_use]
    pub fn doubt(&self) -> Option<&str> {
        let newer = self.doubt.as_ref().filter(|(revision, _)| *revision > self.revision);
        newer.map(|(_, problem)| problem.as_str())
    }

    /// What the record of ours applied, for reading.
    #[must_use]
    pub fn inventory(&self) -> Vec<InventoryEntry> {
        let known = self.private.iter().flat_map(|private| &private.inventory);
        if self.newest {
            return known.cloned().collect();
        }
        // Others have worked on these objects since, so they are looked at like any object.
        known.map(|entry| InventoryEntry { uid: None, fingerprint: None, ..entry.clone() }).collect()
    }

    /// What the record of ours left over, as far as that is still to be seen to: beside others only what it adopted, which is
    /// handed back and never deleted.
    #[must_use]
    pub fn leftovers(&self) -> Vec<InventoryEntry> {
        let known = self.private.iter().flat_map(|private| &private.leftovers);
        known.filter(|entry| self.newest || entry.adopted.is_some()).cloned().collect()
    }

    /// In which revision each object that the record of ours knows of last changed.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<ObjectId, u32> {
        let mut objects = BTreeMap::new();
        let Some(private) = &self.private else { return objects };
        for entry in private.inventory.iter().chain(&private.leftovers).chain(&private.hook_objects) {
            let changed_in: &mut u32 = objects.entry(entry.id.clone()).or_default();
            *changed_in = entry.changed_in.max(*changed_in);
        }
        objects
    }

    /// What may be pruned: nothing, unless the record of ours is the newest.
    #[must_use]
    pub fn prunes(&self) -> Option<&Private> {
        self.private.as_ref().filter(|_| self.newest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn private(leftovers: &serde_json::Value) -> Private {
        let private = json!({
            "version": 2, "owner": {"namespace": "apps", "name": "web", "uid": "6f1c"}, "holder": "o", "action": "Upgrade",
            "attempt": 1, "inputs": "a", "packDigest": "p", "inventory": [], "leftovers": leftovers,
        });
        serde_json::from_value(private).unwrap()
    }

    #[test]
    fn below_a_record_of_others_only_what_was_adopted_is_left_over() {
        let entry = |name: &str| {
            json!({
                "id": {"kind": "ConfigMap", "name": name}, "apiVersion": "v1", "digest": "", "changedIn": 1,
            })
        };
        let mut adopted = entry("adopted");
        adopted["adopted"] = json!({});
        let private = private(&json!([entry("made"), adopted]));
        assert_eq!(Past::of_newest(&private).leftovers().len(), 2);
        let mut past = Past::default();
        past.add(1, &State::Superseded, Some(private));
        let left: Vec<String> = past.leftovers().into_iter().map(|entry| entry.id.name).collect();
        assert_eq!(left, ["adopted"]);
    }
}
