//! Waits with a deadline that say what they waited for and what they last saw.

use std::time::{Duration, Instant};

/// Far beyond anything that happens on a loaded machine; a test that gets here has failed.
pub const LONG: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

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
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => {
                assert!(started.elapsed() < limit, "waited {limit:?} for this: {what}\nlast seen: {seen}");
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits until `look` says `true`.
pub async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    wait_for(what, async || if look().await { Ok(()) } else { Err("not so".to_owned()) }).await;
}
