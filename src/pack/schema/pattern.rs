//! Regular expressions of a schema.
//!
//! Most run in linear time; those that look around backtrack, within a limit. A pattern and its text are bounded,
//! so that one match is, too.

use fancy_regex::{Regex, RegexBuilder};

use crate::pack::shown;

/// Bytes of a pattern.
const SOURCE: usize = 4 << 10;
/// Bytes of a compiled pattern, and of what it may keep in mind while it runs.
const COMPILED: usize = 256 << 10;
/// Steps back of one match.
const BACKTRACKS: usize = 10_000;
/// Bytes of a text that is matched.
pub(super) const TEXT: usize = 64 << 10;

pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > SOURCE {
        return Err(format!("a pattern is longer than {SOURCE} bytes"));
    }
    RegexBuilder::new(&translate(pattern))
        .backtrack_limit(BACKTRACKS)
        .delegate_size_limit(COMPILED)
        .delegate_dfa_size_limit(COMPILED)
        .build()
        .map_err(|error| format!("`{}` is not a pattern: {error}", shown(pattern, 100)))
}

/// In JSON Schema `\d` and `\w` mean ASCII only.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('d') => out.push_str("[0-9]"),
            Some('D') => out.push_str("[^0-9]"),
            Some('w') => out.push_str("[A-Za-z0-9_]"),
            Some('W') => out.push_str("[^A-Za-z0-9_]"),
            Some('/') => out.push('/'),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}
