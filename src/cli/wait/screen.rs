//! Lines of a board on a terminal, drawn in place, or in a pipe, one for each change. Pure: gives text to write.

use std::collections::BTreeMap;

use super::board::{Board, Line, State};
use crate::cli::output::table::clean;

/// To the end of the line.
const CLEAR_LINE: &str = "\x1b[K";
/// To the end of the screen.
const CLEAR_BELOW: &str = "\x1b[J";
const RESET: &str = "\x1b[0m";

/// Where the lines go.
pub(crate) enum Screen {
    Terminal(Terminal),
    Pipe(Pipe),
}

/// Draws the same lines over and over.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    colors: bool,
    drawn: usize,
}

/// Tells what changed.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    headline: String,
    lines: BTreeMap<String, String>,
}

impl Screen {
    /// What to write now. `size` is columns and rows of a terminal.
    pub(crate) fn show(&mut self, board: &Board, size: (usize, usize)) -> String {
        match self {
            Self::Terminal(terminal) => terminal.frame(board, size),
            Self::Pipe(pipe) => pipe.changes(board),
        }
    }
}

impl Terminal {
    pub(crate) fn new(colors: bool) -> Self {
        Self { colors, drawn: 0 }
    }

    /// A frame in the place of the last one. Lines are cut to the width, so that none takes two rows, and as many are
    /// shown as fit: those that are not Ready first.
    fn frame(&mut self, board: &Board, (columns, rows): (usize, usize)) -> String {
        let mut lines = board.lines();
        // The headline and the place of the cursor take a row each.
        let room = rows.saturating_sub(2).max(1);
        let hidden = lines.len().saturating_sub(room);
        if hidden > 0 {
            lines.sort_by_key(|line| line.state == State::Ready);
            lines.truncate(room - 1);
        }
        let width = lines.iter().map(|line| line.object.chars().count()).max().unwrap_or(0);
        let mut text = if self.drawn > 0 { format!("\x1b[{}A\r", self.drawn) } else { String::new() };
        let mut draw = |content: &str, color: Option<&str>| {
            let content: String = clean(content).chars().take(columns.max(1) - 1).collect();
            match color.filter(|_| self.colors) {
                // Only the mark in front is coloured.
                Some(color) => {
                    let mark: String = content.chars().take(1).collect();
                    text.push_str(&format!("{color}{mark}{RESET}{}", &content[mark.len()..]));
                }
                None => text.push_str(&content),
            }
            text.push_str(CLEAR_LINE);
            text.push('\n');
        };
        draw(board.headline(), None);
        for line in &lines {
            draw(&compose(line, width), Some(color(line.state)));
        }
        let more = if hidden > 0 { hidden + 1 } else { 0 };
        if more > 0 {
            draw(&format!("  and {more} more"), None);
        }
        text.push_str(CLEAR_BELOW);
        self.drawn = 1 + lines.len() + usize::from(more > 0);
        text
    }
}

impl Pipe {
    /// A line for each thing that is not as it was last told.
    fn changes(&mut self, board: &Board) -> String {
        let mut text = String::new();
        let headline = clean(board.headline());
        if headline != self.headline {
            text.push_str(&format!("{headline}\n"));
            self.headline = headline;
        }
        for line in board.lines() {
            let composed = clean(&compose(&line, 0));
            if self.lines.get(&line.object) != Some(&composed) {
                text.push_str(&format!("{composed}\n"));
                self.lines.insert(line.object, composed);
            }
        }
        text
    }
}

/// `✓ Deployment/backend  [3/3 ready]`
fn compose(line: &Line, width: usize) -> String {
    let Line { object, state, parts, why } = line;
    let (mark, word) = match state {
        State::Pending => ('·', "pending"),
        State::Creating => ('+', "creating"),
        State::Waiting => ('…', "waiting"),
        State::Ready => ('✓', "ready"),
        State::Failed => ('✗', "failed"),
        State::Deleted => ('-', "deleted"),
    };
    let parts = match (parts, state) {
        (Some((ready, desired)), State::Waiting | State::Ready) => format!("[{ready}/{desired} ready]"),
        (Some((ready, desired)), State::Failed) => format!("[failed, {ready}/{desired} ready]"),
        _ => format!("[{word}]"),
    };
    let text = format!("{mark} {object:width$}  {parts} {why}");
    text.trim_end().to_owned()
}

fn color(state: State) -> &'static str {
    match state {
        State::Ready => "\x1b[32m",
        State::Failed => "\x1b[31m",
        State::Creating | State::Waiting => "\x1b[33m",
        State::Pending | State::Deleted => "\x1b[2m",
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
