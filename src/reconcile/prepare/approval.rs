//! `approval: Manual`: the digest by which a plan is approved, and what it would do.

use crate::api::PlanStatus;
use crate::api::conditions::clip;
use crate::manifest::Object;
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::inputs::wanted::Wanted;
use crate::reconcile::prepare::Prepare;
use crate::reconcile::records::parsed::objects_in;
use crate::release::Action;
use crate::release::decide::Operation;
use crate::storage::{Head, Records};

impl Prepare<'_> {
    /// Finds out what the plan with this digest would do. What stands in its way is told instead of it.
    ///
    /// Costs a render and the reads of a roll-out, once for each plan.
    pub(in crate::reconcile) async fn show_plan(
        &mut self,
        wanted: &Wanted,
        digest: &str,
        next: &Operation,
    ) -> Result<(), Error> {
        let told = self.records.scope.release.status.as_ref().and_then(|status| status.plan.as_ref());
        let known = self.memory.plan.as_ref().or(told).filter(|plan| plan.digest == digest).cloned();
        if known.is_some() {
            self.memory.plan = known;
            return Ok(());
        }
        let (action, revision, attempt, start_over) = match next {
            Operation::Install { revision, attempt } => (Action::Install, *revision, *attempt, false),
            Operation::Upgrade { revision, attempt } => (Action::Upgrade, *revision, *attempt, false),
            _ => (Action::Install, self.records.next_free_revision().await?, 1, true),
        };
        let prepared = self.revision(wanted, action, revision, attempt, start_over).await?;
        self.preflight().revision(&prepared).await?;
        let before = match prepared.private.last_deployed.filter(|_| !start_over) {
            Some(deployed) => self.objects_of(deployed).await?,
            None => Vec::new(),
        };
        let changes = plan::changes(&prepared.parts, &prepared.plan, &before, &prepared.private.leftovers);
        let pack = &prepared.record.pack;
        let verb = if action == Action::Install { "installs" } else { "upgrades to" };
        let mut summary = format!("{verb} {} {}: {changes}", pack.name, pack.version);
        let judged = prepared.private.definitions.iter().filter(|shipped| !shipped.changes.is_empty());
        for shipped in judged {
            let verdict = shipped.verdict.as_deref().unwrap_or("changed");
            summary.push_str(&format!("; definition {}: {verdict}", shipped.name));
        }
        self.memory.plan = Some(PlanStatus { digest: digest.to_owned(), summary: Some(clip(&summary)) });
        Ok(())
    }

    async fn objects_of(&self, revision: u32) -> Result<Vec<Object>, Error> {
        let (namespace, name) =
            (&self.records.scope.settings.target_namespace, &self.records.scope.settings.release_name);
        match self.access().record_store().await?.get(namespace, name, revision).await? {
            Head::Ours(stored) => objects_in(&stored).await,
            // Then everything counts as new, which is the careful side.
            Head::None | Head::Foreign(_) | Head::Unreadable(_) => Ok(Vec::new()),
        }
    }
}
