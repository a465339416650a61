//! What filters and functions find of the render that calls them.
//!
//! They are registered once for all renders; the purse and everything else that belongs to one render of one pack is
//! with the engine of that render.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{Environment, Error, ErrorKind, State};
use regex::Regex;

use super::budget::Budget;
use super::generate::Generators;
use super::lookup::Lookups;

/// The name of the global that holds the scope. No expression can name it, no variable can hide it, and it is the first
/// of all.
const NAME: &str = "";

/// One render of one pack.
pub(super) struct Scope {
    pub(super) budget: Arc<Budget>,
    pub(super) generators: Arc<Generators>,
    pub(super) lookups: Arc<Lookups>,
    /// Patterns of one render, compiled.
    pub(super) patterns: Mutex<HashMap<String, Regex>>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope")
    }
}

impl Object for Scope {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl Scope {
    /// Makes it the scope of all that this engine renders.
    pub(super) fn enter(self, engine: &mut Environment<'static>) {
        engine.add_global(NAME, Value::from_object(self));
    }

    /// The scope of a template that runs.
    pub(super) fn of<'s>(state: &'s mut State<'_, '_>) -> Result<&'s Self, Error> {
        // Where it is found sooner the next time.
        if state.get_extension::<Arc<Self>>().is_none() {
            let first = state.env().globals().next().map(|(_, value)| value);
            if let Some(found) = first.and_then(|value| value.downcast_object::<Self>()) {
                state.get_or_insert_extension(found);
            }
        }
        let missing = || Error::new(ErrorKind::InvalidOperation, "this template is outside of a render");
        state.get_extension::<Arc<Self>>().map(|scope| &**scope).ok_or_else(missing)
    }

    /// The purse of a template that runs.
    pub(super) fn budget<'s>(state: &'s mut State<'_, '_>) -> Result<&'s Budget, Error> {
        Self::of(state).map(|scope| &*scope.budget)
    }
}
