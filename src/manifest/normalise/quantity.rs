use serde_json::Value;

/// Most digits that are worth looking at; 27 keep every product below in 128 bits.
const MAX_DIGITS: usize = 27;
/// Largest decimal exponent that is worth looking at.
const MAX_EXPONENT: i32 = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// `n u m k M G T P E`
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `1e3`
    DecimalExponent,
}

/// The one spelling that Kubernetes calls canonical, after the rules of apimachinery's `resource.Quantity`:
/// the largest suffix that leaves an integer, no fraction, finer than nano rounded away from zero.
///
/// `None` for what is no quantity, and for values so large or long that the server would change them: those stay as
/// they are, and the server has its say.
#[must_use]
pub(super) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Go reads `.` and a bare suffix as zero; no author means that, so it is left to the server.
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (format, exponent) = suffix_of(suffix)?;
    let digits = format!("{}{fraction}", whole.trim_start_matches('0'));
    if digits.len() > MAX_DIGITS {
        return None;
    }
    let mantissa: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    let places = i32::try_from(fraction.len()).ok()?;
    let text = match format {
        Format::BinarySi => binary(mantissa, places, exponent)?,
        Format::DecimalSi | Format::DecimalExponent => decimal(mantissa, exponent - places, format)?,
    };
    Some(if negative { format!("-{text}") } else { text })
}

/// Brings a value that must be a quantity into its canonical spelling; a number becomes a string.
pub(super) fn canonicalise(value: &mut Value) {
    let text = match value {
        Value::String(text) => canonical(text),
        Value::Number(number) => canonical(&number.to_string()),
        _ => None,
    };
    if let Some(text) = text {
        *value = Value::String(text);
    }
}

/// Base-10 exponent of a decimal suffix, base-2 exponent of a binary one.
fn suffix_of(suffix: &str) -> Option<(Format, i32)> {
    let found = match suffix {
        "n" => (Format::DecimalSi, -9),
        "u" => (Format::DecimalSi, -6),
        "m" => (Format::DecimalSi, -3),
        "" => (Format::DecimalSi, 0),
        "k" => (Format::DecimalSi, 3),
        "M" => (Format::DecimalSi, 6),
        "G" => (Format::DecimalSi, 9),
        "T" => (Format::DecimalSi, 12),
        "P" => (Format::DecimalSi, 15),
        "E" => (Format::DecimalSi, 18),
        "Ki" => (Format::BinarySi, 10),
        "Mi" => (Format::BinarySi, 20),
        "Gi" => (Format::BinarySi, 30),
        "Ti" => (Format::BinarySi, 40),
        "Pi" => (Format::BinarySi, 50),
        "Ei" => (Format::BinarySi, 60),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            if exponent.abs() > MAX_EXPONENT {
                return None;
            }
            (Format::DecimalExponent, exponent)
        }
    };
    Some(found)
}

/// `mantissa * 10^scale`.
fn decimal(mut mantissa: u128, mut scale: i32, format: Format) -> Option<String> {
    if scale < -9 {
        let too_fine = u32::try_from(-9 - scale).ok()?;
        // A power beyond 128 bits exceeds any mantissa, so the quotient rounds up to one.
        mantissa = 10_u128.checked_pow(too_fine).map_or(1, |power| mantissa.div_ceil(power));
        scale = -9;
    }
    while mantissa.is_multiple_of(10) {
        mantissa /= 10;
        scale += 1;
    }
    let rest = scale.rem_euclid(3);
    mantissa = mantissa.checked_mul(10_u128.pow(rest.unsigned_abs()))?;
    scale -= rest;
    let suffix = match (format, scale) {
        (_, 0) => String::new(),
        (Format::DecimalExponent, _) => format!("e{scale}"),
        (_, -9) => "n".to_owned(),
        (_, -6) => "u".to_owned(),
        (_, -3) => "m".to_owned(),
        (_, 3) => "k".to_owned(),
        (_, 6) => "M".to_owned(),
        (_, 9) => "G".to_owned(),
        (_, 12) => "T".to_owned(),
        (_, 15) => "P".to_owned(),
        (_, 18) => "E".to_owned(),
        // There is no suffix beyond exa; apimachinery writes the number without one, which is another value.
        _ => return None,
    };
    Some(format!("{mantissa}{suffix}"))
}

/// `mantissa * 2^exponent / 10^places`: decimal below 1024 and for what is no integer, as apimachinery does.
fn binary(mantissa: u128, places: i32, exponent: i32) -> Option<String> {
    let shifted = mantissa.checked_mul(1_u128 << exponent)?;
    let divisor = 10_u128.checked_pow(places.unsigned_abs())?;
    let largest = u128::from(i64::MAX.unsigned_abs());
    if shifted.div_ceil(divisor) > largest {
        return Some(largest.to_string());
    }
    if !shifted.is_multiple_of(divisor) || shifted / divisor < 1024 {
        return decimal(shifted, -places, Format::DecimalSi);
    }
    let mut value = shifted / divisor;
    let mut steps = 0;
    while value.is_multiple_of(1024) {
        value /= 1024;
        steps += 1;
    }
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(steps)?;
    Some(format!("{value}{suffix}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Input and what `Quantity.CanonicalizeBytes` of apimachinery 0.36.3 gives for it.
    const FROM_APIMACHINERY: &str = "
0 0|0m 0|0Ki 0|00 0|-0 0|+0 0|0.0 0|1 1|1000m 1|0.5 500m|500m 500m|1024Mi 1Gi|1Gi 1Gi|1024Ki 1Mi|1023Mi 1023Mi|
1536Mi 1536Mi|1.5Gi 1536Mi|0.5Gi 512Mi|0.5Ki 512|512 512|1e3 1e3|1E3 1e3|1e-3 1e-3|1e+3 1e3|1500m 1500m|1500 1500|
1500k 1500k|1000k 1M|100k 100k|1000000 1M|1000000000 1G|1E 1E|1000P 1E|100E 100E|10E 10E|9E 9E|
9223372036854775807 9223372036854775807|9223372036854775808 9223372036854775808|10000000000000000000 10E|1n 1n|1u 1u|
0.1n 1n|0.5n 1n|1.5n 2n|0.0000000001 1n|0.00000000049 1n|1m 1m|0.1m 100u|0.001m 1u|0.0001m 100n|0.0000001m 1n|
1.0000000001 1000000001n|1.000000001 1000000001n|-1 -1|-1000m -1|-0.5 -500m|-1024Mi -1Gi|-0.0000000001 -1n|+1 1|+1000m 1|
.5 500m|5. 5|5.0 5|05 5|007 7|1.10 1100m|1k 1k|1M 1M|1G 1G|1T 1T|1P 1P|1Ki 1Ki|1Mi 1Mi|1Ti 1Ti|1Pi 1Pi|1Ei 1Ei|
8Ei 9223372036854775807|16Ei 9223372036854775807|1025Ki 1025Ki|2048Ki 2Mi|1000Ki 1000Ki|1000Mi 1000Mi|0.1Ki 102400m|
0.1Mi 104857600m|1.1Ki 1126400m|100.5Mi 102912Ki|0.3Gi 322122547200m|1e0 1|10e2 1e3|1e2 100|1e1 10|1e9 1e9|1e18 1e18|
1e19 10e18|1e21 1e21|1e-9 1e-9|1e-10 1e-9|12e-1 1200e-3|0.5e3 500|1.5e1 15|123456789012345678 123456789012345678|
1234567890123456789 1234567890123456789|12345678901234567890 12345678901234567890|123456789.123456789 123456789123456789n|
999999999999999999999m 999999999999999999999m|1e100 10e99|100m 100m|250m 250m|0.25 250m|0.1 100m|0.001 1m|2.5 2500m|
64Mi 64Mi|128974848 128974848|129M 129M|123Mi 123Mi|129e6 129e6|1E5 100e3|5E-1 500e-3|2E 2E";

    #[test]
    fn spellings_become_those_of_apimachinery() {
        for row in FROM_APIMACHINERY.split('|') {
            let (input, expected) = row.trim().split_once(' ').unwrap();
            assert_eq!(canonical(input).as_deref(), Some(expected), "{input}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_left_alone() {
        for text in [
            "",
            "1Zi",
            "1K",
            "1ki",
            "1 Gi",
            "1e",
            "1e3m",
            "1Ki1",
            "--1",
            "1_000",
            "0x10",
            "1e1.5",
            "1.2.3",
            "abc",
            ".",
            "Ki",
            "1000E",
            "1000000000000000000000",
            "1e9999",
            "½",
            "-",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_becomes_a_string_and_anything_else_stays() {
        for (value, expected) in [
            (json!(1), json!("1")),
            (json!(0.5), json!("500m")),
            (json!(1_073_741_824), json!("1073741824")),
            (json!(" 1000m "), json!("1")),
            (json!(true), json!(true)),
            (json!("x"), json!("x")),
            (json!(null), json!(null)),
        ] {
            let mut value = value;
            canonicalise(&mut value);
            assert_eq!(value, expected);
        }
    }

    proptest! {
        #[test]
        fn a_canonical_spelling_stays(text in "[+-]?[0-9]{0,20}([.][0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[+-]?[0-9]{1,3})?") {
            if let Some(once) = canonical(&text) {
                // `None` leaves it as it is, too: rounding up to whole nanos may have made it too long.
                prop_assert_eq!(canonical(&once).unwrap_or_else(|| once.clone()), once);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = canonical(&text);
        }
    }
}
