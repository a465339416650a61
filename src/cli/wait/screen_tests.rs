use serde_json::json;

use super::super::board::Sight;
use super::super::board::tests::{deployment, id, settings, status};
use super::*;
use crate::api::SherpackReleaseStatus;

/// What a terminal shows after these bytes. It knows no more escape codes than those that are used.
struct Glass {
    rows: Vec<String>,
    row: usize,
}

impl Glass {
    fn new() -> Self {
        Self { rows: vec![String::new()], row: 0 }
    }

    fn write(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        let mut column = 0;
        while let Some(c) = chars.next() {
            match c {
                '\r' => column = 0,
                '\n' => {
                    self.row += 1;
                    column = 0;
                    if self.row == self.rows.len() {
                        self.rows.push(String::new());
                    }
                }
                '\x1b' => {
                    assert_eq!(chars.next(), Some('['));
                    let mut number = String::new();
                    while chars.peek().is_some_and(char::is_ascii_digit) {
                        number.extend(chars.next());
                    }
                    match chars.next() {
                        Some('A') => self.row -= number.parse::<usize>().unwrap(),
                        Some('K') => self.rows[self.row] = self.rows[self.row].chars().take(column).collect(),
                        Some('J') => {
                            self.rows.truncate(self.row + 1);
                            self.rows[self.row] = self.rows[self.row].chars().take(column).collect();
                        }
                        Some('m') => {}
                        other => panic!("{other:?} is no code that is used"),
                    }
                }
                c => {
                    let row = &mut self.rows[self.row];
                    let mut cells: Vec<char> = row.chars().collect();
                    cells.resize(cells.len().max(column + 1), ' ');
                    cells[column] = c;
                    *row = cells.into_iter().collect();
                    column += 1;
                }
            }
        }
    }

    fn shown(&self) -> Vec<&str> {
        assert_eq!(self.rows.last().unwrap(), "", "the cursor stands below");
        self.rows[..self.rows.len() - 1].iter().map(String::as_str).collect()
    }
}

fn upgrade(phase: &str) -> SherpackReleaseStatus {
    status(json!({"operation": {"action": "Upgrade", "revision": 2, "phase": phase}}))
}

fn board() -> Board {
    let mut board = Board::new("apps");
    board.status(&upgrade("Apply"));
    board.want([id("ConfigMap", "settings"), id("Deployment", "backend")]);
    board
}

#[test]
fn a_terminal_shows_each_state_in_the_place_of_the_one_before() {
    let (mut glass, mut terminal, mut board) = (Glass::new(), Terminal::new(true), board());
    glass.write("$ wait web\n");
    let mut draw = |board: &Board| {
        glass.write(&terminal.frame(board, (80, 24)));
        glass.shown().join("\n")
    };
    let expected = "$ wait web\nUpgrade to revision 2, Apply\n· ConfigMap/settings  [pending]\n· Deployment/backend  [pending]";
    assert_eq!(draw(&board), expected);
    board.see(id("ConfigMap", "settings"), settings());
    board.see(id("Deployment", "backend"), deployment(1));
    board.status(&upgrade("Wait"));
    let text = draw(&board);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1..3], ["Upgrade to revision 2, Wait", "✓ ConfigMap/settings  [ready]"]);
    assert!(lines[3].starts_with("… Deployment/backend  [1/3 ready] "), "{text}");
    board.see(id("Deployment", "backend"), deployment(3));
    assert!(draw(&board).ends_with("\n✓ Deployment/backend  [3/3 ready]"), "{}", draw(&board));
    board.want([id("Deployment", "backend")]);
    board.see(id("ConfigMap", "settings"), Sight::Gone);
    assert_eq!(
        draw(&board),
        "$ wait web\nUpgrade to revision 2, Wait\n- ConfigMap/settings  [deleted]\n✓ Deployment/backend  [3/3 ready]"
    );
}

#[test]
fn a_small_terminal_shows_what_is_not_ready_and_no_line_takes_two_rows() {
    let mut board = board();
    board.want((0..10).map(|n| id("ConfigMap", &format!("c{n}"))));
    for n in (0..10).filter(|n| *n != 7) {
        board.see(id("ConfigMap", &format!("c{n}")), settings());
    }
    let (mut glass, mut terminal) = (Glass::new(), Terminal::new(false));
    glass.write(&terminal.frame(&board, (20, 6)));
    glass.write(&terminal.frame(&board, (20, 6)));
    assert_eq!(
        glass.shown(),
        [
            "Upgrade to revision",
            "· ConfigMap/c7  [pe",
            "✓ ConfigMap/c0  [re",
            "✓ ConfigMap/c1  [re",
            "  and 7 more"
        ]
    );
}

#[test]
fn colours_are_left_out_when_they_are_not_wanted() {
    let board = board();
    assert!(Terminal::new(true).frame(&board, (80, 24)).contains("\x1b[2m·\x1b[0m ConfigMap"));
    let plain = Terminal::new(false).frame(&board, (80, 24));
    assert!(!plain.contains("\x1b[0m") && !plain.contains("\x1b[2m"), "{plain:?}");
}

#[test]
fn a_pipe_gets_a_line_for_each_change_and_no_escape_code() {
    let (mut pipe, mut board) = (Pipe::default(), board());
    let first = pipe.changes(&board);
    assert_eq!(
        first,
        "Upgrade to revision 2, Apply\n· ConfigMap/settings  [pending]\n· Deployment/backend  [pending]\n"
    );
    assert_eq!(pipe.changes(&board), "");
    board.see(id("Deployment", "backend"), deployment(3));
    assert_eq!(pipe.changes(&board), "✓ Deployment/backend  [3/3 ready]\n");
    board.see(id("Deployment", "backend"), deployment(3));
    assert_eq!(pipe.changes(&board), "");
    board.status(&upgrade("Wait\x1b[2J"));
    assert_eq!(pipe.changes(&board), "Upgrade to revision 2, Wait [2J\n");
}

#[test]
fn every_state_has_its_mark() {
    let line = |state, parts, why: &str| {
        compose(&Line { object: "Deployment/backend".to_owned(), state, parts, why: why.to_owned() }, 0)
    };
    for (state, parts, why, expected) in [
        (State::Pending, None, "", "· Deployment/backend  [pending]"),
        (State::Creating, None, "new", "+ Deployment/backend  [creating] new"),
        (State::Waiting, Some((1, 3)), "slow", "… Deployment/backend  [1/3 ready] slow"),
        (State::Waiting, None, "being deleted", "… Deployment/backend  [waiting] being deleted"),
        (State::Ready, Some((3, 3)), "", "✓ Deployment/backend  [3/3 ready]"),
        (State::Ready, None, "", "✓ Deployment/backend  [ready]"),
        (State::Failed, Some((0, 3)), "no image", "✗ Deployment/backend  [failed, 0/3 ready] no image"),
        (State::Failed, None, "no image", "✗ Deployment/backend  [failed] no image"),
        (State::Deleted, None, "", "- Deployment/backend  [deleted]"),
    ] {
        assert_eq!(line(state, parts, why), expected);
    }
}
