//! Durations as Kubernetes users write them: Go's notation, `1h30m`, `90s`, `300ms`, `1.5s`.
//!
//! Invariant: `parse(&format(d)) == Ok(d)` for every duration that [`parse`] accepts, and what [`format()`]
//! writes matches [`PATTERN`], the schema pattern of every duration field.

use std::time::Duration;

/// The schema pattern of duration fields. [`parse`] accepts a little more (`0`, `us`, `ns`), as Go does.
pub const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";

/// Go keeps a duration in an `i64` of nanoseconds; what Go cannot read back is refused.
const LIMIT_NANOS: u128 = i64::MAX as u128;

/// More fraction digits than this are below a nanosecond in every unit, even in hours.
const FRACTION_DIGITS: u32 = 18;

/// Longest unit first where one is a prefix of another.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing was written.
    #[error("is empty: write a duration such as `5m` or `1h30m`")]
    Empty,
    /// A sign.
    #[error("`{0}` has a sign: write a duration of zero or more, such as `5m`")]
    Signed(String),
    /// No number where one has to stand.
    #[error("`{0}` is not a duration: write numbers with a unit, such as `5m`, `1h30m` or `300ms`")]
    Malformed(String),
    /// A number that is followed by no known unit.
    #[error("`{0}` lacks a unit after a number: use `h`, `m`, `s` or `ms`")]
    Unit(String),
    /// More than 292 years.
    #[error("`{0}` is longer than 292 years")]
    TooLong(String),
}

/// Reads a duration in Go's notation: one or more numbers, each with an optional fraction and a unit of
/// `h`, `m`, `s`, `ms`, `us` or `ns`; the single text `0` needs no unit.
///
/// A fraction finer than a nanosecond is cut off.
///
/// # Errors
/// Anything else, a sign, and more than 2^63 - 1 nanoseconds (about 292 years).
pub fn parse(text: &str) -> Result<Duration, Error> {
    match text {
        "" => return Err(Error::Empty),
        "0" => return Ok(Duration::ZERO),
        _ if text.starts_with(['-', '+']) => return Err(Error::Signed(text.to_owned())),
        _ => {}
    }
    let too_long = || Error::TooLong(text.to_owned());
    let mut nanos: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        if whole.is_empty() {
            return Err(Error::Malformed(text.to_owned()));
        }
        rest = after;
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = split_digits(after);
            if fraction.is_empty() {
                return Err(Error::Malformed(text.to_owned()));
            }
        }
        let (unit, after) = UNITS
            .iter()
            .find_map(|(name, size)| rest.strip_prefix(name).map(|after| (*size, after)))
            .ok_or_else(|| Error::Unit(text.to_owned()))?;
        rest = after;
        let whole: u128 = whole.parse().map_err(|_| too_long())?;
        nanos = whole
            .checked_mul(unit)
            .and_then(|n| n.checked_add(fraction_of(fraction, unit)))
            .and_then(|n| n.checked_add(nanos))
            .filter(|n| *n <= LIMIT_NANOS)
            .ok_or_else(too_long)?;
    }
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| too_long())
}

/// Writes a duration in hours, minutes, seconds and milliseconds, leaving out units that are zero:
/// `1h30m`, `5m`, `1.5s`, `300ms`, `0s`.
#[must_use]
pub fn format(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if seconds == 0 && nanos != 0 {
        return decimal(u64::from(nanos), 1_000_000, "ms");
    }
    let mut text = String::new();
    for (count, unit) in [(seconds / 3600, "h"), (seconds / 60 % 60, "m")] {
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    let rest = (seconds % 60) * 1_000_000_000 + u64::from(nanos);
    if rest > 0 || text.is_empty() {
        text.push_str(&decimal(rest, 1_000_000_000, "s"));
    }
    text
}

/// `count / size` as a decimal number without trailing zeros; `size` is a power of ten.
fn decimal(count: u64, size: u64, unit: &str) -> String {
    let digits = usize::try_from(size.ilog10()).unwrap_or_default();
    let fraction = format!("{:0digits$}", count % size);
    match fraction.trim_end_matches('0') {
        "" => format!("{}{unit}", count / size),
        fraction => format!("{}.{fraction}{unit}", count / size),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Nanoseconds of `0.<digits>` units.
fn fraction_of(digits: &str, unit: u128) -> u128 {
    let mut scale = 1;
    let mut value = 0;
    for digit in digits.bytes().take(FRACTION_DIGITS as usize) {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    value * unit / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn go_durations_are_read() {
        let cases: [(&str, u64); 16] = [
            ("0", 0),
            ("0s", 0),
            ("5m", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("300ms", 300_000_000),
            ("1.5s", 1_500_000_000),
            ("0.5h", 1_800_000_000_000),
            ("90s", 90_000_000_000),
            ("1s1s", 2_000_000_000),
            ("1m0.25ms", 60_000_250_000),
            ("1us", 1_000),
            ("1µs", 1_000),
            ("7ns", 7),
            ("0.0000000019s", 1),
            ("1.00000000000000000000000001s", 1_000_000_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        assert_eq!(parse(""), Err(Error::Empty));
        for text in ["-1s", "+1s", "-0"] {
            assert_eq!(parse(text), Err(Error::Signed(text.into())), "{text}");
        }
        for text in ["s", "m5", "1.s", ".5s", "1s ", " 1s", "1 s", "1h-5m", "٣s"] {
            assert!(matches!(parse(text), Err(Error::Malformed(_) | Error::Unit(_))), "{text}");
        }
        for text in ["5", "5d", "1h5", "5S", "1e3s", "00"] {
            assert_eq!(parse(text), Err(Error::Unit(text.into())), "{text}");
        }
    }

    #[test]
    fn a_duration_that_go_cannot_hold_is_refused() {
        assert_eq!(parse("9223372036854775807ns"), Ok(Duration::from_nanos(i64::MAX as u64)));
        let endless = "9".repeat(60) + "h";
        for text in ["9223372036854775808ns", "2562048h", "2562047h60m", endless.as_str()] {
            assert_eq!(parse(text), Err(Error::TooLong(text.into())), "{text}");
        }
    }

    #[test]
    fn durations_are_written_without_empty_units() {
        for (nanos, text) in [
            (0, "0s"),
            (300_000_000_000, "5m"),
            (5_400_000_000_000, "1h30m"),
            (3_600_000_000_000, "1h"),
            (3_601_000_000_000, "1h1s"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (1, "0.000001ms"),
        ] {
            assert_eq!(format(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn every_duration_survives_a_round_trip(nanos in 0..=i64::MAX as u64, shift in 0..63) {
            let duration = Duration::from_nanos(nanos >> shift);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn whatever_is_written_has_the_shape_of_the_schema(nanos in any::<u64>(), shift in 0..64) {
            let mut rest = format(Duration::from_nanos(nanos >> shift));
            while !rest.is_empty() {
                let number = rest.find(|c: char| c.is_ascii_alphabetic()).expect("a unit");
                let (whole, fraction) = rest[..number].split_once('.').unwrap_or((&rest[..number], "0"));
                prop_assert!(!whole.is_empty() && whole.bytes().all(|b| b.is_ascii_digit()));
                prop_assert!(!fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit()));
                let after = rest[number..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |n| n + number);
                prop_assert!(["ms", "s", "m", "h"].contains(&&rest[number..after]));
                rest = rest[after..].to_owned();
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[-+0-9.hmsnuµ ]{0,40}") {
            let _ = parse(&text);
        }
    }
}
