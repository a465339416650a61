//! Logs: one line per event on stderr, for people or for machines.
//!
//! Imports nothing of this crate. Invariant: nothing is logged that could hold a Secret's content.

use std::io::IsTerminal;

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Time, level, module, message, fields.
    Text,
    /// One JSON object per line; the fields of the event stand at its top level.
    Json,
}

/// The log level or filter that the user wrote is not one.
#[derive(Debug, thiserror::Error)]
#[error(
    "--log-level `{given}` is neither a level (error, warn, info, debug, trace, off) nor a filter like `info,sherpack_operator::reconcile=debug`: {source}"
)]
pub struct BadLevel {
    given: String,
    source: ParseError,
}

/// Makes `level` and `format` hold for the whole process. Later calls change nothing.
///
/// # Errors
/// `level` cannot be read; see [`directives`].
pub fn install(format: Format, level: &str) -> Result<(), BadLevel> {
    let filter = filter(level)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    // Fails only when a subscriber is installed already: tests start several operators in one process.
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
    Ok(())
}

fn filter(level: &str) -> Result<EnvFilter, BadLevel> {
    let directives = directives(level);
    EnvFilter::try_new(directives).map_err(|source| BadLevel { given: level.to_owned(), source })
}

/// The filter that a user means.
///
/// A bare level is about this program; libraries stay at `warn` at most. Anything else is taken as a
/// filter of the form `target=level,…`. In both, kube's HTTP client is silent unless it is named: it logs
/// whole response bodies that it cannot read, which may be Secrets, and what fails is reported by us.
fn directives(level: &str) -> String {
    let level = level.trim();
    let ours = match level.to_ascii_lowercase().as_str() {
        bare @ ("off" | "error") => bare.to_owned(),
        bare @ ("warn" | "info" | "debug" | "trace") => format!("warn,sherpack_operator={bare}"),
        _ => level.to_owned(),
    };
    if ours.contains("kube_client") { ours } else { format!("{ours},kube_client::client=off") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_is_about_this_program() {
        assert_eq!(directives("DEBUG"), "warn,sherpack_operator=debug,kube_client::client=off");
        assert_eq!(directives("error"), "error,kube_client::client=off");
    }

    #[test]
    fn a_filter_is_taken_as_it_is_but_response_bodies_stay_out() {
        assert_eq!(directives("info,hyper=debug"), "info,hyper=debug,kube_client::client=off");
        assert_eq!(directives("info,kube_client=trace"), "info,kube_client=trace");
    }

    #[test]
    fn every_level_and_filter_is_readable() {
        for level in ["off", "error", "warn", "info", "debug", "trace", "info,sherpack_operator::watch=trace"]
        {
            filter(level).unwrap();
        }
    }

    #[test]
    fn a_level_that_is_none_is_refused_by_name() {
        let error = filter("sherpack_operator=loud").unwrap_err().to_string();
        assert!(error.contains("`sherpack_operator=loud`"), "{error}");
    }
}
