//! Runs the test hooks of what is deployed. The revision stays deployed and locked, whatever they say.

use crate::plan::Phase;
use crate::reconcile::Error;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::state::Running;
use crate::reconcile::state::progress::{Progress, Run};
use crate::release::Tested;

impl Operate<'_> {
    /// Runs the tests one after another, all of them, and writes down how they ended.
    pub(in crate::reconcile) async fn test(&mut self) -> Result<Progress, Error> {
        self.load_running().await?;
        let Some(mut running) = self.records.running.take() else { return Ok(Progress::Nothing) };
        match self.steps(&mut running).await {
            Ok(Step::Wait { until }) => {
                let progress = Progress::Testing { run: Run::of(&running, until), blocked: None };
                self.keep_running(running);
                Ok(progress)
            }
            Ok(Step::Done | Step::Failed { .. }) => {
                self.tested(running).await?;
                Ok(Progress::Nothing)
            }
            Err(error) => {
                if !error.is_conflict() {
                    self.keep_running(running);
                }
                Err(error)
            }
        }
    }

    async fn tested(&mut self, mut running: Box<Running>) -> Result<(), Error> {
        if let Some(private) = running.stored.private.as_mut() {
            // Of a test that ran more than once the last run counts.
            let mut last = std::collections::BTreeMap::new();
            for result in private.hooks.iter().filter(|result| result.phase == Phase::Test.as_str()) {
                last.insert(result.object.clone(), result.failure.clone());
            }
            let failure = last.values().flatten().next().map(|(_, message)| message.clone());
            private.tested = Some(Tested {
                at: self.scope.now,
                count: u32::try_from(running.plan.steps.len()).unwrap_or(u32::MAX),
                failure,
                request: self.scope.settings.requests.test_at.clone(),
            });
            private.operation = None;
        }
        let stored = self.records.save(&running.stored, true).await?;
        self.records.wrote(&stored);
        self.live().release_unused_kinds(&stored);
        Ok(())
    }
}
