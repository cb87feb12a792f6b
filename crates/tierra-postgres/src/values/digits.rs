//! Numerics of the client, exactly: digits of text, and PostgreSQL's binary form.

use bytes::{Buf, Bytes};

use crate::error::Fault;

/// The most digits of a DECIMAL.
pub(super) const DIGITS_MOST: usize = 38;

/// A number's digits, as written.
pub(super) struct Digits {
    value: i128,
    /// Digits after the point.
    pub(super) scale: i32,
    /// The digit behind them, and whether any is not zero from there on: more than any DECIMAL has.
    next: u8,
    has_more: bool,
}

impl Digits {
    /// `None` if `text` is no number.
    pub(super) fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let (text, exponent) = match text.split_once(['e', 'E']) {
            Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut digits = all().skip_while(|byte| *byte == b'0');
        let value = digits.by_ref().take(DIGITS_MOST);
        let value = value.fold(0_i128, |value, byte| value * 10 + i128::from(byte - b'0'));
        // What is left of the digits counts only for rounding.
        let (mut left, mut next, mut has_more) = (0_i32, 0, false);
        for byte in digits {
            if left == 0 {
                next = byte - b'0';
            }
            left = left.checked_add(1)?;
            has_more |= byte != b'0';
        }
        let scale = i32::try_from(fraction.len()).ok()?;
        let mut number = Self {
            value: if is_negative { -value } else { value },
            scale: scale.checked_sub(exponent)?.checked_sub(left)?,
            next,
            has_more,
        };
        if left > 0 && !has_more {
            // So many zeros are not meant to be digits of a type.
            while number.scale > 0 && number.value % 10 == 0 {
                number.value /= 10;
                number.scale -= 1;
            }
        }
        Some(number)
    }

    /// The number with no more digits than a DECIMAL can have after its point. If digits are lost the last one is not zero: so it
    /// compares with numbers that have fewer digits as it would with all of its own.
    pub(super) fn shortened(self) -> Self {
        let sign = self.value.signum();
        let excess = self.scale.saturating_sub(DIGITS_MOST as i32).max(0);
        let (value, is_lost) = match 10_i128.checked_pow(excess.unsigned_abs()) {
            Some(power) => (self.value / power, self.has_more || self.value % power != 0),
            None => (0, self.value != 0),
        };
        let value = match is_lost && value % 10 == 0 {
            true => value + sign,
            false => value,
        };
        Self {
            value,
            scale: self.scale - excess,
            next: 0,
            has_more: false,
        }
    }

    /// The number with `scale` digits after the point, rounded half away from zero; `None` beyond `precision` digits.
    pub(super) fn rounded(&self, precision: u8, scale: i8) -> Option<i128> {
        let shift = i32::from(scale).checked_sub(self.scale)?;
        let power = |by: i32| 10_i128.checked_pow(by.unsigned_abs());
        let value = match (self.value, shift) {
            (0, _) => 0,
            (value, 0) => {
                let up = i128::from(self.next >= 5) * value.signum();
                value + up
            }
            // Digits that are not known would be some of them.
            (_, 1..) if self.has_more => return None,
            (value, 0..) => value.checked_mul(power(shift)?)?,
            (value, _) => match power(shift) {
                // Less than half of the last digit.
                None => 0,
                Some(power) => {
                    let half = power / 2;
                    let (whole, rest) = (value / power, value % power);
                    whole + i128::from(rest >= half) - i128::from(rest <= -half)
                }
            },
        };
        let most = 10_i128.pow(precision.into());
        (-most < value && value < most).then_some(value)
    }
}

/// A binary numeric as text (its form: `number.rs`).
pub(super) fn numeric_text(mut bytes: Bytes) -> Result<String, Fault> {
    let wrong = || Fault::new("22P03", "invalid binary numeric");
    if bytes.len() < 8 {
        return Err(wrong());
    }
    let count = bytes.get_i16();
    let weight = i32::from(bytes.get_i16());
    let sign = bytes.get_u16();
    let scale = usize::from(bytes.get_u16());
    if usize::try_from(count).ok().map(|count| count * 2) != Some(bytes.len()) {
        return Err(wrong());
    }
    let mut text = match sign {
        0 => String::new(),
        0x4000 => "-".to_owned(),
        _ => {
            return Err(Fault::new(
                "22P02",
                "NaN and infinity are no values of type numeric here",
            ));
        }
    };
    // Others have more digits than any DECIMAL, and could be long.
    if count > 0 && !(-20..=20).contains(&weight) {
        return Err(Fault::new(
            "22003",
            "a number has more digits than any type of Tierra",
        ));
    }
    let mut groups = Vec::with_capacity(bytes.len() / 2);
    while bytes.has_remaining() {
        let group = bytes.get_u16();
        groups.push(group);
        if group > 9_999 {
            return Err(wrong());
        }
    }
    let group = |power: i32| {
        let place = usize::try_from(weight - power).ok();
        place
            .and_then(|place| groups.get(place))
            .copied()
            .unwrap_or(0)
    };
    for power in (0..=weight.max(0)).rev() {
        text += &format!("{:04}", group(power));
    }
    text.push('.');
    let last = weight + 1 - groups.len() as i32;
    let fraction: String = (last..0)
        .rev()
        .map(|power| format!("{:04}", group(power)))
        .collect();
    let kept = scale.min(fraction.len());
    text += &fraction[..kept];
    // Digits that the sender did not mean to show count all the same.
    text += fraction[kept..].trim_end_matches('0');
    for _ in fraction.len()..scale.min(DIGITS_MOST) {
        text.push('0');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_half_away_from_zero() {
        let rounded = |text: &str| Digits::of(text).unwrap().rounded(9, 2);
        for (text, value) in [
            ("1.005", 101),
            ("-1.005", -101),
            ("1.0049", 100),
            ("1e2", 10_000),
            ("125e-4", 1),
            ("1e-60", 0),
            ("0e99", 0),
        ] {
            assert_eq!(rounded(text), Some(value), "{text}");
        }
        // More digits than any DECIMAL has.
        let long = format!("1.005{}", "0".repeat(50));
        assert_eq!(rounded(&long), Some(101));
        assert_eq!(
            rounded(&format!("{}1.00499{}", "0".repeat(50), "9".repeat(50))),
            Some(100)
        );
        assert_eq!(rounded(&"9".repeat(50)), None);
        let of = |text: &str| Digits::of(text).unwrap();
        let nines = format!("-{}", "9".repeat(38));
        assert_eq!(of(&format!("{nines}.4")).rounded(38, 0), nines.parse().ok());
        assert_eq!(of(&format!("{nines}.5")).rounded(38, 0), None);
        let half = format!("-0.5{}1", "0".repeat(60));
        let short = of(&half).shortened();
        assert_eq!((short.scale, short.value % 10), (38, -1));
        let tiny = of("1e-99").shortened();
        assert_eq!((tiny.scale, tiny.value), (38, 1));
        assert_eq!(rounded("9999999.995"), None);
        assert_eq!(rounded("1e60"), None);
    }

    #[test]
    fn binary_numerics_are_those_of_postgresql() {
        for (bytes, expected) in [
            (&b"\0\x02\0\0\0\0\0\x02\0\x7b\x11\x94"[..], "0123.45"),
            (b"\0\x01\xff\xff\x40\0\0\x02\x01\xf4", "-0000.05"),
            (b"\0\0\0\0\0\0\0\x02", "0000.00"),
            (b"\0\x01\0\x02\0\0\0\0\0\x01", "000100000000."),
        ] {
            let text = numeric_text(Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(text, expected);
            assert!(Digits::of(&text).is_some());
        }
    }
}
