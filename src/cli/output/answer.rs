//! How the commands for people end: a text for stdout and a code, or a failure for stderr.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde::Serialize;

/// What is printed on stdout, and whether it tells of findings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Answer {
    pub(in crate::cli) text: String,
    pub(in crate::cli) findings: bool,
}

/// An exit code and what to say on stderr.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct Failure {
    pub(in crate::cli) code: u8,
    pub(in crate::cli) message: String,
}

impl Failure {
    /// What was asked for is not there, or did not come about.
    pub(in crate::cli) fn finding(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }
}

/// The cluster cannot be asked.
impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { code: 2, message }
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self { text, findings: false }
    }
}

/// Prints the answer and gives the exit code of the process: 0 fine, 1 findings, 2 usage or IO.
pub(in crate::cli) fn finish(answer: Result<Answer, Failure>) -> ExitCode {
    let answer = answer.and_then(|answer| print(&answer.text).map(|()| answer));
    match answer {
        Ok(answer) => ExitCode::from(u8::from(answer.findings)),
        Err(Failure { code, message }) => {
            story(&format!("error: {message}"));
            ExitCode::from(code)
        }
    }
}

/// Writes to stdout at once. A reader that closed it gets no more.
pub(in crate::cli) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::from(format!("the output cannot be written: {error}")))
}

/// Tells a line on stderr.
pub(in crate::cli) fn story(line: &str) {
    // Nowhere is left to report to when stderr is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Asks a person; `otherwise` says what to do where no user can be asked.
pub(in crate::cli) fn confirm(question: &str, otherwise: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::from(format!("stdin is no terminal, so no user can be asked: {otherwise}")));
    }
    // Nowhere is left to ask when stderr is closed; then no answer comes either.
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::from(format!("no answer: {error}")))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::finding("the answer is no")),
    }
}

/// JSON for machines, with a newline at its end.
pub(in crate::cli) fn pretty(value: &impl Serialize) -> String {
    // Everything that is printed is made of texts, numbers, lists and maps with text keys, which always serialise.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// The one choice of commands that print a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}
