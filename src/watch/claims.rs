//! Which releases are to hear of which records.
//!
//! One record may be of interest to several releases: to the one that keeps it, to locks, and to those that wait for its
//! name. None takes the news away from another. What is kept is bounded by the releases and the names in their specs.

use std::collections::{BTreeSet, HashMap};

use crate::api::HistoryStorage;
use crate::release::ReleaseKey;

/// Which records belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordsOf {
    pub storage: HistoryStorage,
    /// Namespace of the records.
    pub namespace: String,
    /// What their names have in common: the release's name, and before it its namespace when that is another one.
    pub stem: String,
}

/// The claims of all releases, by name and by release.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claimants: HashMap<RecordsOf, BTreeSet<ReleaseKey>>,
    names: HashMap<ReleaseKey, Vec<RecordsOf>>,
}

impl Claims {
    /// Makes these all the names that a release claims; gives those that no release claims any more.
    pub(super) fn set(&mut self, release: &ReleaseKey, names: &[RecordsOf]) -> Vec<RecordsOf> {
        if self.names.get(release).map_or(&[][..], Vec::as_slice) == names {
            return Vec::new();
        }
        let before = match names {
            [] => self.names.remove(release),
            _ => self.names.insert(release.clone(), names.to_vec()),
        };
        for of in names {
            self.claimants.entry(of.clone()).or_default().insert(release.clone());
        }
        let mut unclaimed = before.unwrap_or_default();
        unclaimed.retain(|of| !names.contains(of) && self.leave(of, release));
        unclaimed
    }

    /// Takes a release from a name; `true`: it was the last one.
    fn leave(&mut self, of: &RecordsOf, release: &ReleaseKey) -> bool {
        let Some(claimants) = self.claimants.get_mut(of) else { return false };
        claimants.remove(release);
        let last = claimants.is_empty();
        if last {
            self.claimants.remove(of);
        }
        last
    }

    /// Whether any release claims a name.
    pub(super) fn has(&self, of: &RecordsOf) -> bool {
        self.claimants.contains_key(of)
    }

    /// The releases that claim a name.
    pub(super) fn of(&self, of: &RecordsOf) -> impl Iterator<Item = &ReleaseKey> {
        self.claimants.get(of).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(stem: &str) -> RecordsOf {
        RecordsOf { storage: HistoryStorage::Secret, namespace: "apps".to_owned(), stem: stem.to_owned() }
    }

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn no_claimant_takes_a_name_from_another_and_a_release_claims_no_more_than_it_names() {
        let mut claims = Claims::default();
        let (web, db) = (records("web"), records("db"));
        let of = |claims: &Claims, of: &RecordsOf| -> Vec<String> {
            claims.of(of).map(|release| release.name.clone()).collect()
        };
        assert!(claims.set(&key("a"), std::slice::from_ref(&web)).is_empty());
        assert!(claims.set(&key("b"), &[web.clone(), db.clone()]).is_empty());
        assert_eq!(of(&claims, &web), ["a", "b"]);
        // Once more is no change.
        assert!(claims.set(&key("b"), &[web.clone(), db.clone()]).is_empty());
        // It names something else: what no release names any more is told.
        assert_eq!(claims.set(&key("b"), std::slice::from_ref(&web)), std::slice::from_ref(&db));
        assert!(!claims.has(&db) && of(&claims, &web) == ["a", "b"]);
        assert!(claims.set(&key("a"), &[]).is_empty());
        assert_eq!(claims.set(&key("b"), &[]), [web]);
        assert!(claims.claimants.is_empty() && claims.names.is_empty());
    }
}
