//! `plan`: what an operation with a pack would do, in its order; without a cluster, or by asking one.

mod against;
mod before;
mod definitions;
mod objects;
mod report;
mod uninstall;

pub(super) use against::reached;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use super::cluster::{Connection, on_runtime};
use super::crds::diff::Strategy;
use super::output::answer::{Failure, finish};
use super::{packs::render, releases::pending_holder};
use crate::cluster::Meta;
use crate::manifest::{InventoryEntry, Object};
use crate::plan::{self, Line, Occasion, Parts, Plan};

#[derive(Debug, clap::Args)]
// The flattened arguments have the group of this name.
#[group(skip)]
pub(super) struct Args {
    /// Takes PACK for the name of a SherpackRelease and says what its deletion would delete, by asking the cluster:
    /// `plan --uninstall RELEASE`. Nothing is written.
    #[arg(long, conflicts_with_all = ["against_cluster", "action"])]
    uninstall: bool,
    /// Also ask the cluster: every object and definition as a dry run, what changes of definitions mean for their objects, what would
    /// be pruned. Nothing is written. A SherpackRelease with the name of the release says what else applies, but for its values:
    /// give those with -f and --set.
    #[arg(long, conflicts_with = "action")]
    against_cluster: bool,
    /// What is done with a change of a definition that exists [default: as the SherpackRelease or the pack says, else safe]
    #[arg(long, value_enum, requires = "against_cluster")]
    crd_strategy: Option<Strategy>,
    #[command(flatten)]
    render: render::Args,
    #[command(flatten)]
    records: pending_holder::Records,
    #[command(flatten)]
    connection: Connection,
    /// Which operation.
    #[arg(long, value_enum, default_value_t = Action::Install)]
    action: Action,
    /// How the plan is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Install,
    Upgrade,
    Rollback,
    Uninstall,
    Test,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For programs: `action`, `waves` and `steps`, each with a `do`; or what the cluster was asked.
    Json,
}

#[derive(Serialize)]
struct Shown {
    action: Action,
    /// In the order in which they are done.
    waves: Vec<i32>,
    steps: Vec<Line>,
}

/// Exit code 1 when the pack, the values or the plan are at fault, or when the cluster would refuse or hold it; 2 for usage
/// and IO.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "stdout is the result, stderr the story")]
pub(super) fn run(args: Args) -> ExitCode {
    if args.uninstall {
        return finish(on_runtime(uninstall::answer(&args)));
    }
    if args.against_cluster {
        // The registry is asked before there is a runtime that waits for the cluster.
        let values = render::read_values(&args.render).map_err(|(code, message)| Failure { code, message });
        let read = values.and_then(|values| Ok((args.render.read(&values)?, values)));
        return finish(read.and_then(|(pack, values)| on_runtime(against::answer(args, pack, values))));
    }
    let shown = match shown(&args) {
        Ok(shown) => shown,
        Err((code, message)) => {
            eprintln!("error: {message}");
            return ExitCode::from(code);
        }
    };
    match args.output {
        Output::Text => shown.steps.iter().for_each(|line| println!("{line}")),
        // Strings and numbers in a struct always serialise.
        Output::Json => println!("{}", serde_json::to_string_pretty(&shown).unwrap_or_default()),
    }
    ExitCode::SUCCESS
}

fn shown(args: &Args) -> Result<Shown, (u8, String)> {
    let (_, mut rendered) = render::execute(&args.render)?;
    let definitions = std::mem::take(&mut rendered.definitions).into_iter();
    let definitions = definitions.map(|shipped| (shipped.body, shipped.file));
    let objects =
        std::mem::take(&mut rendered.objects).into_iter().zip(std::mem::take(&mut rendered.origins));
    let object = |(body, file): (_, String)| {
        Object::from_value(body).map(|object| object.in_layer(rendered.layer_of(&file)))
    };
    let objects = definitions.chain(objects).map(object).collect::<Result<_, _>>();
    let objects = objects.map_err(|error| (1, error.to_string()))?;
    let (parts, plan) = planned(objects, args.action).map_err(|error| (1, error.to_string()))?;
    Ok(Shown { action: args.action, steps: plan::lines(&plan, &parts), waves: plan.waves })
}

fn planned(objects: Vec<Object>, action: Action) -> Result<(Parts, Plan), plan::Error> {
    let parts = plan::split(objects)?;
    let roll_out = |occasion| plan::roll_out(&parts, occasion);
    let plan = match action {
        Action::Install => roll_out(Occasion::Install)?,
        Action::Upgrade => roll_out(Occasion::Upgrade)?,
        Action::Rollback => roll_out(Occasion::Rollback)?,
        Action::Uninstall => {
            let inventory = plan::next_inventory(&parts.objects, 1, &[], &[]).wanted;
            plan::deletion(&parts, &inventory, &[], &BTreeSet::new(), true)?
        }
        Action::Test => plan::tests(&parts.hooks),
    };
    Ok((parts, plan))
}

/// Why a live object of an inventory is not deleted; `None` when it is.
fn kept(entry: &InventoryEntry, live: &Meta, uid: &str) -> Option<&'static str> {
    if plan::may_delete(entry, live, uid) {
        return None;
    }
    let annotations = live.annotations.as_ref();
    let marked = plan::is_marked(annotations, uid);
    Some(if entry.adopted.is_some() && marked {
        "it was there before the release, and is handed back"
    } else if marked && (entry.keep || plan::is_kept(annotations)) {
        "its resource policy is keep"
    } else if marked {
        "no record says that the release made it"
    } else {
        "it does not belong to this release any more"
    })
}
