//! Operators of the engine, written anew with bounds.

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::budget::{Budget, NODE, wrong};
use super::filters::{items, repeat};

/// Python's slices of texts and lists; nothing of nothing.
pub(super) fn slice(
    of: &Value,
    from: Option<i64>,
    to: Option<i64>,
    step: i64,
    budget: &Budget,
) -> Result<Value, Error> {
    if step == 0 {
        return Err(wrong("a slice cannot have steps of 0"));
    }
    if let Some(text) = of.as_str() {
        budget.steps(text.len() as u64)?;
        // One character takes four bytes for a moment.
        budget.string(text.len() as u64)?;
        let chars: Vec<char> = text.chars().collect();
        return budget.keep(Value::from(
            positions(chars.len(), from, to, step).map(|at| chars[at]).collect::<String>(),
        ));
    }
    if of.is_undefined() || of.is_none() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if let (ValueKind::Seq, Some(length)) = (of.kind(), of.len()) {
        // Only what is asked for is looked at, and not into: it was weighed when the list was made.
        let found = positions(length, from, to, step).map(|at| {
            budget.bytes(NODE)?;
            of.get_item_by_index(at)
        });
        return Ok(Value::from(found.collect::<Result<Vec<_>, Error>>()?));
    }
    let items = items(of, budget)?;
    budget.keep(Value::from(
        positions(items.len(), from, to, step).map(|at| items[at].clone()).collect::<Vec<_>>(),
    ))
}

/// Positions of a slice, each below `length`.
fn positions(length: usize, from: Option<i64>, to: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let length = length as i128;
    let step = i128::from(step);
    // What the bounds may be: one before the first for a slice that runs backwards.
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |bound: Option<i64>, default: i128| {
        bound.map_or(default, |bound| {
            let bound = i128::from(bound);
            (if bound < 0 { bound + length } else { bound }).clamp(low, high)
        })
    };
    let (from, to) =
        if step > 0 { (bound(from, low), bound(to, high)) } else { (bound(from, high), bound(to, low)) };
    std::iter::successors(Some(from), move |at| Some(at + step))
        .take_while(move |at| if step > 0 { *at < to } else { *at > to })
        .map(|at| at as usize)
}

pub(super) fn multiply(a: &Value, b: &Value, budget: &Budget) -> Result<Value, Error> {
    if a.kind() == ValueKind::Number && b.kind() == ValueKind::Number {
        if a.is_integer() && b.is_integer() {
            let product = i128::try_from(a.clone())?.checked_mul(i128::try_from(b.clone())?);
            let product = product.ok_or_else(|| wrong("the product of two integers is too large"))?;
            return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
        }
        return Ok(Value::from(f64::try_from(a.clone())? * f64::try_from(b.clone())?));
    }
    for (many, count) in [(a, b), (b, a)] {
        let Some(count) = count.as_usize() else { continue };
        if let Some(text) = many.as_str() {
            return Ok(Value::from(repeat(text, count as u64, budget)?));
        }
        if matches!(many.kind(), ValueKind::Seq | ValueKind::Iterable) {
            let once = items(many, budget)?;
            budget.bytes((NODE * once.len() as u64).saturating_mul(count as u64))?;
            let total = once.len() * count;
            return budget.keep(Value::from(once.into_iter().cycle().take(total).collect::<Vec<_>>()));
        }
    }
    Err(wrong(format!("unable to multiply {} and {}", a.kind(), b.kind())))
}
