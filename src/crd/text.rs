//! A change as people read it.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Analysis, Change, Kind, Severity};
use crate::manifest::yaml;

/// Lines of one value; more are counted.
const LINES: usize = 40;
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
    fn paint(self, code: &str, text: &str) -> String {
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
        return format!(
            "CRD Changes for {name}:\n\n  none\n\nVerdict: {}\n",
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
        entry(change, colour, &mut out);
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

fn entry(change: &Change, colour: Colour, out: &mut String) {
    let (sign, code) = match (&change.old, &change.new) {
        (None, Some(_)) => ("+", "32"),
        (Some(_), None) => ("-", "31"),
        _ => ("~", "33"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  {} {}:", colour.paint(code, sign), printable(&change.path));
    let mut lines = |sign: &str, code: &str, text: &str| {
        let line = if sign.is_empty() { text.to_owned() } else { format!("{sign} {text}") };
        let line = if code.is_empty() { line } else { colour.paint(code, &line) };
        let _ = writeln!(out, "      {}", line.trim_end());
    };
    match (&change.old, &change.new) {
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
        (None, None) => lines("", "", &printable(&change.message)),
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

/// What two values have in common at their ends is shown once, and only next to what differs.
fn compared(old: &[String], new: &[String]) -> Vec<(&'static str, String)> {
    const CONTEXT: usize = 2;
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let same = |lines: &[String]| lines.iter().map(|line| (" ", line.clone())).collect::<Vec<_>>();
    let mut out = same(&old[head.saturating_sub(CONTEXT)..head]);
    out.extend(cut(old[head..old.len() - tail].to_vec()).into_iter().map(|line| ("-", line)));
    out.extend(cut(new[head..new.len() - tail].to_vec()).into_iter().map(|line| ("+", line)));
    let rest = &old[old.len() - tail..];
    out.extend(same(&rest[..rest.len().min(CONTEXT)]));
    out
}

/// Without what would command a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}
