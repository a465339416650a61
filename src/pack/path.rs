use super::Error;

/// Checks one path of a pack: relative, `/` between plain parts, no control characters.
///
/// # Errors
/// The path is empty, longer than `limit` bytes, absolute, has a `.`, `..` or empty part, a backslash
/// or a control character.
pub fn clean(path: &str, limit: usize) -> Result<(), Error> {
    let why = if path.is_empty() {
        "it is empty"
    } else if path.len() > limit {
        "it is too long"
    } else if path.starts_with('/') {
        "it is absolute"
    } else if path.contains('\\') {
        "it contains a backslash"
    } else if path.chars().any(char::is_control) {
        "it contains a control character"
    } else if path.split('/').any(|part| part == "..") {
        "it contains `..`"
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        "it contains an empty or `.` part"
    } else {
        return Ok(());
    };
    Err(refuse(path, why))
}

/// A [`Error::Path`] whose text is short and printable whatever the path is.
pub(super) fn refuse(path: &str, why: &'static str) -> Error {
    Error::Path { path: super::shown(path, 120), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_are_clean() {
        for path in ["Pack.yaml", "templates/a b.yaml", "a/..b/c...", "é/ü"] {
            assert_eq!(clean(path, 255), Ok(()), "{path}");
        }
        for path in ["", "/etc/passwd", "../a", "a/../b", "a/..", "a//b", "./a", "a/", "a\\b", "a\nb", "a\0"]
        {
            assert_eq!(clean(path, 255).unwrap_err().reason(), "PackPathRefused", "{path:?}");
        }
        assert!(clean(&"a".repeat(256), 255).is_err());
    }

    #[test]
    fn the_message_stays_short_and_printable() {
        let message = clean(&format!("\u{1b}[31m{}", "a".repeat(9000)), 255).unwrap_err().to_string();
        assert!(message.len() < 300 && !message.contains('\u{1b}'));
    }
}
