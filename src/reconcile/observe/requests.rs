//! What people ask for by annotation, and whether they have their answer.

use crate::api::{Requests, names};
use crate::reconcile::Pass;

impl Pass<'_> {
    /// The spec is another one than the last status speaks of.
    pub(in crate::reconcile) fn generation_changed(&self) -> bool {
        let observed = self.scope.release.status.as_ref().and_then(|status| status.observed_generation);
        observed != self.scope.release.metadata.generation
    }

    /// Somebody waits for an answer: to another spec, or to a request.
    pub(in crate::reconcile) fn spec_changed(&self) -> bool {
        self.generation_changed()
            || self.request_pending(names::RECONCILE_AT)
            || self.request_pending(names::RESET_AT)
            || self.newest().accept_pending()
            || self.request_pending(names::TEST_AT)
    }

    /// Takes note of the requests by annotation; gives those of before. A new one is reason enough to try at once, one that
    /// only waits for its answer is none: what stands in its way stood there a moment ago.
    pub(in crate::reconcile) fn take_requests(&mut self) -> Requests {
        let before = std::mem::replace(&mut self.mem.requests, self.scope.settings.requests.clone());
        if before != self.mem.requests {
            self.mem.backoff.retry_at = None;
        }
        before
    }

    /// A request by annotation that the status does not acknowledge yet.
    pub(in crate::reconcile) fn request_pending(&self, annotation: &str) -> bool {
        let asked = self.scope.release.metadata.annotations.as_ref().and_then(|all| all.get(annotation));
        let handled = self.scope.release.status.as_ref().and_then(|status| status.last_handled.as_ref());
        let acknowledged = handled.and_then(|handled| match annotation {
            names::RECONCILE_AT => handled.reconcile_at.as_ref(),
            names::RESET_AT => handled.reset_at.as_ref(),
            names::TEST_AT => handled.test_at.as_ref(),
            _ => None,
        });
        asked.is_some() && asked != acknowledged
    }
}
