//! `plan`: what an operation with a pack would do, in its order, without a cluster.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use super::render;
use crate::manifest::Object;
use crate::plan::{self, Line, Occasion, Parts, Plan};

#[derive(Debug, clap::Args)]
// The flattened arguments have the group of this name.
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    render: render::Args,
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
    /// Waves with their objects, hooks, and what is waited for.
    Text,
    /// A JSON object with `action`, `waves` and `steps`; each step has a `do`: hook, apply, wait or delete.
    Json,
}

#[derive(Serialize)]
struct Shown {
    action: Action,
    /// In the order in which they are done.
    waves: Vec<i32>,
    steps: Vec<Line>,
}

/// Exit code 1 when the pack, the values or the plan are at fault, 2 for usage and IO.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "stdout is the result, stderr the story")]
pub(super) fn run(args: Args) -> ExitCode {
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
    let (_, rendered) = render::execute(&args.render)?;
    let definitions = rendered.definitions.into_iter().map(|shipped| shipped.body);
    let objects = definitions.chain(rendered.objects).map(Object::from_value).collect::<Result<_, _>>();
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
