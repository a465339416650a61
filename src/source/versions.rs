//! Which of many versions a range means: those of an index, or the tags of an OCI repository. Pure.

use std::borrow::Cow;
use std::cmp::Reverse;

use semver::Version;

use crate::pack::shown;
use crate::pack::version::Range;

/// How many versions a message names.
const NEWEST: usize = 5;

/// Why there is no version to take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmatched {
    /// The range cannot be read.
    #[error("{message}: write a version such as `1.2.3`, or a range such as `1.x` or `>=1.2, <2`")]
    BadRange {
        /// Names the range and says what is wrong with it.
        message: String,
    },
    /// There is nothing to choose from.
    #[error("there is no version to choose from{}", beside(*.ignored))]
    NoVersions {
        /// How many texts are no versions.
        ignored: usize,
    },
    /// No range was given, and there are only pre-releases.
    #[error(
        "all versions are pre-releases: {}; name a range that allows them, such as `>=0.0.0-0`",
        newest_of(*.count, .newest)
    )]
    OnlyPrereleases {
        /// How many versions there are.
        count: usize,
        /// The newest of them.
        newest: Vec<String>,
    },
    /// No version lies in the range.
    #[error("no version matches `{range}`: {}{}", newest_of(*.count, .newest), hint(*.prereleases))]
    NoMatch {
        /// The range as it is shown.
        range: String,
        /// How many versions there are.
        count: usize,
        /// The newest of them.
        newest: Vec<String>,
        /// Whether one of these is a pre-release, of which the range names none.
        prereleases: bool,
    },
}

/// The newest version that lies in the range: one of `versions`, as it is written there.
///
/// What is no version is ignored: a registry has other tags too. Unset is the range `*`: the newest that is no
/// pre-release. A version that the range names with all its parts is taken before others, also its build part; else, of
/// versions that differ in their build part only, the one with the greater.
///
/// # Errors
/// A text that is no range; no version lies in it.
pub fn choose<'a>(
    range: Option<&str>,
    versions: impl Iterator<Item = &'a str>,
) -> Result<&'a str, Unmatched> {
    let asked = range.map(str::trim).filter(|range| !range.is_empty());
    let wanted = Range::parse(asked.unwrap_or("*")).map_err(|message| Unmatched::BadRange { message })?;
    let named = asked.and_then(version_of_tag);
    let mut best = None;
    let mut newest = Vec::with_capacity(NEWEST + 1);
    let (mut count, mut ignored) = (0, 0);
    for text in versions {
        let Some(version) = version_of_tag(text) else {
            ignored += 1;
            continue;
        };
        count += 1;
        // `1.0.0` before `v1.0.0`, so that the order of the texts does not matter.
        let candidate = (named.as_ref() == Some(&version), version, Reverse(text));
        if best.as_ref() < Some(&candidate) && wanted.includes(&candidate.1) {
            best = Some(candidate.clone());
        }
        keep_newest(&mut newest, (candidate.1, candidate.2));
    }
    match best {
        Some((_, _, Reverse(text))) => Ok(text),
        None => Err(unmatched(asked, &wanted, count, ignored, &newest)),
    }
}

/// Whether a text is a range.
///
/// # Errors
/// Names the text and says what is wrong with it.
pub fn check(range: &str) -> Result<(), Unmatched> {
    Range::parse(range).map(drop).map_err(|message| Unmatched::BadRange { message })
}

/// The version that a tag stands for: it may begin with `v`, and has `_` where a version has `+`, which tags cannot have.
#[must_use]
pub fn version_of_tag(tag: &str) -> Option<Version> {
    let bare = tag.strip_prefix('v').unwrap_or(tag);
    let version = if bare.contains('_') { Cow::Owned(bare.replace('_', "+")) } else { Cow::Borrowed(bare) };
    Version::parse(&version).ok()
}

/// The texts that stand for a version, the newest first, each with its version.
#[must_use]
pub fn newest_first<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<(Version, &'a str)> {
    let mut found: Vec<_> = texts.filter_map(|text| Some((version_of_tag(text)?, text))).collect();
    found.sort_by(|(a, a_text), (b, b_text)| b.cmp(a).then_with(|| a_text.cmp(b_text)));
    found
}

type Known<'a> = (Version, Reverse<&'a str>);

fn keep_newest<'a>(newest: &mut Vec<Known<'a>>, found: Known<'a>) {
    let at = newest.partition_point(|kept| *kept > found);
    if at < NEWEST {
        newest.truncate(NEWEST - 1);
        newest.insert(at, found);
    }
}

fn unmatched(
    asked: Option<&str>,
    wanted: &Range,
    count: usize,
    ignored: usize,
    newest: &[Known<'_>],
) -> Unmatched {
    if count == 0 {
        return Unmatched::NoVersions { ignored };
    }
    let prereleases = !wanted.names_prerelease() && newest.iter().any(|(version, _)| !version.pre.is_empty());
    let newest = newest.iter().map(|(_, Reverse(text))| shown(text, 80)).collect();
    match asked {
        None => Unmatched::OnlyPrereleases { count, newest },
        Some(range) => Unmatched::NoMatch { range: shown(range, 80), count, newest, prereleases },
    }
}

fn newest_of(count: usize, newest: &[String]) -> String {
    let list = newest.join(", ");
    match count {
        1 => format!("the only one is {list}"),
        count if count <= NEWEST => format!("the {count} are {list}"),
        count => format!("the five newest of {count} are {list}"),
    }
}

fn hint(prereleases: bool) -> &'static str {
    if prereleases { "; a pre-release matches only a range that names one, such as `>=1.0.0-0`" } else { "" }
}

fn beside(ignored: usize) -> String {
    match ignored {
        0 => String::new(),
        1 => ": the only name there is no version such as `1.2.3`".to_owned(),
        ignored => format!(": none of the {ignored} names there is a version such as `1.2.3`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen<'a>(range: &str, versions: &'a str) -> Result<&'a str, String> {
        let asked = (range != "-").then_some(range);
        let forward = choose(asked, versions.split(' '));
        let backward = choose(asked, versions.split(' ').rev());
        assert_eq!(forward, backward, "the order of the versions does not matter");
        forward.map_err(|error| error.to_string())
    }

    #[test]
    fn the_newest_of_a_range_is_chosen() {
        // `-` is no range.
        for (range, versions, expected) in [
            ("-", "1.0.0 1.10.0 1.9.0", "1.10.0"),
            ("", "1.0.0 1.10.0 1.9.0", "1.10.0"),
            ("  ", "1.0.0 1.10.0 1.9.0", "1.10.0"),
            ("-", "1.0.0 2.0.0-rc.1", "1.0.0"),
            ("*", "1.0.0 2.0.0-rc.1", "1.0.0"),
            ("*-0", "1.0.0 2.0.0-rc.1", "2.0.0-rc.1"),
            (">=1.0.0-0", "1.0.0 2.0.0-rc.2 2.0.0-rc.10", "2.0.0-rc.10"),
            ("2.0.0-rc.1", "1.0.0 2.0.0-rc.1 2.0.0", "2.0.0-rc.1"),
            ("1.2", "1.2.0 1.2.9 1.3.0", "1.2.9"),
            ("1.x", "1.2.0 1.2.9 1.3.0 2.0.0", "1.3.0"),
            (" ~1.2 ", "1.2.0 1.2.9 1.3.0", "1.2.9"),
            ("1.2 - 1.3", "1.2.0 1.3.1 1.4.0", "1.3.1"),
            ("1.x || 3.x", "1.2.0 2.0.0 3.1.0", "3.1.0"),
            ("1.x, !=1.3.0", "1.2.0 1.3.0", "1.2.0"),
            // Tags.
            ("1.x", "latest v1.2.0 v1.3.0 main sha-1234567", "v1.3.0"),
            ("v1.2.0", "1.2.0 1.3.0", "1.2.0"),
            ("1.2.0", "v1.2.0 v1.3.0", "v1.2.0"),
            ("-", "1.0.0 v1.0.0", "1.0.0"),
            ("-", "1.0 2 1.0.0 03.0.0", "1.0.0"),
            ("-", "1.0.0 1.0.0_build.1", "1.0.0_build.1"),
            // Build parts.
            ("-", "1.0.0+9 1.0.0+10 1.0.0", "1.0.0+10"),
            ("1.0.0", "1.0.0+9 1.0.0+10 1.0.0", "1.0.0"),
            ("1.0.0", "1.0.0+9 1.0.0+10", "1.0.0+10"),
            ("1.0.0+9", "1.0.0+9 1.0.0+10 1.0.0", "1.0.0+9"),
            ("1.0.0+9", "1.0.0_9 1.0.0_10", "1.0.0_9"),
            ("1.0.0+8", "1.0.0+9 1.0.0+10 1.0.0", "1.0.0+10"),
            ("1.0.0+9", "1.0.0+9 1.0.0_9", "1.0.0+9"),
        ] {
            assert_eq!(chosen(range, versions).as_deref(), Ok(expected), "{range} of {versions}");
        }
    }

    #[test]
    fn what_cannot_be_chosen_says_what_there_is() {
        let many: Vec<String> = (0..31).map(|minor| format!("1.{minor}.0")).collect();
        for (range, versions, expected) in [
            (
                "2.x",
                many.join(" ").as_str(),
                "no version matches `2.x`: the five newest of 31 are 1.30.0, 1.29.0, 1.28.0, 1.27.0, 1.26.0",
            ),
            ("2.x", "1.0.0", "no version matches `2.x`: the only one is 1.0.0"),
            ("2.x", "1.0.0 latest v1.1.0", "no version matches `2.x`: the 2 are v1.1.0, 1.0.0"),
            (
                "2.x",
                "2.0.0-rc.1 1.1.0",
                "no version matches `2.x`: the 2 are 2.0.0-rc.1, 1.1.0; a pre-release matches only a range that names one, such as `>=1.0.0-0`",
            ),
            (
                ">=2.0.0-rc.2",
                "2.0.0-rc.1 1.1.0",
                "no version matches `>=2.0.0-rc.2`: the 2 are 2.0.0-rc.1, 1.1.0",
            ),
            (
                "-",
                "2.0.0-rc.1 2.0.0-rc.2",
                "all versions are pre-releases: the 2 are 2.0.0-rc.2, 2.0.0-rc.1; name a range that allows them, such as `>=0.0.0-0`",
            ),
            (
                "-",
                "main latest",
                "there is no version to choose from: none of the 2 names there is a version such as `1.2.3`",
            ),
            (
                "1.x",
                "1.0",
                "there is no version to choose from: the only name there is no version such as `1.2.3`",
            ),
            (
                "new",
                "1.0.0",
                "`new` is not a range of versions: unexpected character 'n' while parsing major version number: write a version such as `1.2.3`, or a range such as `1.x` or `>=1.2, <2`",
            ),
            (
                "1.0.0_9",
                "1.0.0_9",
                "`1.0.0_9` is not a range of versions: unexpected character '_' after patch version number: write a version such as `1.2.3`, or a range such as `1.x` or `>=1.2, <2`",
            ),
        ] {
            assert_eq!(chosen(range, versions).unwrap_err(), expected, "{range} of {versions}");
        }
        assert_eq!(choose(None, std::iter::empty()), Err(Unmatched::NoVersions { ignored: 0 }));
    }

    #[test]
    fn a_message_shows_nothing_that_a_terminal_obeys_and_not_all_of_what_is_long() {
        let version = format!("1.0.0-{}", "a".repeat(500));
        let error = choose(Some("<1.0.0"), std::iter::once(version.as_str())).unwrap_err().to_string();
        assert!(error.len() < 250, "{error}");
        let error = choose(Some("1 \u{7}"), std::iter::once("1.0.0")).unwrap_err().to_string();
        assert!(error.contains("\\u{7}"), "{error}");
    }

    #[test]
    fn the_newest_comes_first() {
        let texts = ["1.0.0", "latest", "v1.10.0", "1.9.0", "1.10.0-rc.1", "1.9.0_b.2", "1.10.0"];
        let found: Vec<_> = newest_first(texts.into_iter()).into_iter().map(|(_, text)| text).collect();
        assert_eq!(found, ["1.10.0", "v1.10.0", "1.10.0-rc.1", "1.9.0_b.2", "1.9.0", "1.0.0"]);
    }

    #[test]
    fn a_tag_stands_for_a_version() {
        for (tag, version) in [
            ("1.2.3", Some("1.2.3")),
            ("v1.2.3-rc.1", Some("1.2.3-rc.1")),
            ("1.2.3_sha.abc", Some("1.2.3+sha.abc")),
            ("1.2.3+sha.abc", Some("1.2.3+sha.abc")),
            ("1.2.3_a_b", None),
            ("vv1.2.3", None),
            ("V1.2.3", None),
            ("1.2", None),
            ("1.2.3.4", None),
            (" 1.2.3", None),
            ("1.02.3", None),
            ("latest", None),
            ("sha256-0123.sig", None),
            ("", None),
        ] {
            assert_eq!(version_of_tag(tag).map(|found| found.to_string()).as_deref(), version, "{tag}");
        }
    }
}
