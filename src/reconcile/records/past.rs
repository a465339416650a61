//! What the revisions below the newest one say, when the newest one cannot be asked: another tool wrote it, or it is lost.

use futures::TryStreamExt;

use crate::reconcile::Error;
use crate::reconcile::records::Records;
use crate::release::Past;
use crate::storage::{Head, Records as _};

impl Records<'_> {
    /// The past of `revision`. Costs nothing when the newest record is ours, else one read of all records.
    pub(in crate::reconcile) async fn past(
        &mut self,
        revision: u32,
        start_over: bool,
    ) -> Result<Past, Error> {
        if let Some(private) = self.newest().own_private().filter(|_| !start_over) {
            return Ok(Past::of_newest(private));
        }
        if matches!(self.memory.head, None | Some((Head::None, _))) && !start_over {
            return Ok(Past::default());
        }
        let mut past = self.past_records().await?;
        if start_over {
            // Whatever was deployed last is lost.
            past.unreachable = past.unreachable.max(revision.checked_sub(1).filter(|before| *before > 0));
        } else if let Some(doubt) = past.doubt() {
            return Err(Error::RecordDoubtful { message: doubt.to_owned() });
        }
        Ok(past)
    }

    /// What the records say that are there.
    pub(in crate::reconcile) async fn past_records(&mut self) -> Result<Past, Error> {
        self.claim_head()?;
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        let records = self.access().record_store().await?;
        let mut history = std::pin::pin!(records.survey(namespace, name));
        let mut past = Past::default();
        while let Some(head) = history.try_next().await? {
            // An older state of a record below another tool's says as little as one that is the newest.
            let (Head::Ours(stored) | Head::Foreign(stored)) = self.newest().judged(head) else { continue };
            if let Some(doubtful) = self.newest().doubtful(&stored) {
                past.add_doubtful(stored.record.version, doubtful.message);
            }
            let private = stored.private.filter(|private| self.scope.owns(&private.owner));
            past.add(stored.record.version, &stored.record.state, private);
        }
        past.add_known(self.newest().known_revision());
        Ok(past)
    }
}
