//! What a watch shows, and when: the stopwatch of every latency that is printed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event};

use crate::failure::{During, Failure, Result};

/// An open watch. Every event is looked at in the order of the API server.
pub(crate) struct Sight {
    events: BoxStream<'static, watcher::Result<Event<DynamicObject>>>,
    /// Errors that the watch got over, newest last; told when the wait fails.
    troubles: VecDeque<String>,
}

/// One event.
pub(crate) enum Change {
    Present(DynamicObject),
    Gone(DynamicObject),
}

impl Change {
    /// The object, unless it is gone.
    pub(crate) fn present(&self) -> Option<&DynamicObject> {
        match self {
            Self::Present(object) => Some(object),
            Self::Gone(_) => None,
        }
    }

    pub(crate) fn object(&self) -> &DynamicObject {
        match self {
            Self::Present(object) | Self::Gone(object) => object,
        }
    }
}

/// How long a change lasted.
#[derive(Clone, Copy)]
pub(crate) struct PutBack {
    /// From just before the edit was sent to the event with the old value.
    pub(crate) since_sent: Duration,
    /// From the event with the edit to the event with the old value.
    pub(crate) since_seen: Duration,
}

impl Sight {
    /// Opens a watch and waits until it has listed what is there.
    pub(crate) async fn open(api: Api<DynamicObject>) -> Result<Self> {
        let events = watcher::watcher(api, watcher::Config::default()).boxed();
        let mut sight = Self { events, troubles: VecDeque::new() };
        loop {
            if let Event::InitDone = sight.next().await? {
                return Ok(sight);
            }
        }
    }

    async fn next(&mut self) -> Result<Event<DynamicObject>> {
        loop {
            match self.events.next().await {
                Some(Ok(event)) => return Ok(event),
                // The stream goes on by itself; a pause keeps it from spinning.
                Some(Err(error)) => {
                    self.troubles.push_back(error.to_string());
                    if self.troubles.len() > 3 {
                        self.troubles.pop_front();
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                None => return Err(Failure::new("the watch has ended")),
            }
        }
    }

    /// The first event that `wanted` takes, and when it came. `what` and `limit` only end a wait in vain.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut wanted: impl FnMut(&Change) -> Option<T>,
    ) -> Result<(Instant, T)> {
        let found = async {
            loop {
                let change = match self.next().await? {
                    Event::Apply(object) | Event::InitApply(object) => Change::Present(object),
                    Event::Delete(object) => Change::Gone(object),
                    Event::Init | Event::InitDone => continue,
                };
                let now = Instant::now();
                if let Some(found) = wanted(&change) {
                    return Ok((now, found));
                }
            }
        };
        match tokio::time::timeout(limit, found).await {
            Ok(found) => found,
            Err(_) => {
                let troubles: Vec<_> = self.troubles.iter().map(|text| format!("; watch: {text}")).collect();
                let seconds = limit.as_secs();
                Err(Failure::new(format!("not seen within {seconds} s: {what}{}", troubles.concat())))
            }
        }
    }

    /// Sends an edit and waits until it was seen and then seen undone.
    pub(crate) async fn put_back(
        &mut self,
        what: &str,
        limit: Duration,
        edit: impl Future<Output = Result<()>>,
        edited: impl Fn(&Change) -> bool,
        restored: impl Fn(&Change) -> bool,
    ) -> Result<PutBack> {
        let sent = Instant::now();
        let mut seen = None;
        let undone = self.until(what, limit, |change| {
            if seen.is_none() {
                seen = edited(change).then(Instant::now);
                return None;
            }
            restored(change).then_some(())
        });
        // Both at once: the old value may be back before the answer to the edit is.
        let ((), (back, ())) = tokio::try_join!(edit, undone)?;
        let seen = seen.ok_or_else(|| Failure::new("undone before it was seen")).during(what)?;
        Ok(PutBack { since_sent: back - sent, since_seen: back - seen })
    }
}
