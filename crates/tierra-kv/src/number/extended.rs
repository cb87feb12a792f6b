//! What INCRBYFLOAT and HINCRBYFLOAT count with: x86's extended precision (64 bits of mantissa).
//!
//! Redis adds in C's `long double` and shows seventeen places after the point without trailing zeros:
//! 10.5 plus 0.1 is `10.6`. Doubles would show `10.59999999999999964`, so these sums are computed here.

use super::big::Big;

/// The longest text that is read as a number, in bytes.
const TEXT_MAX: usize = 5 * 1024 - 1;
/// The least exponent that no number has any more: values reach up to 2^16384.
const EXPONENT_END: i64 = 16384 - 63;
const PLACES: usize = 17;

/// `mantissa * 2^exponent`; the top bit of the mantissa is set where the number is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i64,
    infinite: bool,
}

impl Extended {
    pub(crate) const ZERO: Self = Self {
        negative: false,
        mantissa: 0,
        exponent: 0,
        infinite: false,
    };

    pub(crate) fn is_infinite(self) -> bool {
        self.infinite
    }

    /// The number that all of `text` is. Blanks, NaN and numbers that are too large or too small are none.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let number = if unsigned.eq_ignore_ascii_case(b"inf")
            || unsigned.eq_ignore_ascii_case(b"infinity")
        {
            Self {
                infinite: true,
                ..Self::ZERO
            }
        } else {
            Self::parse_unsigned(unsigned)?
        };
        Some(Self { negative, ..number })
    }

    fn parse_unsigned(text: &[u8]) -> Option<Self> {
        let (text, base, marks) = match text {
            [b'0', b'x' | b'X', text @ ..] => (text, 16, [b'p', b'P']),
            text => (text, 10, [b'e', b'E']),
        };
        let (mantissa, exponent) = match text.iter().position(|byte| marks.contains(byte)) {
            Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let mut digits = Big::new(0);
        let (mut places, mut seen_point, mut seen_digit) = (0, false, false);
        for &byte in mantissa {
            match char::from(byte).to_digit(base) {
                Some(digit) => {
                    digits.mul_add(base, digit);
                    places += i64::from(seen_point);
                    seen_digit = true;
                }
                None if byte == b'.' && !seen_point => seen_point = true,
                None => return None,
            }
        }
        if !seen_digit {
            return None;
        }
        if digits.is_zero() {
            return Some(Self::ZERO);
        }
        let number = if base == 16 {
            let exponent = exponent - 4 * places;
            let magnitude = digits.bits() as i64 + exponent;
            (-16400..=16390)
                .contains(&magnitude)
                .then(|| Self::whole(&digits, exponent))?
        } else {
            let exponent = exponent - places;
            let magnitude = digits.bits() as i64 * 30103 / 100_000 + exponent;
            if !(-4960..=4940).contains(&magnitude) {
                return None;
            }
            if exponent >= 0 {
                digits.mul_power_of_ten(exponent as usize);
                Self::whole(&digits, 0)
            } else {
                Self::quotient(digits, exponent.unsigned_abs() as usize)
            }
        };
        (!number.infinite).then_some(number)
    }

    /// `digits * 2^exponent`.
    fn whole(digits: &Big, exponent: i64) -> Self {
        // Sixty-five bits: the lowest decides about rounding, together with those below it.
        let low = digits.bits().saturating_sub(65);
        let (bits, sticky) = digits.bits_from(low);
        let top = digits.bits_from(low + 1).0;
        Self::rounded(
            u128::from(top) << 2 | u128::from(bits & 1) << 1 | u128::from(sticky),
            exponent + low as i64 - 1,
        )
    }

    /// `digits / 10^places`, by long division of as many bits as are wanted.
    fn quotient(mut digits: Big, places: usize) -> Self {
        let mut divisor = Big::new(1);
        divisor.mul_power_of_ten(places);
        // Aligned so that the quotient is between a half and two.
        let shift = divisor.bits() as i64 - digits.bits() as i64;
        if shift > 0 {
            digits.shl(shift as usize)
        } else {
            divisor.shl(-shift as usize)
        }
        let mut bits = 0u128;
        for _ in 0..67 {
            bits <<= 1;
            if digits.cmp(&divisor) != std::cmp::Ordering::Less {
                digits.sub(&divisor);
                bits |= 1;
            }
            digits.shl(1);
        }
        Self::rounded(bits << 1 | u128::from(!digits.is_zero()), -shift - 67)
    }

    /// `bits * 2^exponent`, rounded to 64 bits, to the even one where two are as near.
    fn rounded(bits: u128, exponent: i64) -> Self {
        if bits == 0 {
            return Self::ZERO;
        }
        let excess = 64 - i64::from(bits.leading_zeros());
        let (mut mantissa, mut exponent) = if excess <= 0 {
            ((bits as u64) << -excess, exponent + excess)
        } else {
            let kept = (bits >> excess) as u64;
            let (rest, half) = (bits & ((1 << excess) - 1), 1u128 << (excess - 1));
            let up = rest > half || (rest == half && kept & 1 == 1);
            match kept.checked_add(u64::from(up)) {
                Some(mantissa) => (mantissa, exponent + excess),
                None => (1 << 63, exponent + excess + 1),
            }
        };
        let infinite = exponent >= EXPONENT_END;
        if infinite {
            (mantissa, exponent) = (0, 0);
        }
        Self {
            negative: false,
            mantissa,
            exponent,
            infinite,
        }
    }

    /// The sum; infinite where one of them is, or where it is too large.
    pub(crate) fn plus(self, other: Self) -> Self {
        if self.infinite || other.infinite {
            return Self {
                infinite: true,
                ..self
            };
        }
        if self.mantissa == 0 {
            return other;
        }
        if other.mantissa == 0 {
            return self;
        }
        let key = |number: Self| (number.exponent, number.mantissa);
        let (large, small) = if key(self) >= key(other) {
            (self, other)
        } else {
            (other, self)
        };
        let shift = (large.exponent - small.exponent) as u32;
        let wide = u128::from(small.mantissa) << 62;
        let aligned = match shift {
            0 => wide,
            1..=126 => wide >> shift | u128::from(wide & ((1 << shift) - 1) != 0),
            _ => 1,
        };
        let wide = u128::from(large.mantissa) << 62;
        let sum = if large.negative == small.negative {
            wide + aligned
        } else {
            wide - aligned
        };
        Self {
            negative: large.negative,
            ..Self::rounded(sum, large.exponent - 62)
        }
    }

    /// A time in seconds in milliseconds, rounded up. What is too large or too small for that becomes the least number, as where
    /// x86 converts it.
    pub(crate) fn milliseconds(self) -> i64 {
        let product = Self::rounded(u128::from(self.mantissa) * 1000, self.exponent);
        let magnitude = match product.exponent {
            _ if self.infinite || product.infinite => None,
            _ if product.mantissa == 0 => Some(0),
            // The top bit of the mantissa is set: that is too large unless it is shifted.
            0.. => None,
            below => {
                let (wide, shift) = (u128::from(product.mantissa), below.unsigned_abs().min(127));
                let has_rest = wide & ((1 << shift) - 1) != 0;
                let up = i64::from(has_rest && !self.negative);
                let whole = i64::try_from(wide >> shift).ok();
                whole.and_then(|whole| whole.checked_add(up))
            }
        };
        match magnitude {
            Some(ms) if self.negative => -ms,
            Some(ms) => ms,
            None => i64::MIN,
        }
    }

    /// Appends the number with up to seventeen places.
    pub(crate) fn push(self, out: &mut Vec<u8>) {
        let at = out.len();
        if self.negative {
            out.push(b'-');
        }
        if self.infinite {
            return out.extend_from_slice(b"inf");
        }
        if self.exponent >= 0 {
            let mut whole = Big::new(self.mantissa);
            whole.shl(self.exponent as usize);
            out.extend_from_slice(&whole.decimal());
        } else {
            let scaled = u128::from(self.mantissa) * 10u128.pow(PLACES as u32);
            let shift = self.exponent.unsigned_abs();
            let rounded = match shift {
                1..=127 => {
                    let (kept, rest, half) = (
                        scaled >> shift,
                        scaled & ((1 << shift) - 1),
                        1u128 << (shift - 1),
                    );
                    kept + u128::from(rest > half || (rest == half && kept & 1 == 1))
                }
                _ => 0,
            };
            let digits = format!("{rounded:0width$}", width = PLACES + 1);
            let (whole, places) = digits.split_at(digits.len() - PLACES);
            out.extend_from_slice(whole.as_bytes());
            let places = places.trim_end_matches('0');
            if !places.is_empty() {
                out.push(b'.');
                out.extend_from_slice(places.as_bytes());
            }
        }
        if &out[at..] == b"-0" {
            out.remove(at);
        }
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // More digits than these are out of range anyway, whichever they are.
    Some(
        text.parse()
            .unwrap_or(if text.starts_with('-') {
                -1_000_000
            } else {
                1_000_000
            })
            .clamp(-1_000_000, 1_000_000),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let number =
            |text: &str| Extended::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        let mut out = Vec::new();
        number(a).plus(number(b)).push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn seconds_are_milliseconds_rounded_up() {
        for (seconds, ms) in [
            ("0", 0),
            ("-0", 0),
            ("1", 1000),
            ("0.0015", 2),
            ("2.5", 2500),
            ("1e-400", 1),
            ("0x1p-12", 1),
            ("-0.0009", 0),
            ("-0.0011", -1),
            ("-3", -3000),
            ("9223372036854775", 9_223_372_036_854_775_000),
            ("9223372036854775.807", i64::MAX),
            ("9223372036854775.808", i64::MIN),
            ("9223372036854776", i64::MIN),
            ("-9223372036854776", i64::MIN),
            ("1e4900", i64::MIN),
            ("inf", i64::MIN),
            ("-inf", i64::MIN),
        ] {
            let number = Extended::parse(seconds.as_bytes()).unwrap();
            assert_eq!(number.milliseconds(), ms, "{seconds}");
        }
    }

    /// Sums as Debian's redis-server 7.0 gives them.
    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, text) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0", "0.1", "0.1"),
            ("1", "-1", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("3.0", "1.1", "4.1"),
            ("1e20", "1", "100000000000000000000"),
            ("0", "1e-17", "0.00000000000000001"),
            ("0", "1e-18", "0"),
            ("0", "-1e-18", "0"),
            ("9007199254740993", "0", "9007199254740993"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("0x10", "0x1.8p1", "19"),
            ("1e30", "0", "1000000000000000000024696061952"),
        ] {
            assert_eq!(sum(a, b), text, "{a} + {b}");
        }
        assert_eq!(sum("1e4931", "0").len(), 4932);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", ".", "e5", "1e", "1e+", "nan", " 1", "1 ", "1..2", "1e5000", "1e-6000", "+-1",
            "0x", "one",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert!(Extended::parse(b"-Inf").is_some_and(Extended::is_infinite));
        let large = Extended::parse(b"1.18e4932").unwrap();
        assert!(large.plus(large).is_infinite());
    }

    /// Halves are exact in every precision: an oracle that needs no other arithmetic.
    #[test]
    fn sums_of_halves_are_exact() {
        for a in -40i64..40 {
            for b in -40i64..40 {
                let text = |halves: i64| {
                    format!(
                        "{}{}.{}",
                        if halves < 0 { "-" } else { "" },
                        halves.abs() / 2,
                        halves.abs() % 2 * 5
                    )
                };
                let expected = text(a + b);
                let expected = expected.strip_suffix(".0").unwrap_or(&expected).to_string();
                assert_eq!(
                    sum(&text(a), &text(b)),
                    if expected == "-0" { "0" } else { &expected }
                );
            }
        }
    }
}
