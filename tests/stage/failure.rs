//! Why a run failed, in words for the person who started it.

use std::fmt;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A failed check or a failed call. The text says what was expected and what was seen.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What was being done, before what went wrong.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        // Its own text repeats everything in debug form.
        if let Some(kube::Error::Api(status)) = (&error as &dyn std::any::Any).downcast_ref() {
            return Self(format!("the API server says {}: {}", status.code, status.message));
        }
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let line = error.to_string();
            if !text.contains(&line) {
                text = format!("{text}: {line}");
            }
            cause = error.source();
        }
        Self(text)
    }
}

/// Says what was being done when a call failed.
pub(crate) trait During<T> {
    fn during(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<Failure>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().during(what))
    }
}

/// A check of the story: the text is what should have held.
pub(crate) fn check(holds: bool, expected: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Failure::new(expected())) }
}
