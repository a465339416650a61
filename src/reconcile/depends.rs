//! What a release has to wait for because of other releases: its dependencies, or on deletion its dependents.

use super::{Context, Pass, Progress};
use crate::api::{Invalid, Settings, reasons};
use crate::release::ReleaseKey;
use crate::release::dependents::{self, Turn};
use crate::release::depends::{self, Blocked};

/// A circle of more releases than these is not written out.
const PATH_MAX: usize = 8;

impl Context {
    /// A release that waits for itself by way of others is refused, whatever else it asks for.
    pub(super) fn cycle(&self, key: &ReleaseKey, settings: &Settings) -> Option<Invalid> {
        if settings.depends_on.is_empty() {
            return None;
        }
        let path = self.dependencies.cycle(key)?;
        let mut shown: Vec<String> = path.iter().take(PATH_MAX).map(ToString::to_string).collect();
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

impl Pass<'_> {
    /// What stands in the way of an install or upgrade. The release is woken when that changes.
    pub(super) fn blocked(&self) -> Option<Blocked> {
        let depends_on = depends::keys(&self.settings.depends_on);
        self.ctx.dependencies.blocked(&self.key, &depends_on)
    }

    /// Whether releases that depend on this one, and are being deleted too, go first.
    pub(super) fn await_dependents(&mut self) -> Option<Progress> {
        let dependents = self.ctx.dependencies.dependents(&self.key);
        let before = self.mem.awaited.take();
        let waited = before.is_some();
        match dependents::turn(before, dependents, self.settings.uninstall.timeout, self.now) {
            Turn::Wait { awaited, until } => {
                self.ctx.dependencies.awaits(&self.key, Some(until));
                self.mem.awaited = Some(awaited.clone());
                return Some(Progress::Dependents { awaited, until });
            }
            Turn::Late(releases) => {
                let names: Vec<String> = releases.iter().map(ToString::to_string).collect();
                let note = format!(
                    "releases that depend on this one are still being deleted, and it does not wait for them any \
                     longer: {}",
                    names.join(", ")
                );
                let reason = reasons::WAITING_FOR_DEPENDENTS;
                self.ctx.report.event(self.release, true, reason, "Uninstall", note);
            }
            Turn::Now => {}
        }
        if waited {
            self.ctx.dependencies.awaits(&self.key, None);
        }
        None
    }
}
