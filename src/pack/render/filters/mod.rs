//! Filters on text and data, each bounded by the budget.
//!
//! The engine's own filters are registered a second time behind a wrapper that weighs what goes in
//! and what comes out; those whose output can be far larger than their input are written anew here.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::{ArgType, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters as builtin, tests};

use super::budget::{Budget, wrong};
use super::scope::Scope;
use super::text;

pub(super) use data::{from_json, from_yaml, items};
pub(super) use numbers::{to_float, to_int};
pub(super) use printf::printf;
pub(super) use texts::{quote, repeat};

pub(super) fn register(engine: &mut Environment<'static>) {
    register_builtin(engine);
    engine.add_filter("default", default);
    engine.add_filter("d", default);
    register_tests(engine);
    texts::register(engine);
    numbers::register(engine);
    patterns::register(engine);
    data::register(engine);
}

/// A filter of the engine behind a wrapper.
struct Wrapped {
    name: &'static str,
    filter: Value,
    /// How many bytes come out for each byte of a text that goes in; a text that is taken apart becomes one value for
    /// each character.
    growth: u64,
    /// It is there for values that may be missing.
    lenient: bool,
    /// It takes the text of any value; the engine's text of a boolean is another one than ours.
    text: bool,
}

macro_rules! bounded {
    ($engine:ident, $($name:literal => $function:path, $growth:literal;)*) => {$(
        let wrapped = Wrapped {
            name: $name,
            filter: Value::from_function($function),
            growth: $growth,
            lenient: $name == "bool",
            text: matches!(
                $name,
                "escape" | "e" | "lower" | "upper" | "title" | "capitalize" | "trim" | "split" | "lines" | "safe"
            ),
        };
        $engine.add_filter($name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            forward(state, &wrapped, args)
        });
    )*};
}

fn register_builtin(engine: &mut Environment<'static>) {
    bounded! { engine,
        "safe" => builtin::safe, 1; "escape" => builtin::escape, 6; "e" => builtin::escape, 6;
        "lower" => builtin::lower, 3; "upper" => builtin::upper, 3; "title" => builtin::title, 3;
        "capitalize" => builtin::capitalize, 3; "trim" => builtin::trim, 1; "reverse" => builtin::reverse, 1;
        "length" => builtin::length, 1; "count" => builtin::length, 1; "dictsort" => builtin::dictsort, 1;
        "items" => builtin::items, 1; "split" => builtin::split, 24; "lines" => builtin::lines, 24;
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
fn register_tests(engine: &mut Environment<'static>) {
    macro_rules! bounded_tests {
        ($($name:literal => $function:path;)*) => {$(
            let test = Value::from_function($function);
            engine.add_test($name, move |state: &mut State<'_, '_>, args: Rest<Value>| -> Result<bool, Error> {
                let budget = Scope::budget(state)?;
                for arg in args.iter() {
                    // These look into a text; the others only compare.
                    if matches!($name, "startingwith" | "endingwith" | "lower" | "upper") {
                        budget.defined(arg)?;
                    }
                    budget.weigh(arg)?;
                }
                Ok(test.call(state, &args)?.is_true())
            });
        )*};
    }
    // The engine's own panics for 0.
    engine.add_test(
        "divisibleby",
        |state: &mut State<'_, '_>, value: &Value, by: &Value| -> Result<bool, Error> {
            let budget = Scope::budget(state)?;
            budget.defined(value)?;
            budget.defined(by)?;
            match (i128::try_from(value.clone()), i128::try_from(by.clone())) {
                (Ok(value), Ok(by)) => {
                    let rest = value.checked_rem(by).ok_or_else(|| wrong("nothing is divisible by 0"))?;
                    Ok(rest == 0)
                }
                _ => Ok(tests::is_divisibleby(value, by)),
            }
        },
    );
    bounded_tests! {
        "eq" => tests::is_eq; "equalto" => tests::is_eq; "==" => tests::is_eq; "ne" => tests::is_ne;
        "!=" => tests::is_ne; "lt" => tests::is_lt; "lessthan" => tests::is_lt; "<" => tests::is_lt;
        "le" => tests::is_le; "<=" => tests::is_le; "gt" => tests::is_gt; "greaterthan" => tests::is_gt;
        ">" => tests::is_gt; "ge" => tests::is_ge; ">=" => tests::is_ge; "in" => tests::is_in;
        "sameas" => tests::is_sameas; "startingwith" => tests::is_startingwith;
        "endingwith" => tests::is_endingwith; "lower" => tests::is_lower; "upper" => tests::is_upper;
    }
}

/// The engine's own, which is behind the wrapper for no value that it makes: it passes one on. Packs call it for nearly every value.
fn default(state: &mut State<'_, '_>, value: Value, others: &[Value]) -> Result<Value, Error> {
    let budget = Scope::budget(state)?;
    budget.go_on()?;
    let (other, lax) = match others {
        [] => (None, false),
        [other] => (Some(other), false),
        [other, lax] => (Some(other), lax.is_true()),
        _ => return Err(Error::from(ErrorKind::TooManyArguments)),
    };
    if !value.is_undefined() && (!lax || value.is_true()) {
        return Ok(value);
    }
    Ok(other.cloned().unwrap_or_else(|| Value::from("")))
}

fn forward(state: &mut State<'_, '_>, wrapped: &Wrapped, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let Wrapped { name, filter, growth, lenient, text } = wrapped;
    let budget = Arc::clone(&Scope::of(state)?.budget);
    let mut args: Vec<Value> = args.0.into_iter().map(ValueOrKwargs::into_value).collect();
    if *text
        && let Some(first) = args.first_mut()
        && !matches!(first.kind(), ValueKind::String | ValueKind::Number | ValueKind::Undefined)
    {
        *first = Value::from(text::of(first, &budget)?.into_owned());
    }
    for (index, arg) in args.iter().enumerate() {
        if !lenient {
            budget.defined(arg)?;
        }
        let weight = budget.weigh(arg)?;
        // Sorting and grouping compare each item some times.
        budget.steps(weight.nodes * 8)?;
        if let Some(text) = arg.as_str()
            && *growth > 1
        {
            budget.bytes(text.len() as u64 * growth)?;
        }
        // Each character of the text is looked for in this one.
        if index > 0 && *name == "trim" && weight.bytes > 100 {
            return Err(wrong("more than 100 characters to trim"));
        }
        // Columns to fill.
        if index > 0
            && arg.as_usize().is_some_and(|number| number > 10_000)
            && matches!(*name, "batch" | "slice")
        {
            return Err(wrong("more than 10000 columns"));
        }
    }
    let value = filter.call(state, &args)?;
    budget.keep(value)
}

/// An argument of a filter or function as it comes.
pub(super) trait Input: Sized {
    /// What the filter works with.
    type Ready;

    /// Must be defined in a strict pack. All text is paid for; lists and maps are where they are read.
    fn ready(self, budget: &Budget) -> Result<Self::Ready, Error>;

    /// A value may be undefined: it is passed on, or only tested.
    fn passed(self, budget: &Budget) -> Result<Self::Ready, Error> {
        self.ready(budget)
    }
}

/// A text, or the text of any other value.
pub(super) struct Text<'a>(Cow<'a, Value>);

impl<'a> ArgType<'a> for Text<'_> {
    type Output = Text<'a>;

    fn from_value(value: Option<&'a Value>) -> Result<Text<'a>, Error> {
        value.map(|value| Text(Cow::Borrowed(value))).ok_or_else(|| Error::from(ErrorKind::MissingArgument))
    }

    fn from_value_owned(value: Value) -> Result<Text<'a>, Error> {
        Ok(Text(Cow::Owned(value)))
    }
}

impl<'a> Input for Text<'a> {
    type Ready = Cow<'a, str>;

    fn ready(self, budget: &Budget) -> Result<Cow<'a, str>, Error> {
        budget.defined(&self.0)?;
        let text = match self.0 {
            Cow::Borrowed(value) => text::of(value, budget)?,
            Cow::Owned(value) => Cow::Owned(text::of(&value, budget)?.into_owned()),
        };
        budget.steps(text.len() as u64 / 64)?;
        Ok(text)
    }
}

impl Input for Value {
    type Ready = Self;

    fn ready(self, budget: &Budget) -> Result<Self, Error> {
        budget.defined(&self)?;
        self.passed(budget)
    }

    fn passed(self, budget: &Budget) -> Result<Self, Error> {
        budget.steps(self.as_str().map_or(0, str::len) as u64 / 64)?;
        Ok(self)
    }
}

impl<'a> Input for &'a Value {
    type Ready = &'a Value;

    fn ready(self, budget: &Budget) -> Result<&'a Value, Error> {
        budget.defined(self)?;
        self.passed(budget)
    }

    fn passed(self, budget: &Budget) -> Result<&'a Value, Error> {
        budget.steps(self.as_str().map_or(0, str::len) as u64 / 64)?;
        Ok(self)
    }
}

impl Input for Rest<Value> {
    type Ready = Self;

    fn ready(self, budget: &Budget) -> Result<Self, Error> {
        self.0.iter().try_for_each(|value| budget.defined(value))?;
        Ok(self)
    }

    fn passed(self, _budget: &Budget) -> Result<Self, Error> {
        Ok(self)
    }
}

impl<T: Input> Input for Option<T> {
    type Ready = Option<T::Ready>;

    fn ready(self, budget: &Budget) -> Result<Self::Ready, Error> {
        self.map(|value| value.ready(budget)).transpose()
    }

    fn passed(self, budget: &Budget) -> Result<Self::Ready, Error> {
        self.map(|value| value.passed(budget)).transpose()
    }
}

macro_rules! as_it_is {
    ($($kind:ty),*) => {$(
        impl Input for $kind {
            type Ready = Self;

            fn ready(self, _budget: &Budget) -> Result<Self, Error> {
                Ok(self)
            }
        }
    )*};
}

as_it_is!(u64, usize, i64, i32, Rest<ValueOrKwargs>);

/// Adds a filter. In strict packs its input and arguments must be defined.
macro_rules! add {
    ($engine:ident, $name:literal, |$b:ident $(, $arg:ident : $kind:ty)*| $body:expr) => {
        add_as!($engine, $name, ready, |scope $(, $arg: $kind)*| {
            let $b = &*scope.budget;
            $body
        });
    };
}

/// Adds a filter that is there for undefined input.
macro_rules! add_lenient {
    ($engine:ident, $name:literal, |$b:ident $(, $arg:ident : $kind:ty)*| $body:expr) => {
        add_as!($engine, $name, passed, |scope $(, $arg: $kind)*| {
            let $b = &*scope.budget;
            $body
        });
    };
}

/// Adds a filter whose arguments are `ready` or only `passed`.
macro_rules! add_as {
    ($engine:ident, $name:literal, $prepare:ident, |$scope:ident $(, $arg:ident : $kind:ty)*| $body:expr) => {
        $engine.add_filter($name, |state: &mut State<'_, '_>, $($arg: $kind),*| -> Result<Value, Error> {
            let $scope = Scope::of(state)?;
            $scope.budget.steps(1)?;
            $(let $arg = $arg.$prepare(&$scope.budget)?;)*
            $scope.budget.keep(Value::from($body))
        });
    };
}

// After the macros, which they use.
mod data;
mod numbers;
mod patterns;
mod printf;
mod texts;
mod yaml;
