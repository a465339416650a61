//! What the rewritten templates ask.
//!
//! Filters and not functions: no variable of a template can stand in for a filter, and the engine finds them sooner.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, State};

use crate::pack::render::budget::{NODE, is_namespace, wrong};
use crate::pack::render::operators::{multiply, slice};
use crate::pack::render::scope::Scope;
use crate::pack::render::text;

macro_rules! add {
    ($engine:ident, $name:literal, |$b:ident $(, $arg:ident : $kind:ty)*| $body:expr) => {
        $engine.add_filter(
            concat!("__guard_", $name),
            |state: &mut State<'_, '_>, $($arg: $kind),*| -> Result<Value, Error> {
                let $b = Scope::budget(state)?;
                $body
            },
        );
    };
}

#[expect(clippy::too_many_lines, reason = "a table: the register of these filters")]
pub(in crate::pack::render) fn register(engine: &mut Environment<'static>) {
    add!(engine, "raw", |b, size: u64| {
        b.bytes(size)?;
        Ok(Value::from(""))
    });
    // Fuel starts anew in each `tpl`: what it used is paid here.
    engine.add_filter("__guard_end", |state: &mut State<'_, '_>, _nothing: &Value| -> Result<Value, Error> {
        let used = state.fuel_levels().map_or(0, |(consumed, _)| consumed);
        Scope::budget(state)?.steps(used)?;
        Ok(Value::from(""))
    });
    add!(engine, "each", |b, value: Value, body: u64| {
        b.defined(&value)?;
        let rounds = match (value.len(), value.kind()) {
            (Some(length), _) => length as u64,
            (None, ValueKind::Iterable) => {
                let kept = b.keep(value)?;
                b.bytes(body * kept.len().unwrap_or(0) as u64)?;
                return Ok(kept);
            }
            (None, _) => 0,
        };
        // The characters of a text have to be counted.
        b.steps(1 + rounds / 64)?;
        b.bytes(rounds.saturating_mul(body))?;
        Ok(value)
    });
    add!(engine, "hold", |b, value: Value| {
        if is_namespace(&value) {
            return Err(wrong("a namespace cannot be stored inside another value"));
        }
        b.keep(value)
    });
    add!(engine, "call", |b, value: Value| if is_namespace(&value) { Ok(value) } else { b.keep(value) });
    add!(engine, "look", |b, value: Value| {
        b.defined(&value)?;
        b.weigh(&value)?;
        Ok(value)
    });
    // The engine adds lists lazily and keeps such chains short; only texts are made at once.
    add!(engine, "sum", |b, value: Value| {
        match value.as_str() {
            Some(text) => b.string(text.len() as u64)?,
            None => {
                b.weigh(&value)?;
                b.bytes(NODE)?;
            }
        }
        Ok(value)
    });
    add!(engine, "cat", |b, first: &Value, others: &[Value]| {
        let all = || std::iter::once(first).chain(others);
        let room = all().map(|value| value.as_str().map_or(0, str::len)).sum();
        b.string(room as u64)?;
        let mut text = String::with_capacity(room);
        for value in all() {
            b.defined(value)?;
            let part = text::of(value, b)?;
            // Of what is no text, the size shows only now.
            if text.len() + part.len() > room {
                b.string((text.len() + part.len()) as u64)?;
            }
            text.push_str(&part);
        }
        Ok(Value::from(text))
    });
    add!(engine, "slice", |b, of: Value, from: Option<i64>, to: Option<i64>, step: Option<i64>| {
        b.defined(&of)?;
        slice(&of, from, to, step.unwrap_or(1), b)
    });
    add!(engine, "mul", |b, left: Value, right: Value| {
        for side in [&left, &right] {
            b.defined(side)?;
        }
        multiply(&left, &right, b)
    });
}
