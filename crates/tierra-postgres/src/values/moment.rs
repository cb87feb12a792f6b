//! When PostgreSQL's time begins, and the moments that no calendar has. [`tierra_sql::moments`] reads all others, and
//! [`tierra_sql::moment_texts`] writes them.

/// Days from 1970 to 2000, when PostgreSQL's time begins.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970 to 2000.
pub(super) const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Whether the text is one of the two moments that no calendar has.
pub(super) fn is_infinite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    unsigned.eq_ignore_ascii_case("infinity")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinity_is_no_moment() {
        assert!(is_infinite("-Infinity") && !is_infinite("inf"));
    }
}
