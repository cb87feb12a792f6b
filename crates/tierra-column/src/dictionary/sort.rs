//! Codes in the order of their values: what a new generation and an order of the delta begin with.
//!
//! A sort that looks every value up by its code misses a cache with nearly every comparison. These take
//! along what decides nearly all of them: an ordinal whole, of a string the eight bytes behind what all
//! strings begin with.

use std::ops::Range;

use arrow::array::StringViewArray;

/// The ordinals of these codes in ascending order, and their codes.
pub(super) fn ordinals(values: &[u64], codes: Range<u32>) -> (Vec<u64>, Vec<u32>) {
    let mut sorted: Vec<(u64, u32)> = codes.map(|code| (values[code as usize], code)).collect();
    sorted.sort_unstable();
    sorted.into_iter().unzip()
}

/// Codes in the ascending order of their strings, all different.
pub(super) fn strings(values: &StringViewArray, codes: Range<u32>) -> Vec<u32> {
    let bytes = |code: u32| values.value(code as usize).as_bytes();
    let skip = common_prefix(codes.clone().map(bytes));
    let mut sorted: Vec<(u64, u32)> = codes
        .map(|code| (eight_bytes(&bytes(code)[skip..]), code))
        .collect();
    // Strings of the same eight bytes differ behind them, or in how many zero bytes they end with.
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| bytes(a.1).cmp(bytes(b.1))));
    sorted.into_iter().map(|(_, code)| code).collect()
}

/// How many bytes all strings begin with.
fn common_prefix<'a>(mut strings: impl Iterator<Item = &'a [u8]>) -> usize {
    let first = strings.next().unwrap_or_default();
    let mut common = first.len();
    while common > 0
        && let Some(string) = strings.next()
    {
        let both = first[..common].iter().zip(string);
        common = both.take_while(|(a, b)| a == b).count();
    }
    common
}

/// The first eight bytes as a number in the order of bytes, zero bytes where there are fewer.
fn eight_bytes(string: &[u8]) -> u64 {
    match string.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..string.len()].copy_from_slice(string);
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_are_sorted_as_their_bytes_are(
            prefix in "[a\0é]{0,12}",
            rest in prop::collection::btree_set("[ab\0]{0,11}", 0..60),
            seed: u64,
        ) {
            let mut texts: Vec<String> = rest.iter().map(|rest| format!("{prefix}{rest}")).collect();
            // Any order will do to begin with.
            texts.sort_by_key(|text| text.len() as u64 ^ seed);
            let array = StringViewArray::from_iter_values(&texts);
            let sorted: Vec<&str> = strings(&array, 0..texts.len() as u32)
                .into_iter()
                .map(|code| texts[code as usize].as_str())
                .collect();
            let mut expected: Vec<&str> = texts.iter().map(String::as_str).collect();
            expected.sort_unstable();
            prop_assert_eq!(sorted, expected);
        }

        #[test]
        fn ordinals_come_with_their_codes(values in prop::collection::vec(any::<u64>(), 0..60)) {
            let (sorted, codes) = ordinals(&values, 0..values.len() as u32);
            prop_assert!(sorted.is_sorted());
            for (ordinal, code) in sorted.iter().zip(codes) {
                prop_assert_eq!(values[code as usize], *ordinal);
            }
        }
    }
}
