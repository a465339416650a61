//! `approve`: shows the plan that waits for a person, and lets exactly that one go on.

use std::process::ExitCode;

use serde_json::json;

use crate::api::{PlanStatus, SherpackRelease, names};
use crate::cli::cluster::{Target, on_runtime};
use crate::cli::output::answer::{Answer, Failure, confirm, finish, print, story};
use crate::cli::wait::{Goal, Patience, follow};

/// Approve the plan that a release with `approval: Manual` waits with.
///
/// Shows the plan and asks. Only the plan that was shown is approved: when the pack or the values change meanwhile, the
/// release waits again.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    target: Target,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Approve only if the plan has this digest; nothing is asked then
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    /// Follow the release until it is Ready; ends as `wait` does
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    patience: Patience,
}

/// Exit code 0 when a plan was approved, 1 when none waits, it is another one, or the answer is no.
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(on_runtime(approve(args)))
}

async fn approve(args: Args) -> Result<Answer, Failure> {
    let place = args.target.open().await?;
    let release = place.release().await?;
    let what = place.what();
    let plan = waiting(&release).map_err(|why| Failure::finding(format!("{what}: {why}")))?;
    story(&format!("{what}: {}", plan.summary.as_deref().unwrap_or("a new revision")));
    story(&format!("plan {}", plan.digest));
    match &args.digest {
        Some(wanted) if *wanted != plan.digest => {
            return Err(Failure::finding(format!(
                "the plan of {what} is another one by now: {}",
                plan.digest
            )));
        }
        Some(_) => {}
        None if args.yes => {}
        None => confirm("approve it?", "add --yes, or --digest with the digest of the plan")?,
    }
    let annotation = json!({"metadata": {"annotations": {names::APPROVE: plan.digest}}});
    let patched = place.change(annotation).await?;
    let done = format!("sherpackrelease/{} approved\n", place.name);
    if !args.wait {
        return Ok(done.into());
    }
    print(&done)?;
    let goal = Goal { generation: patched.metadata.generation, ..Goal::default() };
    follow(&place, goal, &args.patience).await
}

/// The plan that waits, or why there is none.
fn waiting(release: &SherpackRelease) -> Result<PlanStatus, String> {
    if release.metadata.deletion_timestamp.is_some() {
        return Err("it is being deleted".to_owned());
    }
    let status = release.status.as_ref();
    if status.and_then(|status| status.observed_generation) != release.metadata.generation {
        return Err("the operator has not seen its newest spec yet: try again".to_owned());
    }
    let plan = status.and_then(|status| status.plan.clone());
    plan.ok_or_else(|| "no plan waits for approval".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(status: serde_json::Value, generation: i64) -> SherpackRelease {
        serde_json::from_value(json!({
            "apiVersion": names::API_VERSION, "kind": names::KIND, "metadata": {"name": "web", "generation": generation},
            "spec": {}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn only_a_plan_for_the_newest_spec_is_shown() {
        let status =
            json!({"observedGeneration": 2, "plan": {"digest": "sha256:1", "summary": "installs web"}});
        assert_eq!(waiting(&release(status.clone(), 2)).unwrap().digest, "sha256:1");
        assert!(waiting(&release(status, 3)).unwrap_err().contains("newest spec"));
        assert!(
            waiting(&release(json!({"observedGeneration": 2}), 2)).unwrap_err().contains("no plan waits")
        );
    }
}
