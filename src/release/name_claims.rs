//! SherpackReleases that name the same release: which of them has the name.
//!
//! A spec may name what its author has no rights to. So a SherpackRelease that acts as a service account counts only where
//! that account may keep the records. Of those that count the answer is the same in whatever order the operator asks.

use jiff::Timestamp;

use super::{Owner, ReleaseKey};

/// How far a SherpackRelease keeps others from a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Not at all.
    None,
    /// As long as the newest record is sealed for it.
    Sealed,
    /// Whether a record is sealed for it or not.
    Full,
}

/// What the account of a SherpackRelease was answered about the records of another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet, and its next pass asks.
    Unasked,
    /// Nothing, and this process does not ask: another shard does.
    NotAsked,
    Granted,
    Refused,
}

/// What decides about the weight of a SherpackRelease, as seen by another one of the same target and name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    pub acts_as_operator: bool,
    /// It lives in the target namespace.
    pub at_home: bool,
    /// Both keep the same records.
    pub same_records: bool,
    /// It keeps them in its own namespace, for which no account is asked.
    pub keeps_at_home: bool,
    pub answer: Answer,
}

/// How far such a SherpackRelease keeps the other one from the name.
#[must_use]
pub fn weight(named: &Named) -> Weight {
    if named.acts_as_operator {
        return Weight::Full;
    }
    // What it may do elsewhere says nothing of what it may do to these records.
    if !named.at_home && !named.same_records {
        return Weight::None;
    }
    match named.answer {
        _ if named.keeps_at_home => Weight::Full,
        // After a start no account was asked yet: the better claim counts until the API server refuses it.
        Answer::Granted | Answer::Unasked => Weight::Full,
        Answer::NotAsked => Weight::Sealed,
        Answer::Refused => Weight::None,
    }
}

/// A SherpackRelease that names a release.
#[derive(Clone, Debug)]
pub struct Claimant {
    pub key: ReleaseKey,
    /// It lives in another namespace than its target.
    pub from_elsewhere: bool,
    pub created: Option<Timestamp>,
    pub uid: Option<String>,
    pub weight: Weight,
}

impl Claimant {
    fn rank(&self) -> impl Ord {
        (self.from_elsewhere, self.created, self.uid.clone())
    }

    fn is(&self, owner: &Owner) -> bool {
        self.key.namespace == owner.namespace && self.key.name == owner.name
    }
}

/// Who keeps `me` from the name: the one for which the newest record is sealed, else one that lives in its own target
/// before those from elsewhere, else the oldest.
#[must_use]
pub fn held_by<'c>(
    me: &Claimant,
    rivals: &'c [Claimant],
    sealed_for: Option<&Owner>,
) -> Option<&'c Claimant> {
    if let Some(owner) = sealed_for {
        if me.is(owner) {
            return None;
        }
        let sealed = rivals.iter().find(|rival| rival.is(owner) && rival.weight >= Weight::Sealed);
        if sealed.is_some() {
            return sealed;
        }
    }
    let first =
        rivals.iter().filter(|rival| rival.weight == Weight::Full).min_by_key(|rival| rival.rank())?;
    (first.rank() < me.rank()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant(namespace: &str, created: i64, weight: Weight) -> Claimant {
        Claimant {
            key: ReleaseKey { namespace: namespace.to_owned(), name: "web".to_owned() },
            from_elsewhere: namespace != "apps",
            created: Some(Timestamp::from_second(created).unwrap()),
            uid: Some(namespace.to_owned()),
            weight,
        }
    }

    fn owner(namespace: &str) -> Owner {
        Owner { namespace: namespace.to_owned(), name: "web".to_owned(), uid: String::new() }
    }

    #[test]
    fn who_acts_as_an_account_counts_where_the_account_may_keep_the_records() {
        let stranger = Named {
            acts_as_operator: false,
            at_home: false,
            same_records: true,
            keeps_at_home: false,
            answer: Answer::Refused,
        };
        let answered = |answer| Named { answer, ..stranger };
        let rows = [
            ("refused", stranger, Weight::None),
            ("granted", answered(Answer::Granted), Weight::Full),
            ("not asked since the start", answered(Answer::Unasked), Weight::Full),
            ("another shard's", answered(Answer::NotAsked), Weight::Sealed),
            ("the operator", Named { acts_as_operator: true, same_records: false, ..stranger }, Weight::Full),
            ("granted elsewhere", Named { same_records: false, ..answered(Answer::Granted) }, Weight::None),
            (
                "records beside itself",
                Named { same_records: false, keeps_at_home: true, ..stranger },
                Weight::None,
            ),
            ("at home", Named { at_home: true, keeps_at_home: true, ..stranger }, Weight::Full),
            (
                "at home, other records",
                Named { at_home: true, keeps_at_home: true, same_records: false, ..stranger },
                Weight::Full,
            ),
            ("at home, refused where it keeps records", Named { at_home: true, ..stranger }, Weight::None),
        ];
        for (what, named, expected) in rows {
            assert_eq!(weight(&named), expected, "{what}");
        }
    }

    #[test]
    fn the_name_goes_to_the_seal_then_to_who_lives_there_then_to_the_oldest() {
        use Weight::{Full, None as Nothing, Sealed};
        let (home, old, young) = (("apps", 3), ("ops", 1), ("dev", 2));
        let rows: [(_, &[_], _, _); 13] = [
            (home, &[(old, Full)], None, None),
            (old, &[(home, Full)], None, Some("apps")),
            (young, &[(old, Full)], None, Some("ops")),
            (old, &[(young, Full)], None, None),
            // A release that was refused keeps no other from it, however old it is.
            (young, &[(old, Nothing)], None, None),
            (young, &[(old, Nothing), (home, Full)], None, Some("apps")),
            // This process asks for no release of another shard.
            (young, &[(old, Sealed)], None, None),
            (young, &[(old, Sealed)], Some("ops"), Some("ops")),
            // A seal outweighs both, unless its owner was refused.
            (home, &[(old, Full)], Some("ops"), Some("ops")),
            (home, &[(old, Nothing)], Some("ops"), None),
            (young, &[(old, Full)], Some("dev"), None),
            (young, &[(old, Nothing), (home, Full)], Some("ops"), Some("apps")),
            // Sealed for a release that is gone.
            (young, &[(old, Full)], Some("gone"), Some("ops")),
        ];
        for (me, rivals, sealed_for, expected) in rows {
            let me = claimant(me.0, me.1, Full);
            let mut rivals: Vec<Claimant> =
                rivals.iter().map(|((namespace, at), weight)| claimant(namespace, *at, *weight)).collect();
            for _ in 0..2 {
                let held = held_by(&me, &rivals, sealed_for.map(owner).as_ref());
                let held = held.map(|claimant| claimant.key.namespace.as_str());
                assert_eq!(held, expected, "{me:?} {rivals:?} {sealed_for:?}");
                rivals.reverse();
            }
        }
    }
}
