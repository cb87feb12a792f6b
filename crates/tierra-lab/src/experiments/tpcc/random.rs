//! What terminals draw (clause 2.1.6 and 4.3.2.3), and money as whole cents.

use crate::random::Random;

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];
/// The constant C of the non-uniform distribution.
const C: u64 = 123;

/// A number below `count`, some of which are drawn more often: NURand(a, 0, count - 1).
pub(super) fn non_uniform(random: &mut Random, a: u64, count: u64) -> u64 {
    ((random.below(a + 1) | random.below(count)) + C) % count
}

/// The name of a number below 1,000.
pub(super) fn last_name(number: u64) -> String {
    let syllable = |digit: u64| SYLLABLES[(digit % 10) as usize];
    [number / 100, number / 10, number].map(syllable).concat()
}

/// Cents as a decimal number.
pub(super) fn cents(amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    let amount = amount.unsigned_abs();
    format!("{sign}{}.{:02}", amount / 100, amount % 100)
}

/// The cents of a decimal number with two digits behind its point.
pub(super) fn to_cents(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.')?;
    if part.len() != 2 {
        return None;
    }
    format!("{whole}{part}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_money() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        for amount in [0, 5, -5, 1_234, -1_000, i64::from(i32::MAX)] {
            assert_eq!(to_cents(&cents(amount)), Some(amount));
        }
        assert_eq!(cents(-5), "-0.05");
        assert_eq!((to_cents("1.5"), to_cents("7")), (None, None));
        let random = &mut Random::new(1);
        assert!((0..1_000).all(|_| non_uniform(random, 1_023, 30) < 30));
    }
}
