//! `diff`: what differs between a release and its objects in the cluster, or between two of its revisions.

mod conceal;
mod live;
mod report;
mod revisions;
mod subject;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::ValueEnum;

use super::cluster::{Target, on_runtime};
use super::output::answer::{Answer, Failure, finish, pretty, story};
use super::releases::pending_holder;
use crate::crd::text::Colour;
use report::Report;
use subject::Subject;

/// Notes that are told on stderr; more are counted.
const NOTES: usize = 5;

/// Print what others changed in the cluster of what a release wants, or what differs between two of its revisions.
///
/// Without --from and --to every object of the deployed revision is sent as a dry run, and what that would change is
/// drift: a field with `-` as the release wants it and with `+` as it is, and who did it, as far as that is known. What
/// others may add, what spec.drift.ignore names and what was handed over is no drift. A dry run needs the right to patch;
/// without it only the fields that the manifest states are compared.
///
/// Values of Secrets are never printed, only that they differ. Nothing is written. Ends with 0 when nothing differs, with
/// 1 when something does, with 2 when that cannot be found out.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// Compare this revision with another one [default with --to: the one before that]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    from: Option<u32>,
    /// The other one [default with --from: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    to: Option<u32>,
    #[command(flatten)]
    records: pending_holder::Records,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people; nothing when nothing differs. With colours on a terminal.
    Text,
    /// For programs: `differs`, and of each object that does `object`, `what` and `changes` with `path`, `old`, `new`; for
    /// drift `old` is what the release wants and `new` what is there.
    Json,
}

/// Exit code 0 when nothing differs, 1 when something does, 2 for usage and IO.
pub(super) fn run(args: Args) -> ExitCode {
    finish(on_runtime(answer(args)))
}

async fn answer(args: Args) -> Result<Answer, Failure> {
    let subject = Subject::find(args.target.open().await?, &args.records).await?;
    let report: Report = match (args.from, args.to) {
        (None, None) => live::drift(&subject).await?,
        (from, to) => revisions::compared(&subject, from, to).await?,
    };
    report.notes.iter().take(NOTES).for_each(|note| story(note));
    let more = report.notes.len().saturating_sub(NOTES);
    if more > 0 {
        story(&format!("and {more} more of this kind: -o json has them all"));
    }
    let colour = if std::io::stdout().is_terminal() { Colour::Yes } else { Colour::No };
    let text = match args.output {
        Output::Json => pretty(&report),
        Output::Text => report.text(colour),
    };
    Ok(Answer { text, findings: report.differs })
}
