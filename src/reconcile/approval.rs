//! `approval: Manual`: the digest by which a plan is approved, and what it would do.

use super::prepare::{Wanted, stored_objects};
use super::{Error, Pass};
use crate::api::conditions::clip;
use crate::api::{Approval, PlanStatus};
use crate::manifest::{Object, digest_of};
use crate::plan;
use crate::release::Action;
use crate::release::decide::Operation;
use crate::storage::{Head, Records};

impl Pass<'_> {
    /// The digest of the plan for these inputs, as long as nobody has approved it.
    ///
    /// It holds for these inputs on top of what is deployed: through retries, and not once more when the same inputs are
    /// wanted again later.
    pub(super) fn unapproved(&self, inputs: &str) -> Option<String> {
        if self.settings.approval == Approval::Automatic {
            return None;
        }
        let digest = digest_of(format!("{inputs}\n{}", self.last_deployed().unwrap_or(0)).as_bytes());
        let approved = self.settings.requests.approve.as_ref() == Some(&digest);
        (!approved).then_some(digest)
    }

    fn last_deployed(&self) -> Option<u32> {
        self.own_private()?.last_deployed
    }

    /// Finds out what the plan with this digest would do. What stands in its way is told instead of it.
    ///
    /// Costs a render and the reads of a roll-out, once for each plan.
    pub(super) async fn show_plan(
        &mut self,
        wanted: &Wanted,
        digest: &str,
        next: &Operation,
    ) -> Result<(), Error> {
        let told = self.release.status.as_ref().and_then(|status| status.plan.as_ref());
        let known = self.mem.plan.as_ref().or(told).filter(|plan| plan.digest == digest).cloned();
        if known.is_some() {
            self.mem.plan = known;
            return Ok(());
        }
        let (action, revision, attempt, start_over) = match next {
            Operation::Install { revision, attempt } => (Action::Install, *revision, *attempt, false),
            Operation::Upgrade { revision, attempt } => (Action::Upgrade, *revision, *attempt, false),
            _ => (Action::Install, self.next_free_revision().await?, 1, true),
        };
        let prepared = self.prepare(wanted, action, revision, attempt, start_over).await?;
        self.preflight(&prepared).await?;
        let before = match self.last_deployed().filter(|_| !start_over) {
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
        self.mem.plan = Some(PlanStatus { digest: digest.to_owned(), summary: Some(clip(&summary)) });
        Ok(())
    }

    async fn objects_of(&self, revision: u32) -> Result<Vec<Object>, Error> {
        let (namespace, name) = (&self.settings.target_namespace, &self.settings.release_name);
        match self.records().get(namespace, name, revision).await? {
            Head::Ours(stored) => Ok(stored_objects(&stored)?),
            // Then everything counts as new, which is the careful side.
            Head::None | Head::Foreign(_) | Head::Unreadable(_) => Ok(Vec::new()),
        }
    }
}
