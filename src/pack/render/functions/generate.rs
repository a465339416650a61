//! `now`, `uuidv4` and `generate_secret`.

use minijinja::value::Value;
use minijinja::{Environment, Error};

use crate::pack::render::filters::{Input as _, Text};
use crate::pack::render::generate::LENGTH;
use crate::pack::render::scope::Scope;

pub(super) fn register(engine: &mut Environment<'static>) {
    engine.add_function("now", |state: &mut minijinja::State<'_, '_>| -> Result<String, Error> {
        Ok(Scope::of(state)?.generators.now.clone())
    });
    engine.add_function("uuidv4", |state: &mut minijinja::State<'_, '_>| -> Result<Value, Error> {
        let Scope { budget, generators, .. } = Scope::of(state)?;
        budget.steps(8)?;
        budget.keep(Value::from(generators.uuid()))
    });
    engine.add_function(
        "generate_secret",
        |state: &mut minijinja::State<'_, '_>,
         name: Text<'_>,
         length: i64,
         charset: Option<Text<'_>>|
         -> Result<Value, Error> {
            let Scope { budget, generators, .. } = Scope::of(state)?;
            let charset = charset.map(|charset| charset.ready(budget)).transpose()?;
            let name = name.ready(budget)?;
            budget.steps(8 + length.clamp(0, LENGTH).unsigned_abs() / 8)?;
            let charset = charset.as_deref().unwrap_or("alphanumeric");
            budget.keep(Value::from(generators.secret(&name, length, charset, budget)?))
        },
    );
}
