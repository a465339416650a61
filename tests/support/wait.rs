//! Waits with a deadline that say what they waited for and what they last saw.
//!
//! A wait looks, and looks again when a watch tells of a change to what it looked at (see [`super::changes`]). What no
//! watch tells of, such as a request on the wire or a metric, it looks at again after a while.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::changes::Place;

/// Far beyond anything that happens on a loaded machine; a test that gets here has failed.
pub const LONG: Duration = Duration::from_secs(60);
/// How often a wait looks that watches objects: it may also look at something else, or the watch may be broken off.
pub const UNTOLD: Duration = Duration::from_millis(500);
/// How often a wait looks that watches nothing: at first, and in the end.
const UNWATCHED: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

tokio::task_local! {
    /// Where objects were read while the wait of this task looked.
    static READ: RefCell<Vec<Place>>;
}

/// Notes that objects are read here. The wait that looks, if one does, looks again when they change.
pub fn reads(place: impl FnOnce() -> Place) {
    // Outside of a wait there is nothing to wake.
    let _ = READ.try_with(|read| read.borrow_mut().push(place()));
}

/// Waits until `look` gives `Ok`; its `Err` says what is there instead and is shown when time runs out.
///
/// # Panics
/// When nothing came within a minute.
pub async fn wait_for<T>(what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
    wait_within(LONG, what, look).await
}

/// [`wait_for`] with a deadline of its own.
pub async fn wait_within<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let started = Instant::now();
    let mut watched = Watched::default();
    loop {
        watched.forget_news();
        let (looked, read) = READ
            .scope(RefCell::default(), async {
                let looked = look().await;
                (looked, READ.with(RefCell::take))
            })
            .await;
        match looked {
            Ok(found) => return found,
            Err(seen) => {
                assert!(started.elapsed() < limit, "waited {limit:?} for this: {what}\nlast seen: {seen}");
            }
        }
        // What changed before the watch began is seen by looking once more.
        if !watched.add(read).await {
            watched.news().await;
        }
    }
}

/// Waits until `look` says `true`.
pub async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    wait_for(what, async || if look().await { Ok(()) } else { Err("not so".to_owned()) }).await;
}

/// What one wait watches.
#[derive(Default)]
struct Watched {
    places: Vec<(Place, watch::Receiver<()>)>,
    pause: Duration,
}

impl Watched {
    fn forget_news(&mut self) {
        self.places.iter_mut().for_each(|(_, news)| news.mark_unchanged());
    }

    /// Watches these as well; `false`: all of them were watched already.
    async fn add(&mut self, read: Vec<Place>) -> bool {
        let before = self.places.len();
        for place in read {
            if !self.places.iter().any(|(watched, _)| *watched == place) {
                let news = place.news().await;
                self.places.push((place, news));
            }
        }
        self.places.len() > before
    }

    /// Waits for a change, or for as long as a wait goes without looking.
    async fn news(&mut self) {
        if self.places.is_empty() {
            let (first, last) = UNWATCHED;
            self.pause = (self.pause * 3 / 2).clamp(first, last);
            return tokio::time::sleep(self.pause).await;
        }
        let changes = self.places.iter_mut().map(|(_, news)| Box::pin(news.changed()));
        let _ = tokio::time::timeout(UNTOLD, futures::future::select_all(changes)).await;
    }
}
