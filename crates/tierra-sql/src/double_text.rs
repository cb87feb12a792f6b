//! Whether a text says a number that no DOUBLE is near to.

/// Whether the number that `text` says is beyond the range of doubles, so that it was read as `value`: infinite, or 0 though one of its
/// digits is not. Infinity is accepted only by name.
pub(crate) fn is_out_of_range(text: &str, value: f64) -> bool {
    let mut digits = text
        .bytes()
        .take_while(|byte| !matches!(byte, b'e' | b'E'))
        .filter(u8::is_ascii_digit);
    match () {
        () if value.is_infinite() => digits.next().is_some(),
        () if value == 0.0 => digits.any(|digit| digit != b'0'),
        () => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinity_has_a_name_and_zero_no_other_digits() {
        let is_out = |text: &str| is_out_of_range(text, text.parse().unwrap());
        for text in [
            "1e400",
            "-1e400",
            "1e-400",
            "-0.001e-330",
            "2e-324",
            ".1E-400",
        ] {
            assert!(is_out(text), "{text}");
        }
        for text in [
            "inf",
            "-Infinity",
            "NaN",
            "0",
            "-0.0",
            "0e-400",
            "0.0E99",
            "4e-324",
            "1e308",
            "5",
        ] {
            assert!(!is_out(text), "{text}");
        }
    }
}
