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
        ("1.2", "1.9.0", true),
        ("1.2 - 1.4", "1.4.7", true),
        ("1.2 - 1.4", "1.5.0", false),
        (">=1, !=1.5.x", "1.5.2", false),
        (">=1, !=1.5.x", "1.6.2", true),
        ("!=1.5.2", "1.5.2-gke.1", false),
        ("*-0", "1.0.0-rc.1", true),
        ("1.28-0", "1.30.0-gke.1", true),
    ] {
        assert_eq!(matches(range, version), Ok(expected), "{range} {version}");
    }
}

#[test]
fn nonsense_is_named() {
    assert!(matches("new", "1.0.0").unwrap_err().contains("`new` is not a range"));
    assert!(matches(">=1", "one").unwrap_err().contains("`one` is not a version"));
    assert!(matches(">=99999999999999999999", "1").is_err());
    assert!(matches(">=1.2-rc.1", "1.2.0").is_err());
    assert!(matches("1.2.3, >=", "1.2.0").unwrap_err().contains("ends in an operator"));
}

/// What the rows of the next two tests choose from. Masterminds/semver 3.5.0, which is that of Helm and Flux, chooses the same.
const MANY: [&str; 14] = [
    "0.0.3",
    "0.0.4",
    "0.2.3",
    "0.2.9",
    "0.3.0",
    "1.0.0-rc.1",
    "1.0.0",
    "1.2.0",
    "1.2.3",
    "1.2.4-beta.2",
    "1.9.0",
    "2.0.0-alpha",
    "2.0.0",
    "2.3.5",
];

#[test]
fn a_range_chooses_as_helm_and_flux_do() {
    for (range, expected) in [
        ("*", "0.0.3 0.0.4 0.2.3 0.2.9 0.3.0 1.0.0 1.2.0 1.2.3 1.9.0 2.0.0 2.3.5"),
        (">=*", "0.0.3 0.0.4 0.2.3 0.2.9 0.3.0 1.0.0 1.2.0 1.2.3 1.9.0 2.0.0 2.3.5"),
        ("x.x", "0.0.3 0.0.4 0.2.3 0.2.9 0.3.0 1.0.0 1.2.0 1.2.3 1.9.0 2.0.0 2.3.5"),
        ("1.2.3", "1.2.3"),
        ("=1.2.3", "1.2.3"),
        ("v1.2.3", "1.2.3"),
        ("1.2.3+build", "1.2.3"),
        ("1.2", "1.2.0 1.2.3"),
        ("=1.2", "1.2.0 1.2.3"),
        ("1", "1.0.0 1.2.0 1.2.3 1.9.0"),
        ("1.x", "1.0.0 1.2.0 1.2.3 1.9.0"),
        ("1.X.x", "1.0.0 1.2.0 1.2.3 1.9.0"),
        ("1.2.*", "1.2.0 1.2.3"),
        ("~1", "1.0.0 1.2.0 1.2.3 1.9.0"),
        ("~1.2", "1.2.0 1.2.3"),
        ("~1.2.1", "1.2.3"),
        ("~> 1.2.1", "1.2.3"),
        ("^1.2", "1.2.0 1.2.3 1.9.0"),
        ("^1.2.1", "1.2.3 1.9.0"),
        ("^0", "0.0.3 0.0.4 0.2.3 0.2.9 0.3.0"),
        ("^0.0", "0.0.3 0.0.4"),
        ("^0.0.3", "0.0.3"),
        ("^0.2.4", "0.2.9"),
        ("^0.2", "0.2.3 0.2.9"),
        (">1", "2.0.0 2.3.5"),
        (">1.2", "1.9.0 2.0.0 2.3.5"),
        (">1.2.0", "1.2.3 1.9.0 2.0.0 2.3.5"),
        ("<=1", "0.0.3 0.0.4 0.2.3 0.2.9 0.3.0 1.0.0 1.2.0 1.2.3 1.9.0"),
        ("<=1.2, >=1", "1.0.0 1.2.0 1.2.3"),
        ("=< 1.2.0 => 1", "1.0.0 1.2.0"),
        ("<1.2, >0.3", "1.0.0"),
        (">=1.2 <2", "1.2.0 1.2.3 1.9.0"),
        ("0.3 - 1.2", "0.3.0 1.0.0 1.2.0 1.2.3"),
        ("0.2.4 - 1.2.2", "0.2.9 0.3.0 1.0.0 1.2.0"),
        ("1.0 - 1.2 != 1.2.0", "1.0.0 1.2.3"),
        ("1.x, !=1.2.x", "1.0.0 1.9.0"),
        ("1.x, !=1.9.0", "1.0.0 1.2.0 1.2.3"),
        ("!=1.x, >=1", "2.0.0 2.3.5"),
        ("0.2.3 || 2.x", "0.2.3 2.0.0 2.3.5"),
        ("<0.1||>=2.1", "0.0.3 0.0.4 2.3.5"),
    ] {
        assert_eq!(lies_in(range), expected, "{range}");
    }
}

#[test]
fn a_prerelease_lies_only_in_a_range_that_names_one() {
    for (range, expected) in [
        (">=1.0.0-0", "1.0.0-rc.1 1.0.0 1.2.0 1.2.3 1.2.4-beta.2 1.9.0 2.0.0-alpha 2.0.0 2.3.5"),
        (">=1-0", "1.0.0-rc.1 1.0.0 1.2.0 1.2.3 1.2.4-beta.2 1.9.0 2.0.0-alpha 2.0.0 2.3.5"),
        (">1.9.0-0", "1.9.0 2.0.0-alpha 2.0.0 2.3.5"),
        (">=1.9-0, <2", "1.9.0 2.0.0-alpha"),
        (">=1.9, <2.0.0-0", "1.9.0"),
        ("*-0, <0.1", "0.0.3 0.0.4"),
        ("*-0, >=2", "2.0.0 2.3.5"),
        ("1.0.0-rc.1", "1.0.0-rc.1"),
        ("1.0.0-rc.2", ""),
        ("~1.2.0-0", "1.2.0 1.2.3 1.2.4-beta.2"),
        ("~1.2-0", "1.2.0 1.2.3 1.2.4-beta.2"),
        ("1.2.x-0", "1.2.0 1.2.3 1.2.4-beta.2"),
        ("1.x, >=0.3.0-0", "1.0.0 1.2.0 1.2.3 1.2.4-beta.2 1.9.0"),
        ("^0.0-0", "0.0.3 0.0.4"),
        ("^0-0, >0.2", "0.3.0"),
        ("^1.2.4-beta.1", "1.2.4-beta.2 1.9.0"),
        ("^1.2.4-beta.3", "1.9.0"),
        ("1.2.4-alpha - 2.0.0-alpha", "1.2.4-beta.2 1.9.0 2.0.0-alpha"),
        (">=1.0.0-0, !=1.0.0-rc.1, <1.2", "1.0.0"),
        // An alternative speaks for itself.
        ("1.0.0-rc.1 || >=2", "1.0.0-rc.1 2.0.0 2.3.5"),
    ] {
        assert_eq!(lies_in(range), expected, "{range}");
    }
    assert!(Range::parse("1 || >=2.0.0-0").unwrap().names_prerelease());
    assert!(!Range::parse("1 || >=2.0.0").unwrap().names_prerelease());
}

fn lies_in(range: &str) -> String {
    let range = Range::parse(range).unwrap();
    let found: Vec<&str> =
        MANY.into_iter().filter(|version| range.includes(&Version::parse(version).unwrap())).collect();
    found.join(" ")
}

#[test]
fn what_is_no_range_is_named() {
    for (range, why) in [
        ("", "nothing in it"),
        (" , ", "nothing in it"),
        ("1.x ||", "one side of `||`"),
        ("|| 1.x", "one side of `||`"),
        ("latest", "`latest` is not a range"),
        (">=", "ends in an operator"),
        ("1.2 >", "ends in an operator"),
        (">>1", "`>>` is no operator"),
        ("!1", "`!` is no operator"),
        ("!=*", "no version can be `!=*`"),
        (">x", "no version can be `>x`"),
        ("1.x.3", "not a range"),
        ("1.2.3.4", "not a range"),
        ("01.2", "not a range"),
        ("1.2.3-", "nothing follows its `-`"),
        ("1.2.3-01", "not a range"),
        ("1.2.3+a_b", "not a range"),
        ("1 -", "not a range"),
        ("- 1", "not a range"),
        ("1 - >2", "not a range"),
        ("99999999999999999999", "not a range"),
        ("1.0.0 \u{1b}[2J", "\\u{1b}[2J"),
    ] {
        let error = Range::parse(range).unwrap_err();
        assert!(error.contains(why), "{range}: {error}");
    }
    assert!(Range::parse(&"1,".repeat(32)).is_ok());
    assert!(Range::parse(&"1,".repeat(33)).unwrap_err().contains("more than 32 comparators"));
    let long = Range::parse(&"1 || ".repeat(200)).unwrap_err();
    assert!(long.contains("1000 bytes") && long.len() < 200, "{long}");
}
