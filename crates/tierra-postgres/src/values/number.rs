//! Numbers: DECIMAL digit by digit, and floating-point numbers as PostgreSQL prints them.

use arrow::datatypes::i256;
use bytes::{BufMut, BytesMut};

/// A number's sign, digits, and how many of these follow the point.
pub(super) struct Decimal<'a> {
    pub(super) is_negative: bool,
    /// Without leading zeros; `0` for zero.
    pub(super) digits: &'a [u8],
    pub(super) scale: i8,
}

impl Decimal<'_> {
    /// Calls `then` with the digits of `value`.
    pub(super) fn of_128(value: i128, scale: i8, then: impl FnOnce(&Decimal<'_>)) {
        let mut buffer = itoa::Buffer::new();
        then(&Decimal {
            is_negative: value < 0,
            digits: buffer.format(value.unsigned_abs()).as_bytes(),
            scale,
        });
    }

    pub(super) fn of_256(value: i256, scale: i8, then: impl FnOnce(&Decimal<'_>)) {
        let text = value.to_string();
        then(&Decimal {
            is_negative: text.starts_with('-'),
            digits: text.trim_start_matches('-').as_bytes(),
            scale,
        });
    }

    /// As text, with all digits after the point.
    pub(super) fn put_text(&self, output: &mut BytesMut) {
        if self.is_negative {
            output.put_u8(b'-');
        }
        let scale = usize::from(self.scale.max(0).unsigned_abs());
        let whole = self.digits.len().saturating_sub(scale);
        match whole {
            0 => output.put_u8(b'0'),
            whole => output.put_slice(&self.digits[..whole]),
        }
        if self.scale < 0 && self.digits != b"0" {
            output.put_bytes(b'0', usize::from(self.scale.unsigned_abs()));
        }
        if scale > 0 {
            output.put_u8(b'.');
            output.put_bytes(b'0', scale.saturating_sub(self.digits.len()));
            output.put_slice(&self.digits[whole..]);
        }
    }

    /// As PostgreSQL's numeric: groups of four digits from the point.
    ///
    /// ```text
    /// i16 groups | i16 weight of the first | u16 sign | u16 digits after the point | i16 group ..
    /// ```
    pub(super) fn put_binary(&self, output: &mut BytesMut) {
        let scale = i32::from(self.scale);
        // The power of ten of the first digit, and of the group that it is in.
        let first = self.digits.len() as i32 - 1 - scale;
        let first_group = first.div_euclid(4);
        let last_group = (-scale).div_euclid(4);
        // The digit of a power of ten.
        let digit = |power: i32| {
            let place = first - power;
            match usize::try_from(place) {
                Ok(place) => self.digits.get(place).map_or(0, |digit| digit - b'0'),
                Err(_) => 0,
            }
        };
        let group = |group: i32| {
            (0..4).fold(0_i16, |sum, place| {
                sum * 10 + i16::from(digit(group * 4 + 3 - place))
            })
        };
        // Groups of zeros at the ends are left out.
        let mut groups = last_group..=first_group;
        while let Some(last) = groups.clone().next()
            && group(last) == 0
        {
            groups.next();
        }
        let count = groups.clone().count();
        let weight = match count {
            0 => 0,
            _ => first_group,
        };
        let is_negative = self.is_negative && count > 0;
        output.put_i16(count as i16);
        output.put_i16(weight as i16);
        output.put_u16(if is_negative { 0x4000 } else { 0 });
        output.put_u16(self.scale.max(0).unsigned_abs().into());
        for place in groups.rev() {
            output.put_i16(group(place));
        }
    }
}

/// A double or a float, in the fewest digits that mean it, as PostgreSQL's.
pub(super) fn put_float<T: Float>(value: T, output: &mut BytesMut) {
    if value.is_nan() {
        return output.put_slice(b"NaN");
    }
    if value.is_infinite() {
        let text: &[u8] = if value.is_negative() {
            b"-Infinity"
        } else {
            b"Infinity"
        };
        return output.put_slice(text);
    }
    let mut buffer = zmij::Buffer::new();
    let Shortest {
        sign,
        digits,
        len,
        exponent,
    } = Shortest::of(buffer.format_finite(value));
    let digits = &digits[..len];
    output.put_slice(sign);
    if !(-4..T::FIXED_DIGITS).contains(&exponent) {
        output.put_slice(&digits[..1]);
        if len > 1 {
            output.put_u8(b'.');
            output.put_slice(&digits[1..]);
        }
        output.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            output.put_u8(b'0');
        }
        return output.put_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
    }
    if exponent < 0 {
        output.put_slice(b"0.");
        output.put_bytes(b'0', exponent.unsigned_abs() as usize - 1);
        return output.put_slice(digits);
    }
    let whole = exponent as usize + 1;
    output.put_slice(&digits[..whole.min(len)]);
    output.put_bytes(b'0', whole.saturating_sub(len));
    if len > whole {
        output.put_u8(b'.');
        output.put_slice(&digits[whole..]);
    }
}

/// The fewest digits that mean a number: d.dd x 10 to the exponent.
struct Shortest {
    sign: &'static [u8],
    /// Of these, the first `len`: neither the first nor the last is a zero, unless the number is.
    digits: [u8; 24],
    len: usize,
    exponent: i32,
}

impl Shortest {
    /// Of a text like `-0.0012`, `100.0` or `1.5e-7`.
    fn of(text: &str) -> Self {
        let (sign, text): (&[u8], _) = match text.strip_prefix('-') {
            Some(text) => (b"-", text),
            None => (b"", text),
        };
        let (text, power) = text.split_once('e').unwrap_or((text, "0"));
        let power: i32 = power.parse().expect("it is a number");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let (mut digits, mut len, mut zeros) = ([b'0'; 24], 0, 0);
        for digit in whole.bytes().chain(fraction.bytes()) {
            if len == 0 && digit == b'0' {
                zeros += 1;
            } else {
                digits[len] = digit;
                len += 1;
            }
        }
        if len == 0 {
            return Self {
                sign,
                digits,
                len: 1,
                exponent: 0,
            };
        }
        while digits[len - 1] == b'0' {
            len -= 1;
        }
        Self {
            sign,
            digits,
            len,
            exponent: power + whole.len() as i32 - 1 - zeros,
        }
    }
}

/// A type of floating-point numbers.
pub(super) trait Float: zmij::Float + Copy {
    /// The exponent from which it is written.
    const FIXED_DIGITS: i32;
    fn is_nan(self) -> bool;
    fn is_infinite(self) -> bool;
    fn is_negative(self) -> bool;
}

macro_rules! float {
    ($ty:ty, $digits:literal) => {
        impl Float for $ty {
            const FIXED_DIGITS: i32 = $digits;
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn is_infinite(self) -> bool {
                self.is_infinite()
            }
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
        }
    };
}

float!(f64, 15);
float!(f32, 6);

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: i128, scale: i8) -> String {
        let mut output = BytesMut::new();
        Decimal::of_128(value, scale, |decimal| decimal.put_text(&mut output));
        String::from_utf8(output.to_vec()).unwrap()
    }

    fn binary(value: i128, scale: i8) -> Vec<i16> {
        let mut output = BytesMut::new();
        Decimal::of_128(value, scale, |decimal| decimal.put_binary(&mut output));
        let words = output.chunks(2);
        words
            .map(|word| i16::from_be_bytes([word[0], word[1]]))
            .collect()
    }

    #[test]
    fn decimals_keep_their_digits() {
        assert_eq!(text(12_345, 2), "123.45");
        assert_eq!(text(-5, 2), "-0.05");
        assert_eq!(text(0, 3), "0.000");
        assert_eq!(text(7, 0), "7");
        assert_eq!(text(7, -2), "700");
        assert_eq!(text(0, -2), "0");
        let most = 10_i128.pow(38) - 1;
        assert_eq!(text(-most, 0), format!("-{most}"));
        assert_eq!(text(most, 38), format!("0.{most}"));
    }

    /// As `numeric_send` of PostgreSQL 15 has them.
    #[test]
    fn decimals_are_groups_of_four() {
        assert_eq!(binary(12_345, 2), [2, 0, 0, 2, 123, 4500]);
        assert_eq!(binary(-5, 2), [1, -1, 0x4000, 2, 500]);
        assert_eq!(binary(0, 2), [0, 0, 0, 2]);
        assert_eq!(binary(100_000_000, 0), [1, 2, 0, 0, 1]);
        assert_eq!(binary(1, 8), [1, -2, 0, 8, 1]);
        assert_eq!(binary(100_000_001, 4), [3, 1, 0, 4, 1, 0, 1]);
        assert_eq!(binary(7, -3), [1, 0, 0, 0, 7000]);
    }

    #[test]
    fn floats_are_as_short_as_postgresql_prints_them() {
        let text = |value: f64| {
            let mut output = BytesMut::new();
            put_float(value, &mut output);
            String::from_utf8(output.to_vec()).unwrap()
        };
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (100.0, "100"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123_456.789, "123456.789"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e300, "1e+300"),
            (-2.5e-300, "-2.5e-300"),
            (1_234_567_890_123_456.0, "1.234567890123456e+15"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(text(value), expected);
        }
        let mut output = BytesMut::new();
        put_float(1e6_f32, &mut output);
        assert_eq!(&output[..], b"1e+06");
    }

    #[test]
    fn floats_mean_themselves_in_the_fewest_digits() {
        let digits = |text: &str| {
            let number = text.split('e').next().unwrap_or_default();
            let digits: String = number.chars().filter(char::is_ascii_digit).collect();
            digits.trim_matches('0').len()
        };
        // All exponents, and mantissas that are spread over theirs.
        let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..200_000 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let double = f64::from_bits(bits);
            let float = f32::from_bits((bits >> 32) as u32);
            let mut output = BytesMut::new();
            if double.is_finite() {
                put_float(double, &mut output);
                let text = std::str::from_utf8(&output).unwrap();
                assert_eq!(text.parse::<f64>().unwrap().to_bits(), double.to_bits());
                assert_eq!(digits(text), digits(&format!("{double:e}")), "{text}");
            }
            output.clear();
            if float.is_finite() {
                put_float(float, &mut output);
                let text = std::str::from_utf8(&output).unwrap();
                assert_eq!(text.parse::<f32>().unwrap().to_bits(), float.to_bits());
                assert_eq!(digits(text), digits(&format!("{float:e}")), "{text}");
            }
        }
    }
}
