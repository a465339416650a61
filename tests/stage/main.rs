//! The operator on the stage: what `make demo`, `make scale` and `make soak` run, against a real control plane.
//!
//! It drives the built binary, a kubeconfig and the API server, as a user's cluster would. It uses nothing of
//! the operator's library: what is judged here must be visible from outside.
//!
//! `cargo test --test stage -- demo | scale | soak | attack | compare | cluster-check`. Environment: `CLUSTER=current` (demo only) uses
//! the cluster of `KUBECONFIG`; `SEED` repeats the demo's kills and the soak's story; `N`, `IDLE_S` shape the scale run, `MINUTES`, `RELEASES` the soak and `MINUTES` the attack;
//! `SHERPACK_OPERATOR` names another binary.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a command line: stdout is the result, stderr the story

mod attack;
mod cluster;
mod compare;
mod demo;
mod failure;
mod http;
mod objects;
mod operator;
mod random;
mod release;
mod scale;
mod sight;
mod soak;

use std::process::ExitCode;

use failure::{Failure, Result};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str =
    "usage: cargo test --test stage -- demo | scale | soak | attack | compare | cluster-check";

fn main() -> ExitCode {
    // Fails only when a provider is installed already, and this is the first line of the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no async runtime: {error}");
            return ExitCode::from(2);
        }
    };
    let command = std::env::args().nth(1).unwrap_or_default();
    let result = runtime.block_on(async {
        match command.as_str() {
            "demo" => demo::run(asked_to_stop()?).await,
            "scale" => or_stopped(scale::run(), asked_to_stop()?).await,
            "attack" => or_stopped(attack::run(), asked_to_stop()?).await,
            "soak" => or_stopped(soak::run(), asked_to_stop()?).await,
            "compare" => compare::run(),
            "cluster-check" => or_stopped(cluster::check(), asked_to_stop()?).await,
            _ => Err(Failure::new(USAGE)),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nFAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Ends when a person or a supervisor wants the program to end. Children are ended on the way out.
fn asked_to_stop() -> Result<impl Future<Output = Failure>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Failure::new("interrupted")
    })
}

/// Runs `work` unless the program is asked to stop first; dropping `work` ends the processes it holds.
async fn or_stopped(
    work: impl Future<Output = Result<()>>,
    stop: impl Future<Output = Failure>,
) -> Result<()> {
    tokio::select! {
        done = work => done,
        failure = stop => Err(failure),
    }
}
