//! Filters with regular expressions.
//!
//! The library never backtracks, but the time for all matches may still grow with the square of the text, and with the size of
//! the pattern: both are bounded, and paid for.

use std::sync::PoisonError;

use minijinja::value::Value;
use minijinja::{Environment, Error, State};
use regex::{Regex, RegexBuilder};

use super::{Input as _, Text};
use crate::pack::render::budget::{Budget, NODE, VALUE, wrong};
use crate::pack::render::scope::Scope;

/// Bytes of a pattern and of a replacement.
const PATTERN: usize = 1024;
/// Bytes of a compiled pattern.
const COMPILED: usize = 64 << 10;
/// Bytes of a text to search.
const SEARCHED: usize = 256 << 10;
/// What compiling a pattern costs.
const COMPILE: u64 = 20_000;
/// Patterns kept compiled for the render.
const KEPT: usize = 32;

pub(super) fn register(engine: &mut Environment<'static>) {
    add_as!(engine, "regex_match", ready, |scope, v: Text<'_>, pattern: Text<'_>| {
        prepare(&v, &pattern, scope)?.is_match(&v)
    });
    add_as!(engine, "regex_find", ready, |scope, v: Text<'_>, pattern: Text<'_>| {
        let regex = prepare(&v, &pattern, scope)?;
        regex.find(&v).map_or("", |found| found.as_str()).to_owned()
    });
    add_as!(engine, "regex_find_all", ready, |scope, v: Text<'_>, pattern: Text<'_>| {
        let regex = prepare(&v, &pattern, scope)?;
        pay_for_all(&v, &scope.budget)?;
        let mut found = Vec::new();
        for part in regex.find_iter(&v) {
            scope.budget.bytes(NODE)?;
            found.push(Value::from(part.as_str()));
        }
        found
    });
    add_as!(engine, "regex_replace", ready, |scope, v: Text<'_>, pattern: Text<'_>, by: Text<'_>| {
        let regex = prepare(&v, &pattern, scope)?;
        pay_for_all(&v, &scope.budget)?;
        replace(&regex, &v, &by, &scope.budget)?
    });
}

fn prepare(text: &str, pattern: &str, scope: &Scope) -> Result<Regex, Error> {
    let budget = &scope.budget;
    if text.len() > SEARCHED {
        return Err(budget.over(format!("a text to search is larger than {} KiB", SEARCHED >> 10)));
    }
    if pattern.len() > PATTERN {
        return Err(budget.over(format!("a pattern is longer than {PATTERN} bytes")));
    }
    budget.steps(16 * text.len() as u64)?;
    let mut kept = scope.patterns.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = kept.get(pattern) {
        return Ok(regex.clone());
    }
    budget.steps(COMPILE)?;
    let built = RegexBuilder::new(pattern).size_limit(COMPILED).dfa_size_limit(4 * COMPILED).build();
    let regex = built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => budget.over("a pattern is too large".to_owned()),
        // The last line says what is wrong; the ones before show the pattern.
        error => wrong(format!(
            "this pattern is no regular expression: {}",
            error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ")
        )),
    })?;
    if kept.len() < KEPT {
        kept.insert(pattern.to_owned(), regex.clone());
    }
    Ok(regex)
}

/// Each match may look at all of the rest.
fn pay_for_all(text: &str, budget: &Budget) -> Result<(), Error> {
    let length = text.len() as u64;
    budget.steps(length * length / 64)
}

fn replace(regex: &Regex, text: &str, by: &str, budget: &Budget) -> Result<String, Error> {
    if by.len() > PATTERN {
        return Err(budget.over(format!("a replacement is longer than {PATTERN} bytes")));
    }
    let mut out = String::new();
    let mut end = 0;
    for found in regex.captures_iter(text) {
        // The whole match is always there.
        let Some(whole) = found.get(0) else { continue };
        budget.steps(1)?;
        out.push_str(&text[end..whole.start()]);
        found.expand(by, &mut out);
        end = whole.end();
        if out.len() as u64 > VALUE {
            return Err(budget.over("the text after a replacement is too large".to_owned()));
        }
    }
    out.push_str(&text[end..]);
    Ok(out)
}
