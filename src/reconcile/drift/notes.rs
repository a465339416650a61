//! What is remembered of a correction, for status, Event and metrics.

use jiff::Timestamp;

use crate::api::clip_all;
use crate::manifest::managed_fields::ignore::locked_part;
use crate::manifest::{Object, managed_fields};
use crate::reconcile::drift::Notes;
use crate::reconcile::objects::Objects;
use crate::reconcile::state::drift::{DriftAction, Drifted, Unreported};
use crate::watch::Suspicion;

/// Status and Event about drift follow this long after a revert, so that a storm makes one of each.
const REPORT_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

impl Notes<'_> {
    /// Remembers one correction for status, Event and metrics.
    pub(in crate::reconcile) fn took_note(
        &mut self,
        suspicion: &Suspicion,
        object: &Object,
        action: DriftAction,
    ) {
        let id = &suspicion.id;
        let live = Objects { scope: self.scope };
        let body = locked_part(object, live.asked_rules(), &suspicion.managed_fields);
        let rival = managed_fields::rivals(&body, &suspicion.managed_fields).into_iter().next();
        let rival = rival.or_else(|| {
            let added = live.added(object, live.asked_rules(), &suspicion.managed_fields);
            added.into_iter().next()
        });
        let manager = rival.as_ref().map(|taken| taken.manager.clone());
        let mut paths = match rival {
            Some(taken) => taken.paths,
            // Removed fields have no owner any more.
            None if suspicion.gone => Vec::new(),
            None => managed_fields::lost_paths(&body, &suspicion.managed_fields),
        };
        // Keys of others may be part of them.
        clip_all(&mut paths);
        let due = self.scope.later(REPORT_AFTER);
        let drift = &mut *self.memory;
        let known = |seen: &Drifted| {
            seen.id == *id && seen.action == action && seen.manager == manager && seen.paths == paths
        };
        if action == DriftAction::Reported && drift.seen.iter().any(known) {
            return;
        }
        if matches!(action, DriftAction::Reverted | DriftAction::Recreated) {
            drift.reverted(id, self.scope.now);
            // It has been put back now, however long this pass took to come to it.
            self.scope.ctx.calm.reverted(Timestamp::now());
            let seconds = suspicion.since.map(|since| since.elapsed().as_secs_f64());
            self.scope.ctx.report.reverted(self.scope.key, &id.kind, manager.as_deref(), seconds);
        }
        drift.unreported.get_or_insert(Unreported { count: 0, since: self.scope.now, due }).count += 1;
        drift.note(Drifted { id: id.clone(), manager, paths, action, at: self.scope.now });
    }
}
