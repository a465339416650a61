//! What a release has to wait for because of other releases: its dependencies, or on deletion its dependents.

use crate::api::{Invalid, Settings, names, reasons};
use crate::plan::rights::Right;
use crate::reconcile::access::preflight::right;
use crate::reconcile::context::Scope;
use crate::reconcile::context::name_claims::stays_within;
use crate::reconcile::observe::Observe;
use crate::reconcile::{Context, Error, Progress};
use crate::release::ReleaseKey;
use crate::release::decide::{self, Observation};
use crate::release::dependents::{self, Awaited, Turn};
use crate::release::depends::{Blocked, Unready, keys};

/// A circle of more releases than these is not written out.
const PATH_MAX: usize = 8;

impl Context {
    /// A release that waits for itself by way of others is refused, whatever else it asks for.
    pub(in crate::reconcile) fn cycle(&self, key: &ReleaseKey, settings: &Settings) -> Option<Invalid> {
        if settings.depends_on.is_empty() {
            return None;
        }
        let path = self.dependencies.cycle(key)?;
        let within = stays_within(settings, key);
        let mut shown: Vec<String> = path.iter().take(PATH_MAX).map(|one| named(one, within)).collect();
        // Several in a row that may not be named say no more than one.
        shown.dedup();
        if path.len() > PATH_MAX {
            shown.push(format!("… ({} more) -> {key}", path.len() - PATH_MAX - 1));
        }
        let message = format!(
            "these releases wait for each other: {}; remove one of the dependencies",
            shown.join(" -> ")
        );
        let field = "spec.dependsOn".to_owned();
        Some(Invalid { reason: reasons::DEPENDENCY_CYCLE, field, message })
    }
}

fn named(release: &ReleaseKey, within: Option<&str>) -> String {
    match within {
        Some(within) if release.namespace != within => "a release in another namespace".to_owned(),
        _ => release.to_string(),
    }
}

impl Observe<'_> {
    /// Hides the dependencies in other namespaces from a release whose account may not get them, and gives what the account
    /// lacks: whether such a release exists and is Ready is not for it. Asks only where that counts.
    pub(in crate::reconcile) async fn dependencies(&self, seen: &mut Observation) -> Option<Error> {
        let account = self.records.scope.cluster.account()?;
        let elsewhere = self
            .records
            .scope
            .settings
            .depends_on
            .iter()
            .filter(|on| on.namespace != self.records.scope.key.namespace);
        let needed: Vec<Right> = elsewhere
            .map(|on| right("get", names::GROUP, "sherpackreleases", Some(&on.namespace), &on.name))
            .collect();
        let first = keys(&self.records.scope.settings.depends_on)
            .into_iter()
            .find(|on| on.namespace != self.records.scope.key.namespace)?;
        if !decide::asks_for_dependencies(seen) {
            return None;
        }
        let error = match self.records.scope.ctx.rights.missing(self.records.scope.cluster, needed).await {
            Ok(missing) if missing.is_empty() => return None,
            Ok(missing) => Error::RightsMissing { account: account.clone(), missing: missing.to_string() },
            Err(error) => error.into(),
        };
        seen.dependency = Some(Blocked { by: first, why: Unready::Hidden, others: 0 });
        Some(error)
    }

    /// What stands in the way of an install or upgrade. The release is woken when that changes.
    pub(super) fn blocked(&self) -> Option<Blocked> {
        let depends_on = keys(&self.records.scope.settings.depends_on);
        self.records.scope.ctx.dependencies.blocked(self.records.scope.key, &depends_on)
    }
}

/// The wait of a release that is being deleted for those that depend on it.
pub(in crate::reconcile) struct Dependents<'a> {
    pub scope: Scope<'a>,
    /// For which it waited in the last pass.
    pub awaited: &'a mut Option<Awaited>,
}

impl Dependents<'_> {
    /// Whether releases that depend on this one, and are being deleted too, go first.
    pub(in crate::reconcile) fn await_them(&mut self) -> Option<Progress> {
        let dependents = self.scope.ctx.dependencies.dependents(self.scope.key);
        let before = self.awaited.take();
        let waited = before.is_some();
        match dependents::turn(before, dependents, self.scope.settings.uninstall.timeout, self.scope.now) {
            Turn::Wait { awaited, until } => {
                self.scope.ctx.dependencies.awaits(self.scope.key, Some(until));
                *self.awaited = Some(awaited.clone());
                let within = stays_within(self.scope.settings, self.scope.key);
                let may_name =
                    |release: &&ReleaseKey| within.is_none_or(|within| release.namespace == within);
                let named = awaited.releases().map(|one| Some(one).filter(may_name).cloned()).collect();
                return Some(Progress::Dependents { awaited, named, until });
            }
            Turn::Late(releases) => {
                let within = stays_within(self.scope.settings, self.scope.key);
                let mut names: Vec<String> = releases.iter().map(|release| named(release, within)).collect();
                names.sort();
                names.dedup();
                let note = format!(
                    "releases that depend on this one are still being deleted, and it does not wait for them any \
                     longer: {}",
                    names.join(", ")
                );
                let reason = reasons::WAITING_FOR_DEPENDENTS;
                self.scope.ctx.report.event(self.scope.release, true, reason, "Uninstall", note);
            }
            Turn::Now => {}
        }
        if waited {
            self.scope.ctx.dependencies.awaits(self.scope.key, None);
        }
        None
    }
}
