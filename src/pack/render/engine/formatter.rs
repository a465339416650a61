//! Prints values where templates have `{{ }}`.

use minijinja::{AutoEscape, Environment, HtmlEscape};

use crate::pack::render::scope::Scope;
use crate::pack::render::text::of;

/// Prints values where templates have `{{ }}`.
///
/// Strings, numbers and booleans as they are, null as `none`, undefined (outside of strict mode) as nothing;
/// lists and maps as flow collections, which YAML reads back as the same data.
pub(super) fn register(engine: &mut Environment<'static>) {
    engine.set_formatter(|out, state, value| {
        let escapes = matches!(state.auto_escape(), AutoEscape::Html);
        let budget = Scope::budget(state)?;
        budget.defined(value)?;
        let text = of(value, budget)?;
        budget.bytes(text.len() as u64)?;
        if escapes && !value.is_safe() {
            budget.bytes(6 * text.len() as u64)?;
            return Ok(out.write_str(&HtmlEscape(&text).to_string())?);
        }
        Ok(out.write_str(&text)?)
    });
}
