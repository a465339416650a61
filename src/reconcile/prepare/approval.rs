//! `approval: Manual`: the digest by which a plan is approved, and what it would do.

use crate::api::conditions::clip;
use crate::api::{Approval, PlanStatus};
use crate::manifest::{Object, digest_of};
use crate::plan;
use crate::reconcile::prepare::revision::Wanted;
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::{Error, Pass};
use crate::release::decide::Operation;
use crate::release::{Action, Private, State};
use crate::storage::{Head, Records};

impl Pass<'_> {
    pub(in crate::reconcile) fn needs_approval(&self) -> bool {
        self.scope.settings.approval != Approval::Automatic
    }

    /// The digest of the plan for these inputs, as long as nobody has approved it.
    ///
    /// It holds for these inputs on top of what is deployed: through retries, and not once more when the same inputs are
    /// wanted again later, nor for another release, nor after records were lost.
    pub(in crate::reconcile) fn unapproved(&self, inputs: &str) -> Option<String> {
        if !self.needs_approval() {
            return None;
        }
        let digest =
            digest_of(format!("{}\n{inputs}\n{}", self.scope.uid(), self.approval_base()).as_bytes());
        let given = self.scope.settings.requests.approve.as_ref();
        let approved = given == Some(&digest) || self.retries_approved(inputs);
        (!approved).then_some(digest)
    }

    /// What the plan begins from. No two of these are ever the same, whatever is lost between them.
    fn approval_base(&self) -> String {
        match (self.newest().own_private(), self.mem.records.head.as_ref().map(|(head, _)| head)) {
            (Some(private), _) => match private.unreachable {
                None => private.last_deployed.unwrap_or(0).to_string(),
                lost => format!("{:?} past {lost:?}", private.last_deployed),
            },
            (None, Some(Head::Foreign(stored) | Head::Ours(stored))) => {
                format!("over {}", stored.record.version)
            }
            (None, _) if self.newest().known_revision() > 0 => {
                format!("lost {}", self.newest().known_revision())
            }
            (None, _) => "0".to_owned(),
        }
    }

    /// These inputs were approved before their last attempt, and the approval still stands.
    fn retries_approved(&self, inputs: &str) -> bool {
        let given = self.scope.settings.requests.approve.as_ref();
        let failed = |private: &&Private| private.undone.is_none() && private.inputs == inputs;
        let Some((Head::Ours(stored), _)) = &self.mem.records.head else { return false };
        let tried = stored.record.state.is_pending() || matches!(stored.record.state, State::Failed { .. });
        let last = self.newest().own_private().filter(failed);
        given.is_some() && tried && last.is_some_and(|private| private.approved.as_ref() == given)
    }

    /// Finds out what the plan with this digest would do. What stands in its way is told instead of it.
    ///
    /// Costs a render and the reads of a roll-out, once for each plan.
    pub(in crate::reconcile) async fn show_plan(
        &mut self,
        wanted: &Wanted,
        digest: &str,
        next: &Operation,
    ) -> Result<(), Error> {
        let told = self.scope.release.status.as_ref().and_then(|status| status.plan.as_ref());
        let known = self.mem.plan.as_ref().or(told).filter(|plan| plan.digest == digest).cloned();
        if known.is_some() {
            self.mem.plan = known;
            return Ok(());
        }
        let (action, revision, attempt, start_over) = match next {
            Operation::Install { revision, attempt } => (Action::Install, *revision, *attempt, false),
            Operation::Upgrade { revision, attempt } => (Action::Upgrade, *revision, *attempt, false),
            _ => (Action::Install, self.records().next_free_revision().await?, 1, true),
        };
        let prepared = self.prepare(wanted, action, revision, attempt, start_over).await?;
        self.preflight(&prepared).await?;
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
        self.mem.plan = Some(PlanStatus { digest: digest.to_owned(), summary: Some(clip(&summary)) });
        Ok(())
    }

    async fn objects_of(&self, revision: u32) -> Result<Vec<Object>, Error> {
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        match self.access().record_store().await?.get(namespace, name, revision).await? {
            Head::Ours(stored) => objects_in(&stored).await,
            // Then everything counts as new, which is the careful side.
            Head::None | Head::Foreign(_) | Head::Unreadable(_) => Ok(Vec::new()),
        }
    }
}
