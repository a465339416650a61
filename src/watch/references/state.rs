//! What is known of referenced objects, and who refers to them. No IO.

use std::collections::{HashMap, HashSet};

use crate::cluster::{Reference, Referent};
use crate::release::ReleaseKey;

/// Referenced objects, and nothing else: an object that no release refers to leaves no trace.
#[derive(Debug, Default)]
pub(super) struct State {
    references: HashMap<Reference, Referenced>,
    by_release: HashMap<ReleaseKey, HashSet<Reference>>,
    /// How often something that a release refers to changed.
    changes: HashMap<ReleaseKey, u64>,
}

#[derive(Debug, Default)]
struct Referenced {
    known: Known,
    users: HashSet<ReleaseKey>,
}

/// What is known of an object, with the resourceVersion last seen or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Known {
    #[default]
    Nothing,
    At(u64),
    Gone(u64),
}

/// What a pass may believe of a referenced object without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has to be read.
    Unknown,
    /// It is there, at this resourceVersion.
    At(u64),
    /// It is not there.
    Absent,
}

impl Known {
    fn version(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::At(version) | Self::Gone(version) => version,
        }
    }

    fn seen(self) -> Seen {
        match self {
            Self::Nothing => Seen::Unknown,
            Self::At(version) => Seen::At(version),
            Self::Gone(_) => Seen::Absent,
        }
    }
}

impl State {
    /// Sets what a release refers to. `false`: it is what it was.
    pub(super) fn refer(&mut self, release: &ReleaseKey, references: HashSet<Reference>) -> bool {
        let before = self.by_release.get(release);
        if before.map_or(references.is_empty(), |before| *before == references) {
            return false;
        }
        let before = self.by_release.remove(release).unwrap_or_default();
        for gone in before.difference(&references) {
            if let Some(referenced) = self.references.get_mut(gone) {
                referenced.users.remove(release);
                if referenced.users.is_empty() {
                    self.references.remove(gone);
                }
            }
        }
        for reference in &references {
            self.references.entry(reference.clone()).or_default().users.insert(release.clone());
        }
        if references.is_empty() {
            self.changes.remove(release);
        } else {
            self.by_release.insert(release.clone(), references);
        }
        true
    }

    /// Whether anybody refers to an object of this kind.
    pub(super) fn uses(&self, kind: Referent) -> bool {
        self.references.keys().any(|reference| reference.kind == kind)
    }

    pub(super) fn contains(&self, reference: &Reference) -> bool {
        self.references.contains_key(reference)
    }

    pub(super) fn seen(&self, reference: &Reference) -> Seen {
        self.references.get(reference).map_or(Seen::Unknown, |referenced| referenced.known.seen())
    }

    pub(super) fn changes(&self, release: &ReleaseKey) -> u64 {
        self.changes.get(release).copied().unwrap_or(0)
    }

    /// Takes note of what a read found. It shows the past when the watch told something newer while it was under way.
    pub(super) fn read(&mut self, reference: &Reference, before: Seen, found: Option<u64>) {
        let Some(referenced) = self.references.get_mut(reference) else { return };
        let known = &mut referenced.known;
        match found {
            Some(version) if version >= known.version() => *known = Known::At(version),
            // Nothing is said of when it was not there, so any news since outweighs it.
            None if known.seen() == before => *known = Known::Gone(known.version()),
            Some(_) | None => {}
        }
    }

    /// Notes what an event says of an object if a release refers to it; gives which to wake because it is news.
    pub(super) fn changed(&mut self, reference: &Reference, known: Known) -> Vec<ReleaseKey> {
        let Some(referenced) = self.references.get_mut(reference) else { return Vec::new() };
        // Of a service account only counts whether it is there.
        let account = reference.kind == Referent::ServiceAccount;
        let news = referenced.known != known
            && !matches!((referenced.known, known), (Known::Gone(_), Known::Gone(_)))
            && !(account && matches!((referenced.known, known), (Known::At(_), Known::At(_))));
        referenced.known = known;
        if !news {
            return Vec::new();
        }
        let users: Vec<ReleaseKey> = referenced.users.iter().cloned().collect();
        for user in &users {
            *self.changes.entry(user.clone()).or_default() += 1;
        }
        users
    }

    /// A list of a kind that has not shown these is over. They are gone, or came to be known while it ran: they have to
    /// be read.
    pub(super) fn unlisted(&self, kind: Referent, listed: &HashSet<Reference>) -> Vec<Reference> {
        let missing = self.references.iter().filter(|(name, referenced)| {
            name.kind == kind && matches!(referenced.known, Known::At(_)) && !listed.contains(*name)
        });
        missing.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: Referent, name: &str) -> Reference {
        Reference { kind, namespace: "apps".to_owned(), name: name.to_owned() }
    }

    fn release(name: &str) -> ReleaseKey {
        ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() }
    }

    fn values() -> Reference {
        reference(Referent::Secret, "values")
    }

    fn of_web(references: &[Reference]) -> State {
        let mut state = State::default();
        state.refer(&release("web"), references.iter().cloned().collect());
        state
    }

    #[test]
    fn a_read_does_not_take_back_what_the_watch_told_meanwhile() {
        let mut state = of_web(&[values()]);
        state.read(&values(), Seen::Unknown, Some(10));
        assert_eq!(state.seen(&values()), Seen::At(10));
        state.changed(&values(), Known::At(11));
        state.read(&values(), Seen::At(10), Some(10));
        assert_eq!(state.seen(&values()), Seen::At(11));
        state.changed(&values(), Known::Gone(12));
        state.read(&values(), Seen::At(11), Some(11));
        assert_eq!(state.seen(&values()), Seen::Absent);
        state.read(&values(), Seen::Absent, Some(13));
        assert_eq!(state.seen(&values()), Seen::At(13));
    }

    #[test]
    fn an_object_that_was_not_there_counts_as_absent_unless_something_was_seen_meanwhile() {
        let mut state = of_web(&[values()]);
        state.read(&values(), Seen::Unknown, None);
        assert_eq!(state.seen(&values()), Seen::Absent);
        assert_eq!(state.changed(&values(), Known::At(5)), [release("web")], "it came");

        let mut state = of_web(&[values()]);
        state.changed(&values(), Known::At(5));
        state.read(&values(), Seen::Unknown, None);
        assert_eq!(state.seen(&values()), Seen::At(5), "the answer may be older than the event");
        state.read(&values(), Seen::At(5), None);
        assert_eq!(state.seen(&values()), Seen::Absent);
        assert!(state.changed(&values(), Known::Gone(6)).is_empty(), "no news");
    }

    #[test]
    fn only_news_of_what_is_referred_to_wakes_and_all_who_refer_to_it() {
        let mut state = of_web(&[values()]);
        state.refer(&release("other"), HashSet::from([values()]));
        let mut woken = state.changed(&values(), Known::At(1));
        woken.sort();
        assert_eq!(woken, [release("other"), release("web")]);
        assert!(state.changed(&values(), Known::At(1)).is_empty(), "the same again");
        for other in [reference(Referent::ConfigMap, "values"), reference(Referent::Secret, "else")] {
            assert!(state.changed(&other, Known::At(2)).is_empty(), "{other}");
        }
        let elsewhere = Reference { namespace: "elsewhere".to_owned(), ..values() };
        assert!(state.changed(&elsewhere, Known::At(2)).is_empty());
        assert_eq!((state.changes(&release("web")), state.changes(&release("other"))), (1, 1));
    }

    #[test]
    fn of_a_service_account_only_its_coming_and_going_is_news() {
        let account = reference(Referent::ServiceAccount, "deployer");
        let mut state = of_web(std::slice::from_ref(&account));
        state.read(&account, Seen::Unknown, None);
        assert_eq!(state.changed(&account, Known::At(5)), [release("web")], "it came");
        assert!(state.changed(&account, Known::At(6)).is_empty(), "a user labelled it");
        assert_eq!(state.seen(&account), Seen::At(6));
        assert_eq!(state.changed(&account, Known::Gone(7)), [release("web")], "it went");
    }

    #[test]
    fn nothing_is_kept_of_an_object_that_nobody_refers_to() {
        let mut state = of_web(&[values()]);
        for number in 0..1_000 {
            let stranger = reference(Referent::Secret, &format!("stranger-{number}"));
            state.changed(&stranger, Known::At(number));
            state.read(&stranger, Seen::Unknown, Some(number));
        }
        assert_eq!(state.references.len(), 1);
        state.changed(&values(), Known::At(1));

        let map = reference(Referent::ConfigMap, "values");
        assert!(state.refer(&release("web"), HashSet::from([map.clone()])));
        assert!(!state.uses(Referent::Secret) && state.uses(Referent::ConfigMap));
        assert!(!state.refer(&release("web"), HashSet::from([map])), "as before");
        assert!(state.refer(&release("web"), HashSet::new()));
        assert!(!state.refer(&release("web"), HashSet::new()));
        let State { references, by_release, changes } = &state;
        assert!(references.is_empty() && by_release.is_empty() && changes.is_empty());
    }

    #[test]
    fn what_a_list_of_its_kind_does_not_show_has_to_be_read() {
        let map = reference(Referent::ConfigMap, "values");
        let mut state = of_web(&[values(), map.clone(), reference(Referent::Secret, "never-seen")]);
        state.changed(&values(), Known::At(3));
        state.changed(&map, Known::At(4));
        assert_eq!(state.unlisted(Referent::Secret, &HashSet::new()), [values()]);
        assert!(state.unlisted(Referent::Secret, &HashSet::from([values()])).is_empty());
    }
}
