//! The part of a template that an error is about.

use std::fmt;

/// Longest expression in a message.
const EXPRESSION: usize = 120;
/// Most of a line that is shown.
const LINE: usize = 240;

/// A line of a template with the expression in it that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// From 1.
    line: usize,
    text: String,
    /// Characters before the expression.
    column: usize,
    /// Characters of the expression, of its first line when it has several.
    width: usize,
}

impl Excerpt {
    /// The line with the bytes `from..to` of `source`, `None` when there is no such place.
    pub(in crate::pack::render) fn of(source: &str, from: usize, to: usize) -> Option<Self> {
        let (before, found) = (source.get(..from)?, source.get(from..to)?);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let text = source[start..].lines().next().unwrap_or_default();
        let column = source[start..from].chars().count();
        let width = found.lines().next().unwrap_or_default().chars().count();
        (width > 0).then(|| Self {
            line: before.matches('\n').count() + 1,
            text: text.to_owned(),
            column,
            width,
        })
    }

    /// What stands in the tag around it when all of that is on this line, else the expression; cut off when it is long.
    #[must_use]
    pub fn expression(&self) -> String {
        let at = |column: usize| self.text.char_indices().nth(column).map_or(self.text.len(), |(at, _)| at);
        let (from, to) = (at(self.column), at(self.column + self.width));
        let open = self.text[..from].rfind("{{").max(self.text[..from].rfind("{%")).map(|at| at + 2);
        let close = |end: &str| self.text[to..].find(end).map(|at| to + at);
        let closed = close("}}").into_iter().chain(close("%}")).min();
        let whole = match (open, closed) {
            (Some(open), Some(close)) => {
                self.text[open..close].trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim()
            }
            _ => &self.text[from..to],
        };
        if whole.chars().count() <= EXPRESSION {
            return whole.to_owned();
        }
        format!("{}…", whole.chars().take(EXPRESSION).collect::<String>())
    }
}

/// The line with its number, and carets below the expression.
impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Of a long line the part with the expression.
        let skip = if self.column + self.width > LINE { self.column.saturating_sub(LINE / 3) } else { 0 };
        let shown: String = self.text.chars().skip(skip).take(LINE).collect();
        // Tabs take the room that they take above.
        let room: String = self.text.chars().skip(skip).take(self.column - skip).collect();
        let room: String = room.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let carets = "^".repeat(self.width.min(LINE - (self.column - skip).min(LINE - 1)));
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {shown}")?;
        write!(f, "{margin} | {room}{carets}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_below_the_expression() {
        let source = "a: 1\nb:\t{{ ü.x }}\n";
        let from = source.find('ü').unwrap();
        let excerpt = Excerpt::of(source, from, from + "ü.x".len()).unwrap();
        assert_eq!(excerpt.expression(), "ü.x");
        assert_eq!(excerpt.to_string(), "  |\n2 | b:\t{{ ü.x }}\n  |   \t   ^^^");
    }

    #[test]
    fn long_lines_and_expressions_are_cut_off() {
        let source = format!("{}{{{{ {} }}}}", "x".repeat(1000), "y".repeat(1000));
        let excerpt = Excerpt::of(&source, 1003, 2003).unwrap();
        assert_eq!(excerpt.expression().chars().count(), EXPRESSION + 1);
        let shown = excerpt.to_string();
        assert!(
            shown.contains("{{ yyy") && shown.lines().all(|line| line.chars().count() < LINE + 20),
            "{shown}"
        );
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].find("{{ y").map(|at| at + 3), lines[2].find('^'));
    }

    #[test]
    fn a_place_that_is_not_there_gives_none() {
        for (from, to) in [(3, 9), (2, 1), (1, 2), (2, 2)] {
            assert_eq!(Excerpt::of("aé", from, to), None, "{from}..{to}");
        }
        assert_eq!(Excerpt::of("{{\na }}", 2, 2), None);
    }
}
