//! Scores: 64-bit floating point, read as C's `strtod` reads and printed as its `%.17g` prints.

use std::io::Write;

/// A score that a client gives: all of `text`, neither NaN nor outside what a double can hold.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    if text.first().is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    let (value, exact_range) = strtod(text)?;
    (exact_range && !value.is_nan()).then_some(value)
}

/// A bound of a range of scores: blanks before it and nothing at all are allowed, numbers too large are
/// infinite.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    strtod(text.trim_ascii_start())
        .map(|(value, _)| value)
        .filter(|value| !value.is_nan())
}

/// What SORT goes by: text ends at a zero byte, blanks before it and nothing at all are allowed.
pub(crate) fn parse_weight(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let (value, exact_range) = strtod(text.trim_ascii_start())?;
    (exact_range && !value.is_nan() && !value.is_subnormal()).then_some(value)
}

/// The value, and whether it is in the range of a double rather than cut to infinity or zero.
fn strtod(text: &[u8]) -> Option<(f64, bool)> {
    let unsigned = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    if let [b'0', b'x' | b'X', digits @ ..] = unsigned {
        let (value, is_in_range) = parse_hexadecimal(digits)?;
        return Some((if text[0] == b'-' { -value } else { value }, is_in_range));
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let named = unsigned[0].is_ascii_alphabetic();
    let mantissa = unsigned
        .split(|byte| matches!(byte, b'e' | b'E'))
        .next()
        .unwrap_or_default();
    let lost = value.is_infinite()
        || (value == 0.0 && mantissa.iter().any(|digit| matches!(digit, b'1'..=b'9')));
    Some((value, named || !lost))
}

/// `1A.8p3` after `0x`: the value, and whether it is in range.
fn parse_hexadecimal(text: &[u8]) -> Option<(f64, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    if value == 0.0 {
        return Some((0.0, true));
    }
    let exponent = i64::from(exponent) - 4 * fraction.len() as i64;
    // In two steps: what is at the edges of the range has factors beyond them.
    let half = exponent / 2;
    value = value * (half as f64).exp2() * ((exponent - half) as f64).exp2();
    Some((value, value.is_finite() && value != 0.0))
}

/// Appends `value` with 17 significant digits, without trailing zeros, in scientific notation where its
/// exponent is below -4 or above 16.
pub(crate) fn push_double(out: &mut Vec<u8>, value: f64) {
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    }
    if value == value.trunc() && value.abs() < 1e17 && (value != 0.0 || value.is_sign_positive()) {
        return super::push_i64(out, value as i64);
    }
    // One digit, a point, sixteen digits, `e` and the exponent.
    let mut text = [0u8; 40];
    let mut rest = &mut text[..];
    write!(rest, "{:.16e}", value.abs()).expect("17 digits and an exponent fit 40 bytes");
    let unused = rest.len();
    let text = &text[..40 - unused];
    let e = text
        .iter()
        .position(|&byte| byte == b'e')
        .expect("scientific notation has an e");
    let exponent: i32 = std::str::from_utf8(&text[e + 1..])
        .ok()
        .and_then(|digits| digits.parse().ok())
        .expect("an exponent is a number");
    let mut digits = [0u8; 17];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..e]);
    let used = 17
        - digits
            .iter()
            .rev()
            .take_while(|&&digit| digit == b'0')
            .count();
    let digits = &digits[..used.max(1)];

    if value.is_sign_negative() {
        out.push(b'-');
    }
    if !(-4..17).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.abs()).expect("a vector takes all bytes");
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        out.extend_from_slice(&digits[..whole.min(digits.len())]);
        out.resize(out.len() + whole.saturating_sub(digits.len()), b'0');
        if digits.len() > whole {
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(value: f64) -> String {
        let mut out = Vec::new();
        push_double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_are_printed_as_c_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.5, "-17.5"),
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (99999999999999999.0, "1e+17"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e22, "1e+22"),
            (-2.5e-7, "-2.4999999999999999e-07"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (1e16, "10000000000000000"),
            (0.5, "0.5"),
        ] {
            assert_eq!(printed(value), text);
        }
    }

    #[test]
    fn scores_are_read_as_c_reads_them() {
        for (text, value) in [
            ("1", 1.0),
            ("+1.5", 1.5),
            ("-inf", f64::NEG_INFINITY),
            ("+Infinity", f64::INFINITY),
            ("0x10", 16.0),
            ("0x0p5000", 0.0),
            ("0x1p-1074", 5e-324),
            ("0x.8p1024", 8.98846567431158e307),
            ("-0x1.8p1", -3.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("0e5", 0.0),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "0x1p5000",
            "0x1p-5000",
            "0x.1p-2147483648",
            "0xp1",
            "",
            " 1",
            "1 ",
            "nan",
            "1e400",
            "1e-400",
            "x",
            "1,5",
            "0x",
            "--1",
            "1e",
            "+",
            "(1",
        ] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_bound(b""), Some(0.0));
        assert_eq!(parse_bound(b" 2"), Some(2.0));
        assert_eq!(parse_bound(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_bound(b"nan"), None);
        for (text, value) in [
            ("", 0.0),
            (" 2", 2.0),
            ("5\0x", 5.0),
            ("-inf", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse_weight(text.as_bytes()), Some(value), "{text}");
        }
        for text in [" ", "x", "1x", "nan", "1e400", "1e-310"] {
            assert_eq!(parse_weight(text.as_bytes()), None, "{text}");
        }
    }
}
