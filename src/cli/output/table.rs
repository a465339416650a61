//! Texts for people: columns, ages, and nothing that a terminal would obey.

use std::fmt::Write as _;

use jiff::Timestamp;

/// Columns as wide as their widest cell, two spaces apart. Every row has as many cells as the head.
pub(in crate::cli) fn columns<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.clone().map(|cell| clean(&cell))).collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in std::iter::once(head).chain(rows.iter().map(|row| row.each_ref().map(String::as_str))) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a String does not fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One line without control characters: messages come from the cluster, and a terminal obeys escape codes.
pub(in crate::cli) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// How long ago, as kubectl says it; `-` when that is not known.
pub(in crate::cli) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return "-".to_owned() };
    span(now.as_second().saturating_sub(since.as_second()))
}

/// Seconds in the two largest units that matter.
pub(in crate::cli) fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        120..7200 => format!("{minutes}m"),
        7200..28800 if minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        7200..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 > 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// A moment to the second, or `-`.
pub(in crate::cli) fn moment(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let text = columns(["NAME", "MESSAGE"], &[row("a-long-name", "é"), row("b", "")]);
        assert_eq!(text, "NAME         MESSAGE\na-long-name  é\nb\n");
    }

    #[test]
    fn a_cell_cannot_write_to_the_terminal() {
        let text = columns(["A"], &[["red \u{1b}[31mnow\nnext\u{9b}2J".to_owned()]]);
        assert_eq!(text, "A\nred  [31mnow next 2J\n");
    }

    #[test]
    fn ages_have_at_most_two_units() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (7199, "119m"),
            (7260, "2h1m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
        ] {
            assert_eq!(span(seconds), text, "{seconds}");
        }
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        assert_eq!(age(None, now), "-");
        assert_eq!(age("2026-01-01T11:59:30Z".parse().ok(), now), "30s");
        assert_eq!(moment(Some(now)), "2026-01-01T12:00:00Z");
    }
}
