//! A place in a pack for what the layers above make of it once.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Holds one thing that depends on nothing but the pack it is in. Copies of a pack share it; it takes no part in comparisons.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl Slot {
    /// What is there, or what `make` gives, which then stays. Nothing stays of an error.
    ///
    /// Two callers at a time may both make it; one of the results stays.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn get_or<T: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(made) = self.0.get().and_then(|made| Arc::clone(made).downcast().ok()) {
            return Ok(made);
        }
        let made = Arc::new(make()?);
        // Of another type only by a mistake in the program; then each caller keeps its own.
        let _ = self.0.set(Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
        Ok(made)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.0.get().is_some()).finish()
    }
}

impl PartialEq for Slot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_made_once_and_errors_do_not_stay() {
        let slot = Slot::default();
        assert_eq!(slot.get_or(|| Err::<u8, _>("no")), Err("no"));
        let copy = slot.clone();
        assert_eq!(slot.get_or(|| Ok::<u8, &str>(1)).as_deref(), Ok(&1));
        assert_eq!(copy.get_or(|| Ok::<u8, &str>(2)).as_deref(), Ok(&1));
    }
}
