//! 64-bit integers: only the text that would be printed for a number is that number, so that a value
//! may be kept as text and still be counted up.

/// The number that `text` is the canonical form of: no blanks, no plus, no leading zeros, no `-0`.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let magnitude = parse_u64(digits)?;
    match (negative, magnitude) {
        (false, m) => i64::try_from(m).ok(),
        (true, 0) => None,
        (true, m) if m <= 1 << 63 => Some((m as i64).wrapping_neg()),
        (true, _) => None,
    }
}

/// As [`parse_i64`], without a sign.
fn parse_u64(digits: &[u8]) -> Option<u64> {
    match digits {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 20 => {
            digits.iter().try_fold(0u64, |number, &digit| match digit {
                b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
                _ => None,
            })
        }
        _ => None,
    }
}

/// Appends a number.
#[inline]
pub(crate) fn push_i64(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number.
#[inline]
pub(crate) fn push_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_text_is_a_number() {
        assert_eq!(parse_i64(b"0"), Some(0));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "9223372036854775808",
            "-9223372036854775809",
            "1.0",
            "99999999999999999999",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_printed_is_read() {
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN, -1000] {
            let mut text = Vec::new();
            push_i64(&mut text, number);
            assert_eq!(parse_i64(&text), Some(number));
        }
    }
}
