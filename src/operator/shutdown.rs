//! How the process ends: the first SIGTERM or SIGINT asks, the second does not wait.
//!
//! Imports nothing of this crate.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// From the first signal to the end of the process, whatever still runs.
pub const GRACE: Duration = Duration::from_secs(5);

/// Exit code after a second signal: 128 + SIGINT, as a shell reports an interrupted program.
const ABORTED: i32 = 130;

/// Starts to listen for signals; the token is cancelled by the first one.
///
/// # Errors
/// The operating system refuses a signal handler.
pub fn on_signals() -> std::io::Result<CancellationToken> {
    let mut signals =
        Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
    let asked = CancellationToken::new();
    let token = asked.clone();
    tokio::spawn(async move {
        let first = signals.next().await;
        tracing::info!(signal = first, "shutting down");
        asked.cancel();
        let second = signals.next().await;
        tracing::warn!(signal = second, "second signal: aborting");
        std::process::exit(ABORTED);
    });
    Ok(token)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
