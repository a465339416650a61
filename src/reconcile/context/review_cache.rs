//! What service accounts may do, as of a moment ago: asked for once for each account and namespace, whatever the number
//! of releases.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};

use crate::cluster::{self, Account, Cluster, Rules, Turns};
use crate::plan::rights::{Right, describe, grants};

/// So long an answer is believed. A right that goes meanwhile is missed by the call that needs it.
const BELIEVED: Duration = Duration::from_secs(60);
/// A refusal is believed no longer than this: an administrator may just have granted what was missing.
const REFUSAL_BELIEVED: Duration = Duration::from_secs(1);
/// The same for a single right: each takes a question of its own.
const SINGLE_REFUSAL_BELIEVED: Duration = Duration::from_secs(5);
/// So long it is believed that an account is there.
const SEEN_BELIEVED: Duration = Duration::from_secs(1);
/// Namespaces, and single rights, of which answers are kept; the oldest goes first.
const KEPT: usize = 256;
const KEPT_SINGLE: usize = 4096;
/// Single rights to objects by their names that one try asks for, and so many at a time. Rights to all names of a resource
/// are asked for first and beside these: there are few. What is left counts as missing.
const ASKED: usize = 512;
const AT_ONCE: usize = 8;

/// What an account lacks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::reconcile) struct Missing {
    pub(in crate::reconcile) refused: Vec<Right>,
    /// Too many were needed to ask for each.
    unasked: Vec<Right>,
}

impl Missing {
    pub(in crate::reconcile) fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.unasked.is_empty()
    }

    pub(in crate::reconcile) fn all(self) -> impl Iterator<Item = Right> {
        self.refused.into_iter().chain(self.unasked)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refused, unasked } = self;
        if unasked.is_empty() {
            return out.write_str(&describe(refused));
        }
        if !refused.is_empty() {
            write!(out, "{}; ", describe(refused))?;
        }
        write!(
            out,
            "not asked for, because one try asks for {ASKED} rights to single objects at most: {}; a role that grants \
             them for all names takes one question each",
            describe(unasked)
        )
    }
}

/// The answers that are kept.
#[derive(Default)]
pub struct Rights {
    kept: Mutex<Kept>,
    asking: Turns<(Account, String)>,
    looking: Turns<Account>,
}

#[derive(Default)]
struct Kept {
    rules: HashMap<(Account, String), (Instant, Arc<Rules>)>,
    /// Rights that are not a matter of one namespace's rules, and were granted.
    granted: HashMap<(Account, Right), Instant>,
    /// The same that were refused.
    refused: HashMap<(Account, Right), Instant>,
    /// Accounts that were there.
    there: HashMap<Account, Instant>,
}

impl Kept {
    fn rules_of(
        &self,
        place: &(Account, String),
        asked_at: Instant,
        believed: Duration,
    ) -> Option<Arc<Rules>> {
        let (_, rules) = self.rules.get(place).filter(|(read_at, _)| holds(*read_at, asked_at, believed))?;
        Some(Arc::clone(rules))
    }

    /// Whether a single right is granted, as far as that is known.
    fn single(&self, place: &(Account, Right), now: Instant) -> Option<bool> {
        let within = |answers: &HashMap<(Account, Right), Instant>, believed| {
            answers.get(place).is_some_and(|at| now.duration_since(*at) < believed)
        };
        if within(&self.granted, BELIEVED) {
            return Some(true);
        }
        within(&self.refused, SINGLE_REFUSAL_BELIEVED).then_some(false)
    }

    fn learn_single(&mut self, place: (Account, Right), granted: bool, now: Instant) {
        let (known, outdated) = match granted {
            true => (&mut self.granted, &mut self.refused),
            false => (&mut self.refused, &mut self.granted),
        };
        outdated.remove(&place);
        make_room(known, KEPT_SINGLE, |at| *at);
        known.insert(place, now);
    }

    fn is_there(&self, account: &Account, asked_at: Instant) -> bool {
        self.there.get(account).is_some_and(|read_at| holds(*read_at, asked_at, SEEN_BELIEVED))
    }
}

/// An answer holds for a release that asked before it was looked for, however long that took, and for a while for others.
fn holds(read_at: Instant, asked_at: Instant, believed: Duration) -> bool {
    read_at >= asked_at || read_at.elapsed() < believed
}

impl Rights {
    /// Which of these the account of `cluster` does not have; nothing when the operator acts itself. What was not asked, and
    /// what a list of rules leaves open, counts as missing.
    pub(in crate::reconcile) async fn missing(
        &self,
        cluster: &Cluster,
        needed: Vec<Right>,
    ) -> Result<Missing, cluster::Error> {
        let Some(account) = cluster.account() else { return Ok(Missing::default()) };
        let mut by_namespace: BTreeMap<Option<String>, Vec<Right>> = BTreeMap::new();
        for right in needed {
            by_namespace.entry(right.namespace.clone()).or_default().push(right);
        }
        let mut missing = Vec::new();
        let mut unknown = Vec::new();
        for (namespace, needed) in by_namespace {
            // Rules are those of a namespace: they do not say what holds outside of all of them.
            let Some(namespace) = namespace else {
                unknown.extend(needed);
                continue;
            };
            let rules = self.rules(cluster, account, &namespace, BELIEVED).await?;
            let mut left = refused(&rules, needed);
            let mut incomplete = rules.incomplete;
            if !left.is_empty() {
                let rules = self.rules(cluster, account, &namespace, REFUSAL_BELIEVED).await?;
                left = refused(&rules, left);
                incomplete = rules.incomplete;
            }
            if incomplete { unknown.extend(left) } else { missing.extend(left) }
        }
        let singly = self.refused_singly(cluster, account, unknown).await?;
        missing.extend(singly.refused);
        Ok(Missing { refused: missing, unasked: singly.unasked })
    }

    /// Whether an account is there, for those who cannot wait until the watch knows: all of the first passes ask at once.
    pub(in crate::reconcile) async fn exists<E>(
        &self,
        account: &Account,
        ask: impl Future<Output = Result<bool, E>>,
    ) -> Result<bool, E> {
        let asked_at = Instant::now();
        let known = || self.lock().is_there(account, asked_at).then_some(true);
        let look = async {
            let read_at = Instant::now();
            let there = ask.await?;
            if there {
                let mut kept = self.lock();
                make_room(&mut kept.there, KEPT, |read_at| *read_at);
                kept.there.insert(account.clone(), read_at);
            }
            Ok(there)
        };
        self.looking.once(account, known, look).await
    }

    /// Something was refused to the account: whatever is known of its rights may be old.
    pub(in crate::reconcile) fn forget(&self, account: &Account) {
        let mut kept = self.lock();
        kept.rules.retain(|(of, _), _| of != account);
        kept.granted.retain(|(of, _), _| of != account);
        kept.there.remove(account);
    }

    async fn rules(
        &self,
        cluster: &Cluster,
        account: &Account,
        namespace: &str,
        believed: Duration,
    ) -> Result<Arc<Rules>, cluster::Error> {
        let place = (account.clone(), namespace.to_owned());
        let asked_at = Instant::now();
        let known = || self.lock().rules_of(&place, asked_at, believed);
        let ask = async {
            let read_at = Instant::now();
            let rules = Arc::new(cluster.rules(namespace).await?);
            let mut kept = self.lock();
            make_room(&mut kept.rules, KEPT, |(read_at, _)| *read_at);
            kept.rules.insert(place.clone(), (read_at, Arc::clone(&rules)));
            Ok(rules)
        };
        self.asking.once(&place, known, ask).await
    }

    /// Asks for each of these, first for all names of its resource at once.
    async fn refused_singly(
        &self,
        cluster: &Cluster,
        account: &Account,
        rights: Vec<Right>,
    ) -> Result<Missing, cluster::Error> {
        let any_name = |right: &Right| Right { name: String::new(), ..right.clone() };
        let mut general: Vec<Right> = rights.iter().map(any_name).collect();
        general.sort();
        general.dedup();
        let refused = self.ask(cluster, account, general).await?;
        let special: Vec<Right> =
            rights.into_iter().filter(|right| refused.contains(&any_name(right))).collect();
        let (unnamed, mut named): (Vec<_>, Vec<_>) =
            special.into_iter().partition(|right| right.name.is_empty());
        let mut seen = HashSet::new();
        named.retain(|right| seen.insert(right.clone()));
        let unasked = named.split_off(named.len().min(ASKED));
        let mut refused = self.ask(cluster, account, named).await?;
        refused.extend(unnamed);
        Ok(Missing { refused, unasked })
    }

    /// Which of these are refused. An answer that does not come is an error, and no right.
    async fn ask(
        &self,
        cluster: &Cluster,
        account: &Account,
        rights: Vec<Right>,
    ) -> Result<Vec<Right>, cluster::Error> {
        let mut refused = Vec::new();
        let mut asked = Vec::new();
        {
            let kept = self.lock();
            let now = Instant::now();
            for right in rights {
                match kept.single(&(account.clone(), right.clone()), now) {
                    Some(true) => {}
                    Some(false) => refused.push(right),
                    None => asked.push(right),
                }
            }
        }
        let asks = asked.into_iter().map(|right| async move {
            let granted = cluster.may(&right).await?;
            Ok::<_, cluster::Error>((right, granted))
        });
        let mut answers = stream::iter(asks.collect::<Vec<_>>()).buffered(AT_ONCE);
        while let Some((right, granted)) = answers.try_next().await? {
            self.lock().learn_single((account.clone(), right.clone()), granted, Instant::now());
            if !granted {
                refused.push(right);
            }
        }
        Ok(refused)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Valid at every step, so a panic elsewhere while it was held does no harm.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(rules: &Rules, needed: Vec<Right>) -> Vec<Right> {
    needed.into_iter().filter(|right| !grants(&rules.rules, right)).collect()
}

/// Room for one more.
fn make_room<K: Clone + Eq + std::hash::Hash, V>(
    kept: &mut HashMap<K, V>,
    limit: usize,
    at: impl Fn(&V) -> Instant,
) {
    while kept.len() >= limit {
        let oldest = kept.iter().min_by_key(|(_, value)| at(value)).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { return };
        kept.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
        let start = Instant::now();
        let mut kept: HashMap<u32, Instant> = HashMap::new();
        for number in 0..10 {
            make_room(&mut kept, 4, |at| *at);
            kept.insert(number, start + Duration::from_secs(number.into()));
        }
        let mut left: Vec<u32> = kept.into_keys().collect();
        left.sort_unstable();
        assert_eq!(left, [6, 7, 8, 9]);
    }

    #[test]
    fn a_single_refusal_is_believed_for_seconds_and_what_is_granted_afterwards_at_once() {
        let account = Account { namespace: "apps".to_owned(), name: "low".to_owned() };
        let right = Right {
            verb: "get",
            group: String::new(),
            resource: "nodes".to_owned(),
            namespace: None,
            name: "a".to_owned(),
        };
        let (place, start) = ((account, right), Instant::now());
        let mut kept = Kept::default();
        assert_eq!(kept.single(&place, start), None);
        kept.learn_single(place.clone(), false, start);
        let over = start + SINGLE_REFUSAL_BELIEVED;
        assert_eq!(kept.single(&place, over - Duration::from_millis(1)), Some(false));
        assert_eq!(kept.single(&place, over), None, "an administrator may have granted it");
        kept.learn_single(place.clone(), true, over);
        assert_eq!((kept.single(&place, over), kept.refused.len()), (Some(true), 0));
        kept.learn_single(place.clone(), false, over);
        assert_eq!((kept.single(&place, over), kept.granted.len()), (Some(false), 0));
    }

    #[test]
    fn what_was_not_asked_is_told_apart_from_what_was_refused() {
        let right = |name: &str| Right {
            verb: "get",
            group: String::new(),
            resource: "nodes".to_owned(),
            namespace: None,
            name: name.to_owned(),
        };
        let (refused, unasked) = (vec![right("a")], vec![right("b"), right("c")]);
        assert!(Missing::default().is_empty());
        let missing = Missing { refused: refused.clone(), unasked: Vec::new() };
        assert_eq!((missing.is_empty(), missing.to_string().as_str()), (false, "get nodes (a)"));
        let missing = Missing { refused, unasked };
        let told = missing.to_string();
        assert!(
            told.starts_with("get nodes (a); not asked for, because one try asks for 512 rights"),
            "{told}"
        );
        assert!(told.contains("at most: get nodes (b, c); a role"), "{told}");
        let missing = Missing { refused: Vec::new(), ..missing };
        assert!(!missing.is_empty() && missing.to_string().starts_with("not asked for"), "{missing}");
        assert_eq!(missing.all().count(), 2);
    }
}
