//! How values print.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, State, Value};

use super::budget::Budget;
use super::convert;

/// Prints values where templates have `{{ }}`.
///
/// Strings, numbers and booleans as they are; null and undefined (outside of strict mode) as nothing;
/// lists and maps as JSON, which YAML reads back as the same data.
pub(super) fn register_formatter(engine: &mut Environment<'static>, budget: &Arc<Budget>) {
    engine.add_filter(DEFINED, |_: Cow<'_, str>| true);
    let budget = Arc::clone(budget);
    engine.set_formatter(move |out, state, value| {
        if value.is_undefined() {
            return check_defined(state, value);
        }
        let text = of(value, &budget)?;
        budget.bytes(text.len() as u64)?;
        Ok(out.write_str(&text)?)
    });
}

/// The conversion of its argument fails for an undefined value exactly when strict mode says so, with the expression in the
/// error. No template can write this name.
const DEFINED: &str = "value is defined";

/// Fails for an undefined value when strict mode says so.
pub(super) fn check_defined(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if !value.is_undefined() {
        return Ok(());
    }
    state.apply_filter(DEFINED, std::slice::from_ref(value)).map(|_| ())
}

/// The text of a value, as it prints. Bounded.
pub(super) fn of<'v>(value: &'v Value, budget: &Budget) -> Result<Cow<'v, str>, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(match value.kind() {
        ValueKind::Undefined | ValueKind::None => String::new(),
        // The engine would print `True`.
        ValueKind::Bool => value.is_true().to_string(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => convert::to_json(value, budget)?.to_string(),
        _ => value.to_string(),
    }))
}

/// The text of a scalar, such as a key.
pub(super) fn plain(value: &Value) -> String {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => value.kind().to_string(),
        ValueKind::Undefined | ValueKind::None => String::new(),
        ValueKind::Bool => value.is_true().to_string(),
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}
