//! What is wanted instead of a revision under way: prepared beside it, and told while it cannot take over.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::Class;
use crate::reconcile::Error;
use crate::reconcile::inputs::wanted::Wanted;
use crate::reconcile::prepare::Prepare;
use crate::reconcile::prepare::revision::Prepared;
use crate::release::Action;
use crate::release::decide::{self, Head as Seen, Observation, Successor};

/// What was refused may be taken after this time, when it lies in the cluster and not in the spec.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// The same for what may be right in a moment.
const TRY_SOON: Duration = Duration::from_secs(2);

/// A try to prepare what is wanted instead of the newest revision.
pub(in crate::reconcile) struct Tried {
    wish: Wish,
    /// Why it cannot take over.
    refusal: Option<String>,
    again: Timestamp,
}

/// What was prepared, and from what.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    /// Of the inputs, or the revision to go back to.
    wanted: String,
    generation: Option<i64>,
    /// What [`ReferenceWatch::changes`](crate::watch::ReferenceWatch::changes) said.
    references: u64,
}

impl Tried {
    /// What is known of a wish without another try. What is ready stays ready as long as it only waits for its turn: when that
    /// comes it is prepared from what is there then.
    fn answers(&self, wish: &Wish, waits: bool, now: Timestamp) -> Option<Successor> {
        match &self.refusal {
            _ if self.wish != *wish => None,
            Some(_) => (now < self.again).then_some(Successor::Refused),
            None => waits.then_some(Successor::Ready),
        }
    }
}

impl Prepare<'_> {
    /// Prepares what is wanted instead of the newest revision, unless enough is known of that.
    pub(in crate::reconcile) async fn successor(
        &mut self,
        seen: &Observation,
        wanted: Option<&Wanted>,
    ) -> (Successor, Option<Prepared>) {
        let Some(name) = name_of(seen) else { return (Successor::Unknown, None) };
        let wish = self.wish(name.clone());
        let known = self.memory.successor.as_ref();
        if let Some(known) =
            known.and_then(|tried| tried.answers(&wish, waits_for_its_turn(seen), self.records.scope.now))
        {
            return (known, None);
        }
        let prepared = match (&seen.rollback_to, wanted) {
            (Some(to), _) => self.rollback(revision_after(seen), to.revision, 1).await,
            (None, Some(wanted)) => {
                let Seen::Ours(head) = &seen.head else { return (Successor::Unknown, None) };
                let action = if decide::is_fresh(head) { Action::Install } else { Action::Upgrade };
                let attempt = decide::next_attempt(seen, head);
                self.revision(wanted, action, revision_after(seen), attempt, false).await
            }
            (None, None) => return (Successor::Unknown, None),
        };
        let prepared = match prepared {
            Ok(prepared) => self.preflight().revision(&prepared).await.map(|()| prepared),
            Err(error) => Err(error),
        };
        match prepared {
            Ok(prepared) => {
                self.tried(name, None, TRY_SOON);
                (Successor::Ready, Some(prepared))
            }
            // Nothing is known of it yet.
            Err(Error::Queued { .. }) => (Successor::Unknown, None),
            Err(error) => {
                self.refuse_successor(name, error);
                (Successor::Refused, None)
            }
        }
    }

    /// What was prepared could not begin after all: what runs goes on, and what failed is undone.
    pub(in crate::reconcile) fn goes_on_instead(
        &mut self,
        seen: &Observation,
        error: Error,
    ) -> Result<(), Error> {
        // What was refused before has been told, and there is nothing else to do.
        let news = seen.successor != Successor::Refused && decide::asks_for_successor(seen);
        let waits = matches!(error, Error::Queued { .. });
        let name = name_of(seen).filter(|_| news && !waits && !error.is_conflict());
        let Some(name) = name else { return Err(error) };
        self.refuse_successor(name, error);
        Ok(())
    }

    fn refuse_successor(&mut self, name: String, error: Error) {
        let error = self.secrets.hidden_error(error);
        let again = if error.class() == Class::Retry { TRY_SOON } else { TRY_AGAIN };
        let told = self.memory.successor.as_ref().and_then(|tried| tried.refusal.as_ref());
        let message = error.to_string();
        if told != Some(&message) && error.class() != Class::Retry {
            self.records.scope.ctx.report.event(
                self.records.scope.release,
                true,
                error.reason(),
                "Prepare",
                message.clone(),
            );
        }
        self.tried(name, Some(message), again);
    }

    fn tried(&mut self, wanted: String, refusal: Option<String>, again: Duration) {
        let (wish, again) = (self.wish(wanted), self.records.scope.later(again));
        self.memory.successor = Some(Tried { wish, refusal, again });
    }

    fn wish(&self, wanted: String) -> Wish {
        let references = self.records.scope.ctx.references.changes(self.records.scope.key);
        Wish { wanted, generation: self.records.scope.release.metadata.generation, references }
    }

    /// Why what is wanted now does not take over from what runs.
    pub(in crate::reconcile) fn learn_what_waits(&mut self, seen: &Observation, unread: Option<&Error>) {
        let unread = unread.filter(|error| error.fetching_since().is_none());
        self.memory.waits_to_begin = match (decide::held_up(seen), unread) {
            (Some(held), _) => Some(held),
            (None, Some(error)) => Some(self.secrets.shown(error)),
            (None, None) if seen.successor == Successor::Refused => {
                self.memory.successor.as_ref().and_then(|tried| tried.refusal.clone())
            }
            _ => None,
        };
    }
}

/// What is wanted, in a word that tells it from something else.
fn name_of(seen: &Observation) -> Option<String> {
    match &seen.rollback_to {
        Some(to) => Some(format!("rollback to {}", to.revision)),
        None => seen.inputs.clone(),
    }
}

fn revision_after(seen: &Observation) -> u32 {
    match &seen.head {
        Seen::Ours(head) => head.revision + 1,
        _ => 1,
    }
}

/// A hook that runs, or a rollback under way, comes first.
fn waits_for_its_turn(seen: &Observation) -> bool {
    matches!(&seen.head, Seen::Ours(head) if head.hook_running || head.target.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_its_turn_is_prepared_again_only_when_something_changed() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let wish = Wish { wanted: "a".to_owned(), generation: Some(1), references: 7 };
        let ready = Tried { wish: wish.clone(), refusal: None, again: at(2) };
        assert_eq!(ready.answers(&wish, true, at(3600)), Some(Successor::Ready));
        assert_eq!(ready.answers(&wish, false, at(1)), None, "it begins with what is there now");
        let refused = Tried { refusal: Some("no".to_owned()), ..ready };
        assert_eq!(refused.answers(&wish, true, at(1)), Some(Successor::Refused));
        assert_eq!(refused.answers(&wish, true, at(2)), None, "it may be taken by now");
        for other in [
            Wish { wanted: "b".to_owned(), ..wish.clone() },
            Wish { generation: Some(2), ..wish.clone() },
            Wish { references: 8, ..wish },
        ] {
            assert_eq!(refused.answers(&other, true, at(1)), None, "{other:?}");
        }
    }
}
