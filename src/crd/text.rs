//! A change as people read it.

use std::fmt::Write as _;

use serde_json::Value;
use similar::{Algorithm, DiffTag, capture_diff_slices, group_diff_ops};

use super::{Analysis, Change, Kind, Severity};
use crate::manifest::yaml;

/// Lines of one value; more are counted.
const LINES: usize = 40;
/// Lines among which the fewest changes are searched for; of more, all of the old and all of the new stand there.
const SEARCHED: usize = 1000;
/// Descriptions that are shown one by one; more are counted.
const DESCRIPTIONS: usize = 3;

/// Whether the text goes to a terminal that shows colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain.
    No,
    /// With escape sequences.
    Yes,
}

impl Colour {
    /// The text in a colour, given as the number of its escape sequence.
    #[must_use]
    pub fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::No => text.to_owned(),
            Self::Yes => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    fn severity(self, severity: Severity) -> String {
        let code = match severity {
            Severity::Safe => "32",
            Severity::Warning => "33",
            Severity::Dangerous => "31",
            Severity::Blocked => "1;31",
        };
        self.paint(code, severity.name())
    }
}

/// `CRD Changes for NAME:`, an entry for every change, a `⚠` line for everything that is not Safe, and the verdict.
#[must_use]
pub fn text(analysis: &Analysis, colour: Colour) -> String {
    let name = printable(&analysis.name);
    if analysis.changes.is_empty() {
        let what = if analysis.is_new { "+ it is new" } else { "none" };
        return format!(
            "CRD Changes for {name}:\n\n  {what}\n\nVerdict: {}\n",
            colour.severity(Severity::Safe)
        );
    }
    let mut out = format!("CRD Changes for {name}:\n\n");
    let mut descriptions = 0;
    for change in &analysis.changes {
        if change.kind == Kind::UpdateDescription {
            descriptions += 1;
            if descriptions > DESCRIPTIONS {
                continue;
            }
        }
        entry(&change.path, (change.old.as_ref(), change.new.as_ref()), &change.message, colour, &mut out);
    }
    // Writing to a String cannot fail.
    if descriptions > DESCRIPTIONS {
        let _ = writeln!(
            out,
            "  ~ {} more titles, descriptions, examples or links\n",
            descriptions - DESCRIPTIONS
        );
    }
    let loud: Vec<&Change> =
        analysis.changes.iter().filter(|change| change.severity > Severity::Safe).collect();
    for change in &loud {
        let sign = colour.paint("33", "⚠");
        let severity = colour.severity(change.severity);
        let _ = writeln!(out, "  {sign} {severity} {}: {}", change.kind, printable(&change.message));
    }
    if !loud.is_empty() {
        out.push('\n');
    }
    let counts: Vec<String> = [Severity::Blocked, Severity::Dangerous, Severity::Warning, Severity::Safe]
        .into_iter()
        .filter_map(|severity| {
            let count = analysis.of(severity).count();
            (count > 0).then(|| format!("{count} {severity}"))
        })
        .collect();
    let _ = writeln!(out, "Verdict: {} ({})", colour.severity(analysis.verdict()), counts.join(", "));
    out
}

/// A field with its old and new value: `+`, `-` or `~`, and of long values the lines that differ. `otherwise` is what is
/// told when there is neither.
pub fn entry(
    path: &str,
    values: (Option<&Value>, Option<&Value>),
    otherwise: &str,
    colour: Colour,
    out: &mut String,
) {
    let (sign, code) = match values {
        (None, Some(_)) => ("+", "32"),
        (Some(_), None) => ("-", "31"),
        _ => ("~", "33"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  {} {}:", colour.paint(code, sign), printable(path));
    let mut lines = |sign: &str, code: &str, text: &str| {
        let line = if sign.is_empty() { text.to_owned() } else { format!("{sign} {text}") };
        let line = if code.is_empty() { line } else { colour.paint(code, &line) };
        let _ = writeln!(out, "      {}", line.trim_end());
    };
    match values {
        (Some(old), Some(new)) => {
            for (sign, line) in compared(&shown(old), &shown(new)) {
                let code = match sign {
                    "-" => "31",
                    "+" => "32",
                    _ => "",
                };
                lines(sign, code, &line);
            }
        }
        (Some(value), None) | (None, Some(value)) => {
            for line in cut(shown(value)) {
                lines("", "", &line);
            }
        }
        (None, None) => lines("", "", &printable(otherwise)),
    }
    out.push('\n');
}

/// A value as YAML.
fn shown(value: &Value) -> Vec<String> {
    let text = match value {
        Value::Object(map) if !map.is_empty() => yaml::to_yaml(value),
        Value::Array(list) if !list.is_empty() => yaml::to_yaml(value),
        Value::String(text) if text.contains('\n') => text.clone(),
        other => other.to_string(),
    };
    text.lines().map(printable).collect()
}

fn cut(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// What differs, with some lines round it; the lines between two such places are counted.
fn compared(old: &[String], new: &[String]) -> Vec<(&'static str, String)> {
    const CONTEXT: usize = 2;
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    // What differs with the lines round it: the search costs only what is searched.
    let (begin, end) = (head.saturating_sub(CONTEXT), tail.saturating_sub(CONTEXT));
    let (old, new) = (&old[begin..old.len() - end], &new[begin..new.len() - end]);
    let signed = |sign: &'static str, lines: &[String]| -> Vec<(&'static str, String)> {
        cut(lines.to_vec()).into_iter().map(|line| (sign, line)).collect()
    };
    if old.len().max(new.len()) > SEARCHED {
        return [signed("-", old), signed("+", new)].concat();
    }
    let mut out = Vec::new();
    let mut seen = 0;
    for group in group_diff_ops(capture_diff_slices(Algorithm::Myers, old, new), CONTEXT) {
        let from = group.first().map_or(0, |op| op.old_range().start);
        if from > seen {
            out.push((" ", format!("… {} equal lines", from - seen)));
        }
        for op in group {
            let (tag, before, after) = op.as_tag_tuple();
            seen = before.end;
            if tag == DiffTag::Equal {
                out.extend(signed(" ", &old[before]));
            } else {
                out.extend(signed("-", &old[before]));
                out.extend(signed("+", &new[after]));
            }
        }
    }
    out
}

/// Without what would command a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}
