//! What one render may cost, counted while it runs.
//!
//! Fuel bounds how many instructions run; this bounds what single instructions make: text, data and
//! work. `guard` sees to it that every instruction that can make something large asks here.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};

/// Instructions of all templates of one pack together.
pub(super) const FUEL: u64 = 2_000_000;
/// Source of all templates of one pack.
pub(super) const SOURCES: u64 = 4 << 20;
/// Rendered text of one template.
pub(super) const FILE: u64 = 8 << 20;
/// Rendered text of all templates.
pub(super) const TOTAL: u64 = 16 << 20;
/// Bytes of one string or of all strings of one value.
pub(super) const VALUE: u64 = 16 << 20;
/// Scalars and containers of one value, counted as often as they would be printed.
const NODES: u64 = 500_000;
/// Nesting of one value. The native stack of the render thread bears far more.
pub(super) const DEPTH: usize = 100;
/// Bytes of all text and data made on the way: what bounds the memory of a render.
const BYTES: u64 = 128 << 20;
/// Values looked at in all filters, functions and guarded operators: what bounds their time.
const STEPS: u64 = 20_000_000;
/// What a value costs beside its text.
pub(super) const NODE: u64 = 64;
/// What a token of a template costs when it is parsed and compiled.
const TOKEN: u64 = 192;
/// Templates inside templates.
const TPL_DEPTH: u32 = 10;

/// An engine that is strict: the conversion of the argument fails for an undefined value.
static CHECK: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    engine.add_filter("defined", |_: Cow<'_, str>| true);
    engine
});

/// Asks a render to end. The caller that waits for one knows what time it is; a render itself does not.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The render ends with an error at the next thing that it has to pay for.
    pub fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is left to one pack. All packs of one render pay out of the same purse.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    purse: Arc<Purse>,
    strict: bool,
}

#[derive(Debug)]
struct Purse {
    fuel: AtomicU64,
    sources: AtomicU64,
    output: AtomicU64,
    bytes: AtomicU64,
    steps: AtomicU64,
    tpl: AtomicU32,
    exceeded: AtomicBool,
    stop: Stop,
}

/// Size of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) nodes: u64,
    pub(super) bytes: u64,
    pub(super) depth: u64,
}

impl Budget {
    pub(super) fn new(stop: &Stop) -> Self {
        let purse = Purse {
            fuel: AtomicU64::new(FUEL),
            sources: AtomicU64::new(SOURCES),
            output: AtomicU64::new(TOTAL),
            bytes: AtomicU64::new(BYTES),
            steps: AtomicU64::new(STEPS),
            tpl: AtomicU32::new(0),
            exceeded: AtomicBool::new(false),
            stop: stop.clone(),
        };
        Self { purse: Arc::new(purse), strict: true }
    }

    /// The same purse for one pack.
    pub(super) fn of_pack(&self, strict: bool) -> Self {
        Self { purse: Arc::clone(&self.purse), strict }
    }

    /// Accepts every value but, in a strict pack, an undefined one.
    pub(super) fn defined(&self, value: &Value) -> Result<(), Error> {
        if !self.strict || !value.is_undefined() {
            return Ok(());
        }
        // The engine's own error for this knows the expression that gave the value, and that an `if` without `else` may
        // give nothing.
        CHECK.empty_state().apply_filter("defined", std::slice::from_ref(value)).map(drop)
    }

    /// Whether the render failed because of a limit and not because of a mistake.
    pub(super) fn exceeded(&self) -> bool {
        self.purse.exceeded.load(Ordering::Relaxed)
    }

    pub(super) fn over(&self, message: String) -> Error {
        self.purse.exceeded.store(true, Ordering::Relaxed);
        Error::new(ErrorKind::InvalidOperation, message)
    }

    /// Instructions that are left.
    pub(super) fn fuel(&self) -> u64 {
        self.purse.fuel.load(Ordering::Relaxed)
    }

    pub(super) fn set_fuel(&self, left: u64) {
        self.purse.fuel.store(left, Ordering::Relaxed);
    }

    /// Bytes of output that are left to one more template.
    pub(super) fn output(&self) -> u64 {
        self.purse.output.load(Ordering::Relaxed).min(FILE)
    }

    /// Pays for output that was made.
    pub(super) fn pay_output(&self, count: u64) {
        // Never more than was left.
        let _ = take(&self.purse.output, count);
    }

    /// Pays for the source of one template.
    pub(super) fn source(&self, count: u64) -> Option<()> {
        take(&self.purse.sources, count)
    }

    /// Pays for text or data that is about to be made.
    pub(super) fn bytes(&self, count: u64) -> Result<(), Error> {
        self.go_on()?;
        take(&self.purse.bytes, count).ok_or_else(|| {
            self.over(format!("the templates make more than {} MiB of text and data on the way", BYTES >> 20))
        })
    }

    /// Bytes that were paid so far.
    pub(super) fn spent(&self) -> u64 {
        BYTES - self.purse.bytes.load(Ordering::Relaxed)
    }

    /// Pays for work.
    pub(super) fn steps(&self, count: u64) -> Result<(), Error> {
        self.go_on()?;
        take(&self.purse.steps, count)
            .ok_or_else(|| self.over("the templates work through too much data".to_owned()))
    }

    /// Pays for one token of source.
    pub(super) fn token(&self) -> Result<(), Error> {
        self.go_on()?;
        take(&self.purse.bytes, TOKEN)
            .ok_or_else(|| self.over("the templates have too many tags and expressions".to_owned()))
    }

    pub(super) fn go_on(&self) -> Result<(), Error> {
        if self.purse.stop.0.load(Ordering::Relaxed) {
            return Err(self.over("it takes too long".to_owned()));
        }
        Ok(())
    }

    /// Refuses a string of this size before it is made, and pays for it.
    pub(super) fn string(&self, length: u64) -> Result<(), Error> {
        if length > VALUE {
            return Err(self.over(format!("a text would be larger than {} MiB", VALUE >> 20)));
        }
        self.bytes(length)
    }

    /// Enters a template inside a template.
    pub(super) fn enter_tpl(&self) -> Result<(), Error> {
        if self.purse.tpl.fetch_add(1, Ordering::Relaxed) >= TPL_DEPTH {
            return Err(self.over(format!("`tpl` calls itself more than {TPL_DEPTH} levels deep")));
        }
        Ok(())
    }

    /// Leaves it again.
    pub(super) fn leave_tpl(&self) {
        self.purse.tpl.fetch_sub(1, Ordering::Relaxed);
    }

    /// Walks through a value and pays for the way.
    ///
    /// Fails for a value that is too large or too deep, and for a namespace inside another value: a
    /// namespace can change later, and could even contain itself.
    pub(super) fn weigh(&self, value: &Value) -> Result<Weight, Error> {
        let mut weight = Weight::default();
        self.walk(value, 0, &mut weight)?;
        Ok(weight)
    }

    fn walk(&self, value: &Value, depth: usize, weight: &mut Weight) -> Result<(), Error> {
        weight.nodes += 1;
        weight.depth = weight.depth.max(depth as u64);
        let bytes = value.as_str().map_or(0, str::len) as u64;
        weight.bytes += bytes;
        self.steps(1 + bytes / 64)?;
        if weight.nodes > NODES || weight.bytes > VALUE {
            return Err(self.over(format!("a value is larger than {} MiB or {NODES} items", VALUE >> 20)));
        }
        if depth > DEPTH {
            return Err(self.over(format!("a value is nested more than {DEPTH} levels deep")));
        }
        if depth > 0 && is_namespace(value) {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "a namespace cannot be stored inside another value",
            ));
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.walk(&item, depth + 1, weight)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    let bytes = key.as_str().map_or(8, str::len) as u64;
                    weight.bytes += bytes;
                    self.steps(bytes / 64)?;
                    self.walk(&value.get_item(&key)?, depth + 1, weight)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Accepts the result of an operation: bounded, paid for, and no longer lazy.
    ///
    /// A lazy sequence would keep its source and grow into a chain as deep as a loop is long.
    pub(super) fn keep(&self, value: Value) -> Result<Value, Error> {
        self.go_on()?;
        if let Some(text) = value.as_str() {
            self.string(text.len() as u64)?;
            return Ok(value);
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Map => {
                self.weigh(&value)?;
                self.bytes(NODE * value.len().unwrap_or(1) as u64)?;
                Ok(value)
            }
            ValueKind::Iterable => {
                let mut items = Vec::new();
                for item in value.try_iter()? {
                    self.bytes(NODE)?;
                    items.push(item);
                }
                let value = Value::from(items);
                self.weigh(&value)?;
                Ok(value)
            }
            _ => Ok(value),
        }
    }
}

/// A render runs on one thread: no exchange comes between the two halves, which take a tenth of the time of an exchange.
fn take(counter: &AtomicU64, count: u64) -> Option<()> {
    let left = counter.load(Ordering::Relaxed).checked_sub(count)?;
    counter.store(left, Ordering::Relaxed);
    Some(())
}

/// Whether this is an object of `namespace()`. The engine keeps its type private.
pub(super) fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

/// An error of a template: what it asks for cannot be.
pub(super) fn wrong(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_value_counts_as_often_as_it_would_be_printed() {
        let mut value = Value::from(vec![1]);
        for _ in 0..64 {
            value = Value::from(vec![value.clone(), value]);
        }
        let budget = Budget::new(&Stop::default());
        assert!(budget.weigh(&value).is_err());
        assert!(budget.exceeded());
    }

    #[test]
    fn a_deep_value_is_refused() {
        let mut value = Value::from(1);
        for _ in 0..DEPTH {
            value = Value::from(vec![value]);
        }
        assert!(Budget::new(&Stop::default()).weigh(&value).is_ok());
        assert!(Budget::new(&Stop::default()).weigh(&Value::from(vec![value])).is_err());
    }

    #[test]
    fn what_is_paid_is_gone() {
        let budget = Budget::new(&Stop::default());
        budget.bytes(BYTES).unwrap();
        assert!(budget.bytes(1).is_err());
        assert!(Budget::new(&Stop::default()).string(VALUE + 1).is_err());
    }

    #[test]
    fn a_render_that_is_asked_to_stop_gets_nothing_more() {
        let stop = Stop::default();
        let budget = Budget::new(&stop);
        assert!(budget.steps(1).is_ok() && budget.bytes(1).is_ok() && budget.token().is_ok());
        stop.now();
        assert!(budget.steps(0).is_err() && budget.bytes(0).is_err() && budget.token().is_err());
        assert!(budget.keep(Value::from(1)).is_err());
        assert!(budget.exceeded());
    }
}
