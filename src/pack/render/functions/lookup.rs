//! `lookup`.

use minijinja::value::Value;
use minijinja::{Environment, Error, State};

use crate::pack::render::budget::wrong;
use crate::pack::render::filters::{Input as _, Text};
use crate::pack::render::scope::Scope;

/// Bytes of an argument.
const ARGUMENT: usize = 512;

pub(super) fn register(engine: &mut Environment<'static>) {
    engine.add_function(
        "lookup",
        |state: &mut State<'_, '_>,
         api_version: Text<'_>,
         kind: Text<'_>,
         namespace: Option<Text<'_>>,
         name: Option<Text<'_>>|
         -> Result<Value, Error> {
            let Scope { budget, lookups, .. } = Scope::of(state)?;
            let argument = |text: Option<Text<'_>>| -> Result<String, Error> {
                let Some(text) = text else { return Ok(String::new()) };
                let text = text.ready(budget)?;
                if text.len() > ARGUMENT {
                    return Err(wrong(format!("lookup: an argument is longer than {ARGUMENT} bytes")));
                }
                Ok(text.trim().to_owned())
            };
            let key =
                [argument(Some(api_version))?, argument(Some(kind))?, argument(namespace)?, argument(name)?];
            if key[0].is_empty() || key[1].is_empty() {
                return Err(wrong("lookup needs an apiVersion and a kind"));
            }
            budget.steps(1000)?;
            lookups.find(key, budget)
        },
    );
}
