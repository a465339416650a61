//! Ranges of versions as people write them in packs and charts.
//!
//! A range is a list of comparators, all of which must hold, separated by commas or spaces; `||` separates alternatives;
//! `x` and `*` stand for any part; `1.2 - 1.4` is `>=1.2, <=1.4`. One parser serves two readers: [`matches()`] asks about a
//! version that is there already, [`Range`] chooses one of many. They differ in pre-releases, and in a bare `1.2`.

use semver::{BuildMetadata, Comparator, Op, Prerelease, Version, VersionReq};

use super::shown;

/// Bytes of a range that chooses, as in Helm.
const MAX_RANGE: usize = 512;
/// Comparators of one alternative, as in `semver`.
const MAX_COMPARATORS: usize = 32;
/// What stands for any part of a version.
const ANY: [char; 3] = ['x', 'X', '*'];
const OPERATORS: &str = "<>=^~!";

/// Whether a version lies in a range.
///
/// The version may have a leading `v` and fewer than three parts. A bare `1.2` is `^1.2`, as for Cargo. Pre-release and
/// build parts of the version are ignored unless the range itself names a pre-release other than `-0`: providers append
/// theirs to every Kubernetes version (`v1.33.2-gke.100`), and `>=1.28.0-0` is the usual way to say that this is fine.
///
/// # Errors
/// A text that is not a version or not a range; the message names it.
pub fn matches(range: &str, version: &str) -> Result<bool, String> {
    let version = parse_version(version)?;
    let release = Version::new(version.major, version.minor, version.patch);
    let mut any = false;
    for text in range.split("||") {
        let mut alternative = Alternative::parse(text, Op::Caret)?;
        alternative.forget_zeros(text)?;
        let version = if alternative.names_prerelease() { &version } else { &release };
        let Alternative { within, without } = alternative;
        any |= VersionReq { comparators: within }.matches(version)
            && !without.iter().any(|comparator| covers(comparator, version));
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

/// A range that chooses among the versions of a pack, by the rules of Helm and Flux.
///
/// A bare `1.2` is `1.2.x`. A pre-release lies in an alternative only if one of its comparators names a pre-release, of
/// whatever version; then all of them go by the order of versions alone. Masterminds/semver 3.5, which both use, is not
/// followed where it takes `^*` and `<=*` for 0.0.x and `~0.0.0` for everything, nor where `!=1.2.x` lets a pre-release in.
#[derive(Clone, Debug)]
pub struct Range {
    alternatives: Vec<Alternative>,
}

impl Range {
    /// Reads a range.
    ///
    /// # Errors
    /// What is no range; the message names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_RANGE {
            let length = text.len();
            return Err(format!(
                "`{}…` is not a range of versions: it has {length} bytes, more than {MAX_RANGE}",
                shown(text, 80)
            ));
        }
        let mut alternatives = Vec::new();
        for part in text.split("||") {
            let alternative = Alternative::parse(part, Op::Exact)?;
            // Between two bars a part is missing, which would choose any version.
            if alternative.within.is_empty() && alternative.without.is_empty() {
                return Err(wrong(text, "there is nothing in it, or on one side of `||`"));
            }
            alternatives.push(alternative);
        }
        Ok(Self { alternatives })
    }

    /// Whether a version lies in the range. Build parts do not count.
    #[must_use]
    pub fn includes(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|alternative| {
            (version.pre.is_empty() || alternative.names_prerelease())
                && alternative.within.iter().all(|comparator| holds(comparator, version))
                && !alternative.without.iter().any(|comparator| covers(comparator, version))
        })
    }

    /// Whether any pre-release can lie in it.
    #[must_use]
    pub fn names_prerelease(&self) -> bool {
        self.alternatives.iter().any(Alternative::names_prerelease)
    }
}

/// Comparators that must all hold. A comparator without a patch part may have a pre-release part, which `semver` itself
/// does not read: `>=1.2-0` is `>=1.2.0-0`.
#[derive(Clone, Debug, Default)]
struct Alternative {
    within: Vec<Comparator>,
    /// Of `!=`.
    without: Vec<Comparator>,
}

impl Alternative {
    /// A version without an operator that has fewer than three parts gets the operator `bare`.
    fn parse(text: &str, bare: Op) -> Result<Self, String> {
        let mut found = Self::default();
        let mut operator = String::new();
        let mut words = text.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let end = word.find(|letter| !OPERATORS.contains(letter)).unwrap_or(word.len());
            let (own, version) = word.split_at(end);
            operator.push_str(own);
            if version.is_empty() {
                continue;
            }
            let added = if operator.is_empty() && words.next_if_eq(&"-").is_some() {
                let last = words.next().unwrap_or_default();
                found.add(">=", version, bare).and_then(|()| found.add("<=", last, bare))
            } else {
                found.add(&operator, version, bare)
            };
            added.map_err(|error| wrong(text, &error))?;
            operator.clear();
        }
        if operator.is_empty() { Ok(found) } else { Err(wrong(text, "it ends in an operator")) }
    }

    fn add(&mut self, operator: &str, version: &str, bare: Op) -> Result<(), String> {
        if self.within.len() + self.without.len() == MAX_COMPARATORS {
            return Err(format!("it has more than {MAX_COMPARATORS} comparators"));
        }
        let op = match operator {
            "" | "=" | "!=" => Op::Exact,
            ">" => Op::Greater,
            ">=" | "=>" => Op::GreaterEq,
            "<" => Op::Less,
            "<=" | "=<" => Op::LessEq,
            "~" | "~>" => Op::Tilde,
            "^" => Op::Caret,
            _ => return Err(format!("`{}` is no operator", shown(operator, 10))),
        };
        let version = version.strip_prefix('v').unwrap_or(version);
        let (version, build) = version.split_once('+').unwrap_or((version, ""));
        BuildMetadata::new(build).map_err(|error| error.to_string())?;
        let (numbers, pre) =
            version.split_once('-').map_or((version, None), |(numbers, pre)| (numbers, Some(pre)));
        let all = numbers.split('.').all(|part| part.len() == 1 && part.starts_with(ANY));
        let mut comparator = if all {
            if matches!(op, Op::Greater | Op::Less) || operator == "!=" {
                return Err(format!("no version can be `{operator}{}`", shown(numbers, 10)));
            }
            Comparator {
                op: Op::GreaterEq,
                ..Comparator::parse("=0.0.0").map_err(|error| error.to_string())?
            }
        } else {
            let read = Comparator::parse(&format!("={numbers}")).map_err(|error| error.to_string())?;
            let partial = operator.is_empty() && read.patch.is_none() && !numbers.contains(ANY);
            Comparator { op: if partial { bare } else { op }, ..read }
        };
        if let Some(pre) = pre {
            comparator.pre = Prerelease::new(pre).map_err(|error| error.to_string())?;
            if pre.is_empty() {
                return Err("nothing follows its `-`".to_owned());
            }
        }
        if operator == "!=" {
            self.without.push(comparator);
        } else {
            self.within.push(comparator);
        }
        Ok(())
    }

    fn names_prerelease(&self) -> bool {
        self.within.iter().chain(&self.without).any(|comparator| !comparator.pre.is_empty())
    }

    /// Takes `-0` for no pre-release.
    fn forget_zeros(&mut self, text: &str) -> Result<(), String> {
        for comparator in self.within.iter_mut().chain(&mut self.without) {
            if comparator.pre.as_str() == "0" {
                comparator.pre = Prerelease::EMPTY;
            } else if comparator.patch.is_none() && !comparator.pre.is_empty() {
                return Err(wrong(text, "a pre-release follows fewer than three numbers"));
            }
        }
        Ok(())
    }
}

fn wrong(text: &str, why: &str) -> String {
    format!("`{}` is not a range of versions: {why}", shown(text, 80))
}

/// Whether a comparator holds by the order of versions: parts that it does not name are 0 where it begins, and any where it ends.
fn holds(comparator: &Comparator, version: &Version) -> bool {
    let Comparator { op, major, minor, patch, pre } = comparator;
    let from = (*major, minor.unwrap_or(0), patch.unwrap_or(0), pre);
    let at = (version.major, version.minor, version.patch, &version.pre);
    let partial = patch.is_none() && covers(comparator, version);
    let same_major = version.major == *major;
    let same_minor = same_major && minor.is_none_or(|minor| version.minor == minor);
    match op {
        Op::Greater => at > from && !partial,
        Op::GreaterEq => at >= from,
        Op::Less => at < from,
        Op::LessEq => at <= from || partial,
        Op::Tilde => at >= from && same_minor,
        Op::Caret if *major > 0 => at >= from && same_major,
        Op::Caret if minor.is_some_and(|minor| minor > 0) => at >= from && same_minor,
        Op::Caret => at >= from && same_minor && patch.is_none_or(|patch| version.patch == patch),
        // `Exact`: the parser makes no other.
        _ if patch.is_none() => at >= from && same_minor,
        _ => at == from,
    }
}

/// Whether a version is the one that the comparator names, or one of those.
fn covers(comparator: &Comparator, version: &Version) -> bool {
    let Comparator { op: _, major, minor, patch, pre } = comparator;
    version.major == *major
        && minor.is_none_or(|minor| version.minor == minor)
        && patch.is_none_or(|patch| version.patch == patch && version.pre == *pre)
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
