//! Locks and the objects that their manifests name: which of two locks has an object, and which objects a lock may
//! write as the operator.
//!
//! A manifest is what its author says it is. So a claim is weighed by what the author of another manifest cannot set:
//! the object's own annotations, the namespaces, and the age of the SherpackRelease.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::ReleaseKey;
use crate::api::{Installer, LockOf, names};
use crate::manifest::ObjectId;

/// A lock's claim on an object. Of two the smaller one holds, in whatever order they are made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The object does not say that it belongs to the Helm release that is locked.
    unnamed: bool,
    /// The object is in another namespace than the records that name it.
    from_elsewhere: bool,
    /// The SherpackRelease is in another namespace than these records.
    by_a_stranger: bool,
    /// Of the SherpackRelease.
    created: Option<Timestamp>,
    key: ReleaseKey,
}

impl Claim {
    /// The claim of a release with this lock on an object with these annotations; `None`: the object is not there.
    #[must_use]
    pub fn of(
        key: &ReleaseKey,
        created: Option<Timestamp>,
        lock: &LockOf,
        id: &ObjectId,
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Self {
        let says = |name: &str, value: &str| {
            annotations.and_then(|all| all.get(name)).is_some_and(|found| found == value)
        };
        let named = lock.installer == Installer::Helm
            && says(names::HELM_RELEASE_NAME, &lock.name)
            && says(names::HELM_RELEASE_NAMESPACE, &lock.namespace);
        Self {
            unnamed: !named,
            from_elsewhere: id.namespace.as_ref().is_some_and(|namespace| *namespace != lock.namespace),
            by_a_stranger: key.namespace != lock.namespace,
            created,
            key: key.clone(),
        }
    }
}

/// Groups whose objects give rights, or have the operator act: who may write one has what it gives.
const GIVES_RIGHTS: [&str; 2] = ["rbac.authorization.k8s.io", "sherpack.io"];

/// Why the operator does not write an object in its own name because a record says so: who may write Secrets in one
/// namespace would decide about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// It has no namespace.
    Cluster,
    /// It is in another namespace than the records.
    Elsewhere,
    /// It gives rights.
    GivesRights,
}

impl Beyond {
    /// Whether an object is beyond what the records of a namespace decide about.
    #[must_use]
    pub fn of(id: &ObjectId, records: &str) -> Option<Self> {
        match &id.namespace {
            None => Some(Self::Cluster),
            Some(namespace) if namespace != records => Some(Self::Elsewhere),
            Some(_) => GIVES_RIGHTS.contains(&id.group.as_str()).then_some(Self::GivesRights),
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "has no namespace",
            Self::Elsewhere => "is in another namespace",
            Self::GivesRights => "gives rights",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> ReleaseKey {
        ReleaseKey { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn lock(installer: Installer, namespace: &str, name: &str) -> LockOf {
        LockOf { installer, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn id(group: &str, namespace: Option<&str>) -> ObjectId {
        ObjectId {
            group: group.to_owned(),
            kind: "Thing".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "a".to_owned(),
        }
    }

    fn named(name: &str, namespace: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (names::HELM_RELEASE_NAME.to_owned(), name.to_owned()),
            (names::HELM_RELEASE_NAMESPACE.to_owned(), namespace.to_owned()),
        ])
    }

    #[test]
    fn the_object_decides_between_two_claims_then_its_namespace_then_age_then_the_name() {
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        let thief = (key("evil", "thief"), at(1), lock(Installer::Helm, "evil", "evil"));
        let owner = (key("victim", "db"), at(2), lock(Installer::Helm, "victim", "db"));
        let tool = (key("victim", "tool"), at(0), lock(Installer::Sherpack, "victim", "db"));
        let twin = (key("victim", "dc"), at(2), lock(Installer::Helm, "victim", "dc"));
        let stranger = (key("evil", "twin"), at(0), lock(Installer::Helm, "victim", "dc"));
        let inside = id("", Some("victim"));
        let outside = id("", None);
        let of = |(key, created, lock): &(ReleaseKey, Option<Timestamp>, LockOf),
                  id: &ObjectId,
                  annotations: Option<&BTreeMap<String, String>>| {
            Claim::of(key, *created, lock, id, annotations)
        };
        let db = named("db", "victim");
        let half = BTreeMap::from([(names::HELM_RELEASE_NAME.to_owned(), "db".to_owned())]);
        for (first, second, id, annotations) in [
            // The object says whose it is, wherever and however old the others are.
            (&owner, &thief, &inside, Some(&db)),
            (&owner, &tool, &inside, Some(&db)),
            (&owner, &thief, &outside, Some(&db)),
            (&thief, &owner, &inside, Some(&named("evil", "evil"))),
            // It does not: the records in its own namespace know it better.
            (&owner, &thief, &inside, None),
            (&owner, &thief, &inside, Some(&half)),
            (&tool, &owner, &inside, Some(&half)),
            (&twin, &stranger, &inside, None),
            // Neither is nearer: the older one, then the name.
            (&thief, &owner, &outside, None),
            (&owner, &twin, &inside, Some(&named("other", "victim"))),
        ] {
            let (first, second) = (of(first, id, annotations), of(second, id, annotations));
            assert!(first < second, "{first:?} {second:?}");
        }
    }

    #[test]
    fn the_records_of_a_namespace_decide_about_that_namespace_and_give_no_rights() {
        for (group, namespace, beyond) in [
            ("", Some("apps"), None),
            ("apps", Some("apps"), None),
            ("example.com", Some("apps"), None),
            ("", None, Some(Beyond::Cluster)),
            ("rbac.authorization.k8s.io", None, Some(Beyond::Cluster)),
            ("apps", Some("kube-system"), Some(Beyond::Elsewhere)),
            ("rbac.authorization.k8s.io", Some("kube-system"), Some(Beyond::Elsewhere)),
            ("rbac.authorization.k8s.io", Some("apps"), Some(Beyond::GivesRights)),
            ("sherpack.io", Some("apps"), Some(Beyond::GivesRights)),
        ] {
            assert_eq!(Beyond::of(&id(group, namespace), "apps"), beyond, "{group} {namespace:?}");
        }
    }
}
