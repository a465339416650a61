//! Whether a release has come to rest as its wish asks. Pure.

use kube::api::DynamicObject;

use super::tracked::{Tracked, said};
use super::wish::{Fate, Id};
use crate::release::standing;

/// How a release stands to its wish.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Fits,
    /// The disturbances took all its tries: it has to be asked to start over.
    Spent,
    /// What was expected, and what is seen.
    Not(String),
}

/// `live`: the wish whose mark the release's objects carry now.
pub(super) fn fit(of: &Tracked, release: Option<&DynamicObject>, live: Option<Id>) -> Fit {
    let Some(release) = release else {
        return match of.present {
            true => Fit::Not("it should be there, and is not".to_owned()),
            false => Fit::Fits,
        };
    };
    if !of.present {
        return Fit::Not(format!("it should be deleted: {}", standing(release)));
    }
    let said = said(release);
    let not = |wanted: &str| {
        Fit::Not(format!("{wanted}; live {live:?}, head {:?}, {}", said.head, standing(release)))
    };
    if !said.rests {
        return not("it should rest");
    }
    if of.settings.suspended {
        return if said.reason == "Suspended" { Fit::Fits } else { not("Suspended") };
    }
    let deployed = said.head.is_some_and(|(_, state)| state == "deployed");
    let ready = said.ready == "True" && deployed;
    let spent = said.reason == "RetriesExceeded";
    if let Some(revision) = of.settings.rollback_to {
        let there = of.revisions.get(&revision).is_none_or(|id| live == Some(*id));
        return match () {
            () if ready && there => Fit::Fits,
            () if said.reason == "RollbackTargetInvalid" => Fit::Fits,
            () if spent => Fit::Spent,
            () => not(&format!("Ready at revision {revision}, which is {:?}", of.revisions.get(&revision))),
        };
    }
    let fate = of.wish.fate();
    let matched = match fate {
        Fate::Good => ready && live == Some(of.wish.id()),
        Fate::Unready | Fate::HookFails => said.ready == "False" && spent,
        Fate::NotRenderable => said.ready == "False" && said.reason == "RenderFailed",
        Fate::InvalidValues => said.ready == "False" && said.reason == "ValuesInvalid",
    };
    // What failed must have made way for what was deployed before, and is never taken away once anything was.
    let undone = deployed || !of.traits.rollback || !said.ever_deployed;
    match () {
        () if of.settings.paused && said.reason == "Paused" && undone => Fit::Fits,
        () if matched && undone => Fit::Fits,
        () if spent && (fate == Fate::Good || !undone) => Fit::Spent,
        () => not(&format!("{fate:?} wish {:?}", of.wish.id())),
    }
}
