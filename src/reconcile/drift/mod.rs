//! Puts back what others changed.

pub(super) mod external;
mod notes;
pub(super) mod revert;

use super::context::Scope;
use super::objects::{Deployed, Objects};
use super::state::Expectations;
use super::state::drift::DriftMemory;

/// Puts back what others changed of what is deployed.
pub(in crate::reconcile) struct Drift<'a> {
    pub deployed: Deployed<'a>,
    pub memory: &'a mut DriftMemory,
    pub expectations: &'a mut Expectations,
}

/// Remembers what was found to differ and what was done about it.
struct Notes<'a> {
    scope: Scope<'a>,
    memory: &'a mut DriftMemory,
}

impl<'a> Drift<'a> {
    fn scope(&self) -> Scope<'a> {
        self.deployed.records.scope
    }

    fn live(&self) -> Objects<'a> {
        Objects { scope: self.scope() }
    }

    fn notes(&mut self) -> Notes<'_> {
        Notes { scope: self.scope(), memory: self.memory }
    }
}
