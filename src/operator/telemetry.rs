//! Logs: one line per event on stderr, for people or for machines.
//!
//! Imports nothing of this crate. Invariants: nothing is logged that could hold a Secret's content, and one event is one line.

use std::fmt::{self, Write};
use std::io::IsTerminal;

use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::format;
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
/// `level` cannot be read; see `directives`.
pub fn install(format: Format, level: &str) -> Result<(), BadLevel> {
    let filter = filter(level)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            // What is logged may come from a tenant: no text of it may look like a line of ours.
            .fmt_fields(format::debug_fn(field).delimited(" "))
            .boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    // Fails only when a subscriber is installed already: tests start several operators in one process.
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
    Ok(())
}

fn field(writer: &mut format::Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut line = OneLine(writer);
    match field.name() {
        "message" => write!(line, "{value:?}"),
        name => write!(line, "{name}={value:?}"),
    }
}

/// Writes what is no visible character as `\n` or `\u{1b}`.
struct OneLine<W>(W);

impl<W: fmt::Write> fmt::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                // Ends of lines and of pages, and what turns the direction of a text around.
                _ if letter.is_control() => write!(self.0, "{}", letter.escape_default())?,
                '\u{2028}'
                | '\u{2029}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}' => write!(self.0, "{}", letter.escape_default())?,
                letter => self.0.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// A text without what would break its line or hide a part of it.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    // A string takes everything.
    let _ = OneLine(&mut line).write_str(text);
    line
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

    #[derive(Clone, Default)]
    struct Memory(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_text_from_outside_makes_a_line_of_its_own() {
        let memory = Memory::default();
        let theirs = memory.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || theirs.clone())
            .fmt_fields(format::debug_fn(field).delimited(" "));
        let forged = "a\n2026-01-01T00:00:00Z  INFO sherpack_operator: forged\r\u{1b}[31m\u{2028}\u{202e}";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let error = std::io::Error::other(forged);
            tracing::info!(shown = %forged, text = forged, debug = ?[forged], %error, "message {forged}");
            tracing::info!(count = 3, "second");
        });
        let log = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.lines().count(), 2, "{log}");
        let strange = |letter: char| letter.is_control() && letter != '\n' || letter as u32 >= 0x2000;
        assert!(!log.contains(strange), "{log:?}");
        let second = log.lines().nth(1).unwrap();
        assert!(second.ends_with("second count=3"), "{second}");
        assert!(log.contains(r"shown=a\n2026-01-01"), "{log}");
        assert_eq!(on_one_line("a\nb\tc\u{7f}ü"), r"a\nb\tc\u{7f}ü");
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
