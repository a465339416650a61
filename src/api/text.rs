//! Texts of bounded length.

/// Longest message of a condition, in bytes.
pub const MESSAGE_MAX: usize = 1024;

/// At most [`MESSAGE_MAX`] bytes of a text, see [`cut`].
#[must_use]
pub fn clip(message: &str) -> String {
    cut(message, MESSAGE_MAX)
}

/// At most `most` bytes of a text, cut between characters; a cut is shown by an ellipsis.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    const ELLIPSIS: char = '…';
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len_utf8()));
    let mut cut = text[..end].to_owned();
    cut.push(ELLIPSIS);
    cut
}
