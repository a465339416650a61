//! Filters on text and data, each bounded by the budget.
//!
//! The engine's own filters are registered a second time behind a wrapper that weighs what goes in
//! and what comes out; those whose output can be far larger than their input are written anew here.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters as builtin, tests};

use super::budget::Budget;

pub(super) use data::{from_json, from_yaml, is_empty, items};
pub(super) use texts::{quote, repeat, to_float, to_int};

pub(super) fn wrong(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

pub(super) fn register(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    register_builtin(engine, budget);
    register_tests(engine, budget);
    texts::register(engine, budget);
    data::register(engine, budget);
}

/// Puts `$function` behind a wrapper. The inner name has a space: no template can write it.
macro_rules! bounded {
    ($engine:ident, $budget:ident, $($name:literal => $function:path, $growth:literal;)*) => {$(
        $engine.add_filter(concat!("builtin ", $name), $function);
        let budget = Arc::clone($budget);
        $engine.add_filter($name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            forward(state, &budget, concat!("builtin ", $name), $growth, args)
        });
    )*};
}

/// Growth: how many bytes come out for each byte of a text that goes in; a text that is taken apart
/// becomes one value for each character.
fn register_builtin(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    engine.remove_filter("pprint");
    bounded! { engine, budget,
        "safe" => builtin::safe, 1; "escape" => builtin::escape, 6; "e" => builtin::escape, 6;
        "lower" => builtin::lower, 3; "upper" => builtin::upper, 3; "title" => builtin::title, 3;
        "capitalize" => builtin::capitalize, 3; "trim" => builtin::trim, 1; "reverse" => builtin::reverse, 1;
        "length" => builtin::length, 1; "count" => builtin::length, 1; "dictsort" => builtin::dictsort, 1;
        "items" => builtin::items, 1; "split" => builtin::split, 24; "lines" => builtin::lines, 24;
        "default" => builtin::default, 1; "d" => builtin::default, 1; "round" => builtin::round, 1;
        "abs" => builtin::abs, 1; "attr" => builtin::attr, 1; "first" => builtin::first, 1;
        "last" => builtin::last, 1; "min" => builtin::min, 24; "max" => builtin::max, 24;
        "sort" => builtin::sort, 24; "list" => builtin::list, 24; "bool" => builtin::bool, 1;
        "batch" => builtin::batch, 24; "slice" => builtin::slice, 24; "sum" => builtin::sum, 24;
        "select" => builtin::select, 24; "reject" => builtin::reject, 24; "map" => builtin::map, 24;
        "selectattr" => builtin::selectattr, 1; "rejectattr" => builtin::rejectattr, 1;
        "groupby" => builtin::groupby, 24; "unique" => builtin::unique, 24; "chain" => builtin::chain, 24;
        "zip" => builtin::zip, 24;
    }
}

/// The tests of the engine that read all of their arguments.
fn register_tests(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    macro_rules! bounded_tests {
        ($($name:literal => $function:path;)*) => {$(
            engine.add_test(concat!("builtin ", $name), $function);
            let own = Arc::clone(budget);
            engine.add_test($name, move |state: &mut State<'_, '_>, args: Rest<Value>| -> Result<bool, Error> {
                for arg in args.iter() {
                    own.weigh(arg)?;
                }
                state.perform_test(concat!("builtin ", $name), &args)
            });
        )*};
    }
    bounded_tests! {
        "eq" => tests::is_eq; "equalto" => tests::is_eq; "==" => tests::is_eq; "ne" => tests::is_ne;
        "!=" => tests::is_ne; "lt" => tests::is_lt; "lessthan" => tests::is_lt; "<" => tests::is_lt;
        "le" => tests::is_le; "<=" => tests::is_le; "gt" => tests::is_gt; "greaterthan" => tests::is_gt;
        ">" => tests::is_gt; "ge" => tests::is_ge; ">=" => tests::is_ge; "in" => tests::is_in;
        "sameas" => tests::is_sameas; "startingwith" => tests::is_startingwith;
        "endingwith" => tests::is_endingwith; "lower" => tests::is_lower; "upper" => tests::is_upper;
    }
}

fn forward(
    state: &mut State<'_, '_>,
    budget: &Budget,
    name: &str,
    growth: u64,
    args: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let args: Vec<Value> = args.0.into_iter().map(ValueOrKwargs::into_value).collect();
    for (index, arg) in args.iter().enumerate() {
        let weight = budget.weigh(arg)?;
        // Sorting and grouping compare each item some times.
        budget.steps(weight.nodes * 8)?;
        if let Some(text) = arg.as_str()
            && growth > 1
        {
            budget.bytes(text.len() as u64 * growth)?;
        }
        // Each character of the text is looked for in this one.
        if index > 0 && name == "builtin trim" && weight.bytes > 100 {
            return Err(wrong("more than 100 characters to trim"));
        }
        // Columns to fill.
        if index > 0
            && arg.as_usize().is_some_and(|number| number > 10_000)
            && matches!(name, "builtin batch" | "builtin slice")
        {
            return Err(wrong("more than 10000 columns"));
        }
    }
    let value = state.apply_filter(name, &args)?;
    budget.keep(value)
}

/// What a filter is applied to, and its arguments.
trait Input {
    /// The value when it is undefined: strings and numbers have failed their conversion before.
    fn undefined(&self) -> Option<&Value> {
        None
    }

    /// Bytes of a text. Lists and maps are weighed where they are read.
    fn length(&self) -> usize {
        0
    }
}

impl Input for f64 {}

impl Input for u64 {}

impl Input for usize {}

impl<T: Input> Input for Option<T> {
    fn length(&self) -> usize {
        self.as_ref().map_or(0, T::length)
    }
}

/// Paid for where they are read.
impl Input for Rest<Value> {}

impl Input for Cow<'_, str> {
    fn length(&self) -> usize {
        self.len()
    }
}

impl Input for Value {
    fn undefined(&self) -> Option<&Value> {
        self.is_undefined().then_some(self)
    }

    fn length(&self) -> usize {
        self.as_str().map_or(0, str::len)
    }
}

/// Adds a filter whose input must be defined in strict mode. All of its texts are paid for.
macro_rules! add {
    ($engine:ident, $budget:ident, $name:literal, |$b:ident, $input:ident : $input_kind:ty $(, $arg:ident : $kind:ty)*| $body:expr) => {
        let $b = Arc::clone($budget);
        $engine.add_filter($name, move |state: &mut State<'_, '_>, $input: $input_kind $(, $arg: $kind)*| -> Result<Value, Error> {
            if let Some(value) = $input.undefined() {
                text::check_defined(state, value)?;
            }
            $b.steps(1 + ($input.length() $(+ $arg.length())*) as u64 / 64)?;
            $b.keep(Value::from($body))
        });
    };
}

/// Adds a filter that is there for undefined input.
macro_rules! add_lenient {
    ($engine:ident, $budget:ident, $name:literal, |$b:ident $(, $arg:ident : $kind:ty)*| $body:expr) => {
        let $b = Arc::clone($budget);
        $engine.add_filter($name, move |$($arg: $kind),*| -> Result<Value, Error> {
            $b.keep(Value::from($body))
        });
    };
}

// After the macros, which they use.
mod data;
mod texts;
