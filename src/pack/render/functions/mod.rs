//! Global functions.

mod generate;
mod lookup;

use std::sync::Arc;

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use super::budget::{Budget, NODE, wrong};
use super::error::explain::{innermost, message};
use super::filters::{Input as _, Text, from_json, from_yaml, items, printf, to_float, to_int};
use super::scope::Scope;
use super::{guard, text};

macro_rules! add {
    ($engine:ident, $name:literal, |$b:ident $(, $arg:ident : $kind:ty)*| $body:expr) => {
        $engine.add_function($name, |state: &mut State<'_, '_>, $($arg: $kind),*| -> Result<Value, Error> {
            let $b = Scope::budget(state)?;
            $(let $arg = $arg.passed($b)?;)*
            let value: Value = Value::from($body);
            $b.keep(value)
        });
    };
}

#[expect(clippy::too_many_lines, reason = "a table: the register of these functions")]
pub(super) fn register(engine: &mut Environment<'static>) {
    generate::register(engine);
    lookup::register(engine);
    engine.add_function("fail", |state: &mut State<'_, '_>, message: Text<'_>| -> Result<Value, Error> {
        Err(wrong(message.ready(Scope::budget(state)?)?.into_owned()))
    });
    add!(engine, "dict", |b, args: Rest<ValueOrKwargs>| dict(args, b)?);
    add!(engine, "list", |b, args: Rest<Value>| spread(&args, b)?);
    add!(engine, "get", |b, of: &Value, key: &Value, default: Option<Value>| {
        b.weigh(key)?;
        found(of, key).unwrap_or_else(|| default.unwrap_or_default())
    });
    add!(engine, "set", |b, of: &Value, key: Text<'_>, value: Value| {
        let mut pairs = pairs(of, b)?;
        pairs.retain(|(name, _)| name.as_str() != Some(&key));
        pairs.push((Value::from(key.into_owned()), value));
        Value::from_pairs(pairs)
    });
    add!(engine, "unset", |b, of: &Value, key: Text<'_>| {
        let pairs = pairs(of, b)?;
        Value::from_pairs(pairs.into_iter().filter(|(name, _)| name.as_str() != Some(&key)))
    });
    add!(engine, "dig", |b, of: &Value, path: Rest<Value>| {
        for key in path.iter() {
            b.weigh(key)?;
        }
        let Some((default, keys)) = path.split_last() else {
            return Err(wrong("dig needs at least one key and a default"));
        };
        let end = keys.iter().try_fold(of.clone(), |at, key| found(&at, key));
        end.unwrap_or_else(|| default.clone())
    });
    add!(engine, "coalesce", |b, args: Rest<Value>| {
        let missing = |value: &Value| value.is_undefined() || value.is_none() || value.as_str() == Some("");
        spread(&args, b)?.into_iter().find(|value| !missing(value)).unwrap_or_default()
    });
    add!(engine, "ternary", |_b, yes: Value, no: Value, condition: &Value| if condition.is_true() {
        yes
    } else {
        no
    });
    add!(engine, "tostring", |_b, v: Text<'_>| v.into_owned());
    add!(engine, "toint", |b, v: &Value| {
        b.defined(v)?;
        to_int(v)?
    });
    add!(engine, "tofloat", |b, v: &Value| {
        b.defined(v)?;
        to_float(v)?
    });
    add!(engine, "fromyaml", |b, v: Text<'_>| from_yaml(&v, b)?);
    add!(engine, "fromjson", |b, v: Text<'_>| from_json(&v, b)?);
    add!(engine, "printf", |b, format: Text<'_>, args: Rest<Value>| printf(
        &format,
        &spread(&args, b)?,
        false,
        b
    )?);
    add!(engine, "debug", |b, args: Rest<Value>| match &args[..] {
        [one] => text::pretty(one, b)?,
        several => text::pretty(&Value::from(several.to_vec()), b)?,
    });
    engine.add_function(
        "namespace",
        |state: &mut State<'_, '_>, defaults: Option<ValueOrKwargs>| -> Result<Value, Error> {
            let budget = Scope::budget(state)?;
            let defaults = defaults.map(|value| budget.weigh(&value.clone().into_value()).map(|_| value));
            minijinja::functions::namespace(defaults.transpose()?)
        },
    );
    register_tpl(engine);
}

/// `tpl(text)` sees what every template sees, `tpl(text, map)` the fields of the map before that.
fn register_tpl(engine: &mut Environment<'static>) {
    for name in ["tpl", "tpl_ctx"] {
        engine.add_function(
            name,
            move |state: &mut State<'_, '_>,
                  source: Text<'_>,
                  context: Option<Value>|
                  -> Result<Value, Error> {
                let budget = Arc::clone(&Scope::of(state)?.budget);
                let source = source.ready(&budget)?;
                budget.steps(1 + source.len() as u64 / 64)?;
                budget.string(source.len() as u64)?;
                if !source.contains("{{") && !source.contains("{%") {
                    return Ok(Value::from(source.into_owned()));
                }
                budget.enter_tpl()?;
                let result = render_text(state, name, &source, context, &budget);
                budget.leave_tpl();
                budget.keep(Value::from(result?))
            },
        );
    }
}

fn render_text(
    state: &State<'_, '_>,
    function: &str,
    source: &str,
    context: Option<Value>,
    budget: &Budget,
) -> Result<String, Error> {
    budget.string(source.len() as u64)?;
    // Compiling is work too, and starts anew each time.
    budget.steps(1000 + source.len() as u64)?;
    let refused = |line: Option<usize>, message: &str| {
        // The text may be a secret value, so only its line is told; once, however deep the texts are in each other.
        if message.starts_with(IN_TEXT) {
            return wrong(message.to_owned());
        }
        wrong(format!("{IN_TEXT}{function}`, line {}: {message}", line.unwrap_or(1)))
    };
    let guarded = guard::instrument("tpl", source, true, budget).map_err(|error| match error {
        guard::Refused::Engine(error) => refused(error.line(), &message(&error)),
        guard::Refused::Here { line, why } => refused(Some(line), why),
    })?;
    let rendered = state.env().render_named_str("tpl", &guarded.source, context.unwrap_or_default());
    rendered.map_err(|error| {
        let inner = innermost(&error);
        if inner.kind() == ErrorKind::OutOfFuel || message(inner).contains("recursion limit") {
            return budget.over(message(inner));
        }
        // One that happened in a file is told with its place there.
        if inner.name().is_some_and(|name| name != "tpl") {
            return error;
        }
        refused(inner.line(), &message(inner))
    })
}

/// How every error of a text given to `tpl` begins.
const IN_TEXT: &str = "in the text given to `";

/// The arguments, or the items of the only argument when that is a list: both call forms.
fn spread(args: &[Value], budget: &Budget) -> Result<Vec<Value>, Error> {
    match args {
        [list] if matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) => items(list, budget),
        _ => Ok(args.to_vec()),
    }
}

fn found(of: &Value, key: &Value) -> Option<Value> {
    if of.is_undefined() || of.is_none() {
        return None;
    }
    of.get_item(key).ok().filter(|value| !value.is_undefined())
}

fn pairs(of: &Value, budget: &Budget) -> Result<Vec<(Value, Value)>, Error> {
    if of.kind() != ValueKind::Map {
        return Err(wrong(format!("a map is needed, not a {}", of.kind())));
    }
    let mut pairs = Vec::new();
    for key in of.try_iter()? {
        budget.bytes(NODE)?;
        let value = of.get_item(&key)?;
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// `dict("a", 1, "b", 2)`, `dict(["a", 1])`, `dict(a=1)` and `dict({"a": 1}, b=2)`.
fn dict(args: Rest<ValueOrKwargs>, budget: &Budget) -> Result<Value, Error> {
    let mut all = Vec::new();
    let mut flat = Vec::new();
    for arg in args.0 {
        let value = arg.into_value();
        match value.kind() {
            ValueKind::Map if flat.len() % 2 == 0 => all.extend(pairs(&value, budget)?),
            ValueKind::Seq | ValueKind::Iterable if flat.is_empty() => flat.extend(items(&value, budget)?),
            _ => flat.push(value),
        }
    }
    if flat.len() % 2 != 0 {
        return Err(wrong("dict needs a value for each key"));
    }
    for pair in flat.chunks_exact(2) {
        if pair[0].as_str().is_none() {
            return Err(wrong(format!("a key of a dict is text, not a {}", pair[0].kind())));
        }
        all.push((pair[0].clone(), pair[1].clone()));
    }
    Ok(Value::from_pairs(all))
}
