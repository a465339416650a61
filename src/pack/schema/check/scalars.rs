//! Rules for numbers and texts.

use serde_json::Number;

use super::{Check, Judged};
use crate::pack::schema::compile::Rule;
use crate::pack::schema::wording::{Path, compare, is_multiple, range_text};

impl<'c> Check<'c, '_, '_> {
    pub(super) fn number(
        &mut self,
        rule: &Rule,
        number: &Number,
        path: &Path<'_>,
        report: bool,
    ) -> Judged<bool> {
        match rule {
            Rule::Minimum { limit, exclusive } => {
                let order = compare(number, limit);
                let word = if *exclusive { "above" } else { "at least" };
                let fits = order.is_gt() || order.is_eq() && !exclusive;
                self.hold(fits, report, path, || format!("must be {word} {limit}"))
            }
            Rule::Maximum { limit, exclusive } => {
                let order = compare(number, limit);
                let word = if *exclusive { "below" } else { "at most" };
                let fits = order.is_lt() || order.is_eq() && !exclusive;
                self.hold(fits, report, path, || format!("must be {word} {limit}"))
            }
            Rule::MultipleOf(of) => {
                self.hold(is_multiple(number, of), report, path, || format!("must be a multiple of {of}"))
            }
            _ => Ok(true),
        }
    }

    pub(super) fn text(&mut self, rule: &'c Rule, text: &str, path: &Path<'_>, report: bool) -> Judged<bool> {
        match rule {
            Rule::Length { min, max } => {
                self.pay(text.len() as u64 / 64)?;
                let fits = (*min..=*max).contains(&(text.chars().count() as u64));
                self.hold(fits, report, path, || format!("must have {} characters", range_text(*min, *max)))
            }
            Rule::Pattern(pattern) => {
                let fits = self.matches(pattern, text)?;
                self.hold(fits, report, path, || {
                    format!("must match the pattern `{}`", pattern.chars().take(120).collect::<String>())
                })
            }
            Rule::Format(format) => {
                self.pay(16 + text.len() as u64 / 8)?;
                self.hold(format.fits(text), report, path, || {
                    format!("must have the format {}", format.name())
                })
            }
            _ => Ok(true),
        }
    }
}
