//! Words the errors of the template engine: where in the pack, and what.

use std::collections::BTreeMap;

use minijinja::ErrorKind;

use super::excerpt::Excerpt;
use crate::pack::Pack;
use crate::pack::render::budget::FUEL;
use crate::pack::render::{Error, guard};

pub(in crate::pack::render) const TEMPLATES: &str = "templates/";
/// Characters of a message.
const MESSAGE: usize = 2000;

/// The templates of one pack as they were written, as far as they are compiled.
pub(in crate::pack::render) struct Sources<'p> {
    pub(in crate::pack::render) pack: &'p Pack,
    pub(in crate::pack::render) places: &'p BTreeMap<String, guard::Places>,
}

impl<'p> Sources<'p> {
    /// A template, and where the parts of its guarded form come from.
    pub(in crate::pack::render) fn get(&self, name: &str) -> Option<(&'p str, &'p guard::Places)> {
        let content = self.pack.files.get(&format!("{TEMPLATES}{name}"))?;
        Some((text(content)?, self.places.get(name)?))
    }
}

/// A template as text, without a byte order mark.
pub(in crate::pack::render) fn text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Words an error: where it happened first, and what. `exceeded`: a limit was reached.
pub(in crate::pack::render) fn explain(
    error: &minijinja::Error,
    template: &str,
    sources: &Sources<'_>,
    exceeded: bool,
) -> Error {
    let place = innermost(error);
    let message = message(place);
    let mut next: Option<&minijinja::Error> = Some(error);
    let mut found = (template, 0, None);
    // The innermost that has a place.
    while let Some(current) = next {
        if let (Some(name), Some(line)) = (current.name(), current.line()) {
            found = (name, line, current.range());
        }
        next = cause(current);
    }
    let (name, line, range) = found;
    let file = format!("{TEMPLATES}{name}");
    if exceeded || place.kind() == ErrorKind::OutOfFuel || message.contains("recursion limit") {
        return Error::Limit { file, line, message };
    }
    let excerpt = range.zip(sources.get(name)).and_then(|(range, (source, places))| {
        let range = places.before(&range);
        Excerpt::of(source, range.start, range.end)
    });
    Error::Template { file, line, message, excerpt }
}

/// Includes, imports and blocks wrap the error of the inner template: the innermost says most.
pub(in crate::pack::render) fn innermost(error: &minijinja::Error) -> &minijinja::Error {
    let mut innermost = error;
    while let Some(inner) = cause(innermost) {
        innermost = inner;
    }
    innermost
}

fn cause(error: &minijinja::Error) -> Option<&minijinja::Error> {
    std::error::Error::source(error).and_then(|source| source.downcast_ref())
}

/// What is wrong, without the place.
pub(in crate::pack::render) fn message(error: &minijinja::Error) -> String {
    let message = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => {
            format!("the templates run more than {FUEL} instructions: an endless loop?")
        }
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (ErrorKind::UndefinedError, Some(detail)) if detail.contains("` is undefined") => {
            // "`values.a` is undefined (from line 3)"
            detail.replacen("` is undefined", "` is not set", 1)
        }
        (ErrorKind::UndefinedError, _) => "an undefined value is used".to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    guard::hide(&message).chars().take(MESSAGE).collect()
}
