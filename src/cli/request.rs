//! The commands that ask for something: each says what will happen, then sets one field or annotation of the release.
//!
//! The change is a merge patch by a field manager of its own, so that it owns nothing but that field: an apply from Git
//! that does not mention the field leaves it alone.

pub(super) mod approve;
pub(super) mod gitops;

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cluster::{Place, Target, keeping, on_runtime};
use super::output::answer::{Answer, Failure, finish, story};
use super::wait::{Goal, Patience, follow};
use crate::api::reasons::condition::READY;
use crate::api::{SherpackRelease, SherpackReleaseStatus, conditions, names, reasons};
use crate::release::State;
use crate::storage::Stores;
use crate::storage::unverified::{self, Found};
use gitops::Keeper;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,

    /// Say what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Followed {
    #[command(flatten)]
    args: Args,

    /// Follow the release until it is Ready; ends as `wait` does
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    patience: Patience,
}

/// Pin a release to a stored revision, or end that.
#[derive(Debug, clap::Args)]
pub(super) struct Rollback {
    #[command(flatten)]
    args: Args,

    /// The revision to go back to; see `history`
    #[arg(value_name = "REVISION", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647),
          required_unless_present = "unpin", conflicts_with = "unpin")]
    revision: Option<u32>,

    /// End the pin: what the spec says is rolled out again
    #[arg(long)]
    unpin: bool,

    /// Follow the release until it is Ready; ends as `wait` does
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    patience: Patience,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Reconcile,
    Suspend,
    Resume,
    Reset,
    Test,
    Rollback(u32),
    Unpin,
}

pub(super) fn suspend(args: Args) -> ExitCode {
    finish(on_runtime(async {
        let place = args.target.open().await?;
        let release = place.release().await?;
        ask(&args, &place, &release, Request::Suspend, None).await
    }))
}

pub(super) fn followed(args: Followed, request: Request) -> ExitCode {
    let patience = args.wait.then_some(&args.patience);
    finish(on_runtime(async {
        let place = args.args.target.open().await?;
        let release = place.release().await?;
        ask(&args.args, &place, &release, request, patience).await
    }))
}

pub(super) fn rollback(args: Rollback) -> ExitCode {
    let patience = args.wait.then_some(&args.patience);
    finish(on_runtime(async {
        let place = args.args.target.open().await?;
        let release = place.release().await?;
        let request = match args.revision {
            Some(revision) => {
                let stores = args.patience.records.stores(&place.client);
                check_revision(&place, &release, revision, &stores).await?;
                Request::Rollback(revision)
            }
            None => Request::Unpin,
        };
        ask(&args.args, &place, &release, request, patience).await
    }))
}

async fn ask(
    args: &Args,
    place: &Place,
    release: &SherpackRelease,
    request: Request,
    patience: Option<&Patience>,
) -> Result<Answer, Failure> {
    let what = place.what();
    let Some(consequence) = consequence(request, release)? else {
        story(&format!("{what}: {}", already(request)));
        return match patience.filter(|_| !args.dry_run) {
            Some(patience) => follow(place, Goal::default(), patience).await,
            None => Ok(Answer::default()),
        };
    };
    story(&format!("{what}: {consequence}"));
    if let Some(field) = request.field()
        && let Some(keeper) = Keeper::of(&release.metadata, field)
    {
        story(&keeper.warning(field));
    }
    if args.dry_run {
        return Ok(Answer::default());
    }
    let now = Timestamp::now().to_string();
    let patched = place.change(request.patch(&now, patience.is_some())).await?;
    let done = format!("sherpackrelease/{} {}\n", place.name, request.done());
    let Some(patience) = patience else { return Ok(done.into()) };
    super::output::answer::print(&done)?;
    let goal = Goal {
        generation: patched.metadata.generation,
        reconcile_at: Some(now.clone()),
        test_at: (request == Request::Test).then_some(now),
        ..Goal::default()
    };
    follow(place, goal, patience).await
}

/// Refuses a revision that is known not to be one to go back to. Who may not read records asks the operator.
async fn check_revision(
    place: &Place,
    release: &SherpackRelease,
    revision: u32,
    stores: &Stores,
) -> Result<(), Failure> {
    let (namespace, name) = (release.target_namespace(), release.release_name());
    let records = stores.of(&keeping(release));
    let found = match unverified::find(&records, namespace, name, Some(revision)).await {
        Ok(found) => found,
        Err(error) => {
            story(&format!("the revision could not be looked at, so the operator decides: {error}"));
            return Ok(());
        }
    };
    let what = place.what();
    match found {
        Found::Nothing => Err(Failure::finding(format!("{what} has no revision {revision}: see `history`"))),
        Found::Unreadable(unreadable) => Err(Failure::finding(unreadable.to_string())),
        Found::Record(stored) => match stored.record.state {
            State::Deployed | State::Superseded => Ok(()),
            state => Err(Failure::finding(format!(
                "revision {revision} of {what} is {}: only one that was deployed can be gone back to",
                state.name()
            ))),
        },
    }
}

impl Request {
    /// The field below `spec` that is changed; requests by annotation change none.
    fn field(self) -> Option<&'static str> {
        match self {
            Self::Suspend | Self::Resume => Some("suspend"),
            Self::Rollback(_) | Self::Unpin => Some("rollbackTo"),
            Self::Reconcile | Self::Reset | Self::Test => None,
        }
    }

    /// `acknowledge`: the answer of the operator is waited for, and a request to reconcile is what it acknowledges.
    fn patch(self, now: &str, acknowledge: bool) -> Value {
        let annotations = |key: &str| json!({"metadata": {"annotations": {key: now}}});
        let mut patch = match self {
            Self::Reconcile => annotations(names::RECONCILE_AT),
            Self::Reset => annotations(names::RESET_AT),
            Self::Test => annotations(names::TEST_AT),
            Self::Suspend => json!({"spec": {"suspend": true}}),
            Self::Resume => json!({"spec": {"suspend": null}}),
            Self::Rollback(revision) => json!({"spec": {"rollbackTo": revision}}),
            Self::Unpin => json!({"spec": {"rollbackTo": null}}),
        };
        if acknowledge {
            patch["metadata"]["annotations"][names::RECONCILE_AT] = json!(now);
        }
        patch
    }

    /// What kubectl would say.
    fn done(self) -> &'static str {
        match self {
            Self::Reconcile => "asked to reconcile",
            Self::Reset => "asked to reset",
            Self::Test => "asked to test",
            Self::Suspend => "suspended",
            Self::Resume => "resumed",
            Self::Rollback(_) => "pinned",
            Self::Unpin => "unpinned",
        }
    }
}

fn already(request: Request) -> &'static str {
    match request {
        Request::Suspend => "it is suspended already",
        Request::Resume => "it is not suspended",
        Request::Rollback(_) => "it is pinned to that revision already",
        Request::Unpin => "it is not pinned",
        Request::Reconcile | Request::Reset | Request::Test => "nothing to do",
    }
}

/// What will happen, in a sentence; `None` when it is so already.
///
/// # Errors
/// What cannot be asked of the release as it is.
fn consequence(request: Request, release: &SherpackRelease) -> Result<Option<String>, Failure> {
    let status = release.status.clone().unwrap_or_default();
    let suspended = release.spec.suspend == Some(true);
    let pinned = release.spec.rollback_to;
    let revision = status.revision.map_or_else(|| "no revision".to_owned(), |n| format!("revision {n}"));
    let leaving = release.metadata.deletion_timestamp.is_some();
    if leaving && !matches!(request, Request::Reconcile | Request::Reset) {
        return Err(Failure::finding("it is being deleted: nothing but its end can be asked for"));
    }
    // Whatever is asked of a suspended release comes when it is resumed.
    let later = if suspended { "; it is suspended, so nothing happens before it is resumed" } else { "" };
    let text = match request {
        Request::Suspend if suspended => return Ok(None),
        Request::Suspend => {
            let running = status.operation.as_ref().map(|operation| {
                format!("the running {} stops where it is; ", operation.action.to_lowercase())
            });
            format!(
                "spec.suspend becomes true: {}what is deployed keeps running, and until it is resumed nothing is \
                 installed, upgraded or put back; deletion still works",
                running.unwrap_or_default()
            )
        }
        Request::Resume if !suspended => return Ok(None),
        Request::Resume => format!(
            "spec.suspend is removed: what the spec says is rolled out if it differs from {revision}, and what others \
             changed meanwhile is put back"
        ),
        Request::Reconcile => {
            format!("the operator looks at the pack, the values and the objects now{later}")
        }
        Request::Reset => reset(&status, leaving, &revision, later)?,
        Request::Test => format!("the tests of {revision} run; what is deployed does not change{later}"),
        Request::Rollback(to) if pinned == Some(to) => return Ok(None),
        Request::Rollback(to) => format!(
            "spec.rollbackTo becomes {to}: the manifest of revision {to} is deployed again as a new revision, and \
             changes of the spec wait until the pin ends (`rollback {} --unpin`){later}",
            release.metadata.name.as_deref().unwrap_or_default()
        ),
        Request::Unpin => match pinned {
            None => return Ok(None),
            Some(from) => format!(
                "spec.rollbackTo ({from}) is removed: what the spec says is rolled out if it differs from {revision}{later}"
            ),
        },
    };
    Ok(Some(text))
}

/// What a reset does: it gives up records that are lost, lets a release go that waits for one, or forgets failures.
///
/// # Errors
/// The release is held for a record in doubt, which a reset does not answer.
fn reset(
    status: &SherpackReleaseStatus,
    leaving: bool,
    revision: &str,
    later: &str,
) -> Result<String, Failure> {
    if leaving {
        let text = "if its record is lost, that is accepted: the release is let go and its objects stay";
        return Ok(text.to_owned());
    }
    let reason = conditions::find(&status.conditions, READY).map_or("", |ready| ready.reason.as_str());
    if [reasons::RECORD_LOST, reasons::RECORD_UNREADABLE].contains(&reason) {
        return Ok(format!(
            "its records are given up: the spec as it is now is installed as the next free revision after {revision}, \
             and nothing is pruned{later}"
        ));
    }
    if [reasons::RECORD_KEY_LOST, reasons::RECORD_REWOUND].contains(&reason) {
        return Err(Failure::finding(format!(
            "it is held for {reason}, and a reset does not answer that: its condition says what does"
        )));
    }
    let tried = match status.failures.unwrap_or(0) {
        0 => "there is no failed attempt to forget, so this is a look and no more".to_owned(),
        n => format!("{n} failed attempts are forgotten, and the next one begins at once"),
    };
    Ok(format!("{tried}{later}"))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
