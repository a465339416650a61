//! Ranges of versions as people write them in packs and charts.

use semver::{Version, VersionReq};

use super::shown;

/// Whether a version lies in a range.
///
/// The range is a list of comparators, all of which must hold, separated by commas or spaces; `||`
/// separates alternatives; `x` and `*` stand for any part. The version may have a leading `v` and
/// fewer than three parts. Pre-release and build parts of the version are ignored unless the range
/// itself names a pre-release other than `-0`: providers append theirs to every Kubernetes version
/// (`v1.33.2-gke.100`), and `>=1.28.0-0` is the usual way to say that this is fine.
///
/// # Errors
/// A text that is not a version or not a range; the message names it.
pub fn matches(range: &str, version: &str) -> Result<bool, String> {
    let version = parse_version(version)?;
    let release = Version::new(version.major, version.minor, version.patch);
    let mut any = false;
    for alternative in range.split("||") {
        let (request, names_prerelease) = parse_range(alternative)?;
        any |= request.matches(if names_prerelease { &version } else { &release });
    }
    Ok(any)
}

fn parse_version(text: &str) -> Result<Version, String> {
    let bare = text.trim();
    let bare = bare.strip_prefix('v').unwrap_or(bare);
    let cut = bare.find(['-', '+']).unwrap_or(bare.len());
    let (numbers, tail) = bare.split_at(cut);
    let missing = 2_usize.saturating_sub(numbers.matches('.').count());
    let full = format!("{numbers}{}{tail}", ".0".repeat(missing));
    Version::parse(&full).map_err(|error| format!("`{}` is not a version: {error}", shown(text, 80)))
}

fn parse_range(text: &str) -> Result<(VersionReq, bool), String> {
    let mut parts: Vec<String> = Vec::new();
    let mut operator = String::new();
    for word in text.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty()) {
        if word.chars().all(|c| "<>=^~!".contains(c)) {
            operator.push_str(word);
            continue;
        }
        let digits = word.find(|c: char| !"<>=^~!".contains(c)).unwrap_or(0);
        let (own, version) = word.split_at(digits);
        let version = version.strip_prefix('v').unwrap_or(version);
        let version = version.strip_suffix("-0").unwrap_or(version);
        // A bare full version means exactly that one, as in Helm; `semver` would read a caret.
        let bare = operator.is_empty() && own.is_empty() && version.split('.').count() > 2;
        let exact = if bare && !version.contains(['x', 'X', '*']) { "=" } else { "" };
        parts.push(format!("{operator}{own}{exact}{version}"));
        operator.clear();
    }
    if !operator.is_empty() {
        return Err(format!("`{}` is not a range of versions: it ends in an operator", shown(text, 80)));
    }
    if parts.is_empty() {
        parts.push("*".to_owned());
    }
    let request = VersionReq::parse(&parts.join(", "))
        .map_err(|error| format!("`{}` is not a range of versions: {error}", shown(text, 80)))?;
    let names_prerelease = request.comparators.iter().any(|part| !part.pre.is_empty());
    Ok((request, names_prerelease))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_mean_what_people_expect() {
        for (range, version, expected) in [
            (">=1.28.0", "v1.33.1", true),
            (">=1.28.0-0", "v1.28.0-gke.100", true),
            (">= 1.28 < 1.34", "1.33", true),
            (">=1.28, <1.33", "v1.33.0+k3s1", false),
            ("^1.2", "1.9.0", true),
            ("~1.2.3", "1.3.0", false),
            ("1.2.3", "1.2.4", false),
            ("1.2.3", "1.2.3", true),
            ("1.x", "1.7.2", true),
            ("1.2.x || >=3", "3.0.1", true),
            ("1.2.x || >=3", "2.0.1", false),
            ("*", "0.0.1", true),
            ("", "0.0.1", true),
            ("=1.0.0-rc.1", "1.0.0-rc.1", true),
        ] {
            assert_eq!(matches(range, version), Ok(expected), "{range} {version}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        assert!(matches("new", "1.0.0").unwrap_err().contains("`new` is not a range"));
        assert!(matches(">=1", "one").unwrap_err().contains("`one` is not a version"));
        assert!(matches(">=99999999999999999999", "1").is_err());
    }
}
