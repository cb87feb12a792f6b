//! Sizes with units: `1k` is 1,000 bytes, `1kb` 1,024, and so on, as Redis has them; and `1 KiB`, as the rest of Tierra has.

use tierra_memory::Size;

/// The bytes of a size, if it is one.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        // Nothing that Redis refuses for its number, such as parts of a unit.
        _ if unit.ends_with("iB") => return text.parse().ok().map(|size: Size| size.0),
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("100"), Some(100));
        assert_eq!(parse("1k"), Some(1000));
        assert_eq!(parse("2Kb"), Some(2048));
        assert_eq!(parse("3gb"), Some(3 << 30));
        assert_eq!(
            (parse("3GiB"), parse("5 MiB")),
            (Some(3 << 30), Some(5 << 20))
        );
        for text in [
            "",
            "k",
            "1x",
            "-1",
            "1.5g",
            "99999999999999999999",
            "18446744073709551615k",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
