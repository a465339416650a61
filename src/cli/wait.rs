//! `wait`: follows a release until it is Ready, with a line for each of its objects.

mod board;
mod goal;
mod objects;
mod screen;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::time::Instant;

use super::cluster::{Place, Target, on_runtime};
use super::output::answer::{Answer, Failure, finish, print, story};
use super::releases::pending_holder;
use crate::api::{SherpackRelease, duration};
use crate::cluster::{describe, status_code};
use board::Board;
pub(super) use goal::Goal;
use goal::Stand;
use objects::{Objects, Seen};
use screen::{Pipe, Screen, Terminal};

/// Follow a release until it is Ready for its newest spec, or until a deleted one is gone.
///
/// On a terminal every object has a line that changes; in a pipe there is a line for each change. Ends with 0 when the
/// release is Ready, with 1 when it is stalled, suspended, paused, when an attempt failed, or at the timeout.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    patience: Patience,
}

/// How long to wait.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Patience {
    /// Give up after this time, such as 90s or 10m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Duration,

    /// Go on when an attempt fails, as long as the operator tries again
    #[arg(long)]
    through_retries: bool,

    #[command(flatten)]
    pub(super) records: pending_holder::Records,
}

fn timeout(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

pub(super) fn run(args: Args) -> ExitCode {
    finish(on_runtime(async {
        let place = args.target.open().await?;
        follow(&place, Goal::default(), &args.patience).await
    }))
}

/// Waits for a goal and tells of it all the while.
pub(super) async fn follow(place: &Place, goal: Goal, patience: &Patience) -> Result<Answer, Failure> {
    let deadline = Instant::now().checked_add(patience.timeout);
    let goal = Goal { through_retries: patience.through_retries, ..goal };
    let first = place.release().await?;
    let mut watch = Follow {
        place,
        goal,
        uid: first.metadata.uid.clone(),
        leaving: first.metadata.deletion_timestamp.is_some(),
        board: Board::new(first.target_namespace()),
        screen: screen(),
        objects: Objects::new(place, &first, patience.records.stores(&place.client)),
        why: String::new(),
    };
    if let Some(end) = watch.look(&first).await {
        return end;
    }
    let mut events = std::pin::pin!(releases(place));
    let mut listed = false;
    loop {
        let end = tokio::select! {
            event = events.next() => match event {
                Some(Ok(watcher::Event::Init)) => {
                    listed = false;
                    None
                }
                Some(Ok(watcher::Event::InitApply(release) | watcher::Event::Apply(release))) => {
                    listed = true;
                    watch.look(&release).await
                }
                Some(Ok(watcher::Event::InitDone)) if listed => None,
                Some(Ok(watcher::Event::InitDone | watcher::Event::Delete(_))) => Some(watch.gone()),
                Some(Err(error)) => refused(&error).map(Err),
                // A watch never ends by itself.
                None => Some(Err(Failure::from("the watch of the release ended".to_owned()))),
            },
            seen = watch.objects.next() => watch.see(seen),
            () = until(deadline) => Some(Err(watch.late(patience.timeout))),
        };
        if let Some(end) = end {
            return end;
        }
    }
}

fn releases(place: &Place) -> impl Stream<Item = watcher::Result<watcher::Event<SherpackRelease>>> {
    let only = watcher::Config::default().fields(&format!("metadata.name={}", place.name));
    watcher(place.api(), only).default_backoff()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What another try will not change; everything else is tried again by the watch itself.
fn refused(error: &watcher::Error) -> Option<Failure> {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    let message = match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)
            if matches!(status_code(error), Some(401 | 403 | 404)) =>
        {
            describe(error)
        }
        WatchError(status) if matches!(status.code, 401 | 403 | 404) => status.message.clone(),
        InitialListFailed(_) | WatchStartFailed(_) | WatchFailed(_) | WatchError(_) | NoResourceVersion => {
            return None;
        }
    };
    Some(format!("the release cannot be watched: {message}").into())
}

/// A terminal that obeys is drawn on; everything else gets lines.
fn screen() -> Screen {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = set("TERM").is_none_or(|term| term == "dumb");
    if std::io::stdout().is_terminal() && !dumb {
        Screen::Terminal(Terminal::new(set("NO_COLOR").is_none()))
    } else {
        Screen::Pipe(Pipe::default())
    }
}

struct Follow<'a> {
    place: &'a Place,
    goal: Goal,
    uid: Option<String>,
    /// It was on its way out when the wait began: then its end is what is waited for.
    leaving: bool,
    board: Board,
    screen: Screen,
    objects: Objects,
    /// Why the wait is not over.
    why: String,
}

impl Follow<'_> {
    /// The release as it is now. Something: the wait is over.
    async fn look(&mut self, release: &SherpackRelease) -> Option<Result<Answer, Failure>> {
        if release.metadata.uid != self.uid {
            return Some(self.gone());
        }
        let status = release.status.clone().unwrap_or_default();
        if let Some(objects) = self.objects.of(&status).await {
            self.board.want(objects);
        }
        self.board.status(&status);
        let stand = self.goal.judge(release);
        if matches!(stand, Stand::Ready(_)) {
            // The release and its objects come by different watches: the last look is of now.
            for (id, sight) in self.objects.look(self.board.unsettled(), Timestamp::now()).await {
                self.board.see(id, sight);
            }
        }
        if let Err(failure) = self.draw() {
            return Some(Err(failure));
        }
        let what = self.place.what();
        match stand {
            Stand::Ready(message) => Some(Ok(format!("{what} is Ready: {message}\n").into())),
            Stand::Failed(message) => Some(Err(Failure::finding(format!("{what} is not Ready: {message}")))),
            Stand::Untested(message) => {
                Some(Err(Failure::finding(format!("the tests of {what} failed: {message}"))))
            }
            Stand::Waiting(why) => {
                self.why = why;
                None
            }
        }
    }

    fn see(&mut self, seen: Seen) -> Option<Result<Answer, Failure>> {
        match seen {
            Seen::Object(id, sight) => self.board.see(id, sight),
            Seen::Blind(message) => story(&message),
        }
        self.draw().err().map(Err)
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let size = terminal_size::terminal_size();
        let size = size.map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        print(&self.screen.show(&self.board, size))
    }

    fn gone(&self) -> Result<Answer, Failure> {
        let what = self.place.what();
        if self.leaving {
            Ok(format!("{what} is gone\n").into())
        } else {
            Err(Failure::finding(format!("{what} was deleted meanwhile")))
        }
    }

    fn late(&self, after: Duration) -> Failure {
        let (what, after) = (self.place.what(), duration::format(after));
        Failure::finding(format!("{what} is not Ready after {after}: {}", self.why))
    }
}
