//! Every Job that a watch showed: how often was each made?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};

use crate::failure::{Failure, Result, check};

const HOOK_RUN: &str = "sherpack.io/hook-run";
const APPLIED: &str = "sherpack.io/applied";

/// Uids by namespace, name and the value of the annotation that says for what the Job was made.
type Made = BTreeMap<(String, String, String), BTreeSet<String>>;

#[derive(Default)]
struct Seen {
    /// Of hooks, by their runs.
    runs: Made,
    /// Of other Jobs, by release and revision.
    plain: Made,
}

/// A watch on all Jobs; it ends with this value. What comes and goes while the API server is away is not seen.
pub(super) struct Jobs {
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Jobs {
    pub(super) fn watch(client: Client) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let api: Api<PartialObjectMeta<Job>> = Api::all(client);
            let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(job) | Event::InitApply(job)) => note(&noted, &job),
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        });
        Self { seen, task }
    }

    /// No hook ran twice, nor more often than it may be tried; and no other Job was made twice for a revision. None of them
    /// fails here, and nothing but the operator deletes one: so none has a reason to be made again.
    pub(super) fn check(&self, may_be_tried_again: impl Fn(&str, &str) -> bool) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for ((namespace, name, run), uids) in &seen.runs {
            let what = || format!("hook Job {namespace}/{name}, run {run}");
            check(uids.len() == 1, || {
                format!("{} should be there once in its life; seen with uids {uids:?}", what())
            })?;
            let attempt = run.rsplit('.').next().and_then(|attempt| attempt.parse::<u32>().ok());
            let attempt =
                attempt.ok_or_else(|| Failure::new(format!("{}: its annotation has no attempt", what())))?;
            check(attempt <= 1 || may_be_tried_again(namespace, name), || {
                format!("{} should have one attempt, its retries are 0", what())
            })?;
        }
        for ((namespace, name, mark), uids) in &seen.plain {
            check(uids.len() == 1, || {
                format!(
                    "Job {namespace}/{name} of revision {mark} should be made once; seen with uids {uids:?}"
                )
            })?;
        }
        Ok(())
    }

    /// Runs of hooks; Jobs that are no hooks, once for each revision that made them.
    pub(super) fn counts(&self) -> (usize, usize) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.runs.len(), seen.plain.len())
    }
}

fn note(seen: &Mutex<Seen>, job: &PartialObjectMeta<Job>) {
    let (namespace, name) = (job.namespace().unwrap_or_default(), job.name_any());
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let (runs, of) = match (job.annotations().get(HOOK_RUN), job.annotations().get(APPLIED)) {
        (Some(run), _) => (&mut seen.runs, run),
        (None, Some(mark)) => (&mut seen.plain, mark),
        (None, None) => return,
    };
    runs.entry((namespace, name, of.clone())).or_default().insert(uid);
}
