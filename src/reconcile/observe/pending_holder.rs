//! Whose pending revision it is that is left alone, for people. Nothing is decided by it.

use crate::api::{NAME_MAX, conditions};
use crate::reconcile::records::NewestRecord;
use crate::reconcile::state::progress::Outcome;
use crate::release::decide::{Hold, Operation};
use crate::storage::unverified::{self, Claim};
use crate::storage::{Head, Stored};
use crate::watch::Newest;

/// Who holds a release up with a pending revision.
pub(in crate::reconcile) struct PendingHolder<'a> {
    pub newest: NewestRecord<'a>,
    /// And when the record said so.
    pub known: &'a mut Option<(Newest, String)>,
}

impl PendingHolder<'_> {
    /// Finds out who holds the release up, by one read for each state of the record. A holder that cannot be found out stays
    /// unknown: there is nothing that waits for it.
    pub(in crate::reconcile) async fn learn(&mut self, outcome: &Outcome) {
        let held = matches!(outcome.decision.operation, Operation::Hold(Hold::ForeignPending { .. }));
        let Some((Head::Ours(stored) | Head::Foreign(stored), at)) =
            self.newest.memory.head.as_ref().filter(|_| held)
        else {
            *self.known = None;
            return;
        };
        if self.known.as_ref().is_some_and(|(of, _)| of == at) {
            return;
        }
        let at = *at;
        let who = match &stored.private {
            Some(private) => {
                let owner = &private.owner;
                format!("the release {}/{}", owner.namespace, owner.name)
            }
            None => {
                let client = self.newest.scope.ctx.as_operator.client();
                match unverified::claim(client, self.newest.scope.settings.history_storage, stored).await {
                    Ok(claim) => whose(&claim),
                    Err(error) => {
                        tracing::debug!(release = %self.newest.scope.key, %error, "whose pending revision it is stays unknown");
                        return;
                    }
                }
            }
        };
        *self.known = Some((at, claims(stored, &who)));
    }
}

fn whose(claim: &Claim) -> String {
    // The writer of the record chose how long that is.
    let holder = claim.holder.as_ref().map(|holder| conditions::cut(holder, NAME_MAX));
    match (claim.foreign, holder) {
        (true, None) => "another tool".to_owned(),
        (true, Some(manager)) => format!("another tool (field manager {manager})"),
        // It has a private part that is not sealed with our key, so it may say what it likes.
        (false, None) => "an operator with another key".to_owned(),
        (false, Some(holder)) => format!("an operator with another key (it says: {holder})"),
    }
}

fn claims(stored: &Stored, who: &str) -> String {
    format!("revision {} is {}, held by {who}", stored.record.version, stored.record.state.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::samples;

    #[test]
    fn a_holder_is_told_by_what_is_known_of_it() {
        for (foreign, holder, says) in [
            (true, None, "another tool"),
            (true, Some("helm"), "another tool (field manager helm)"),
            (false, None, "an operator with another key"),
            (false, Some("operator-0/9a"), "an operator with another key (it says: operator-0/9a)"),
        ] {
            let claim = Claim { foreign, holder: holder.map(str::to_owned) };
            assert_eq!(whose(&claim), says);
            let stored = Stored::sample(samples::record(3), None);
            assert_eq!(claims(&stored, says), format!("revision 3 is pending-upgrade, held by {says}"));
        }
    }

    #[test]
    fn a_holder_is_shown_cut() {
        let claim = |foreign| Claim { foreign, holder: Some("h".repeat(1 << 20)) };
        for claim in [claim(true), claim(false)] {
            assert!(whose(&claim).len() < 2 * NAME_MAX, "{}", claim.foreign);
        }
    }
}
