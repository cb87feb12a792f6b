//! What the fuzz target `csv` promises, for texts drawn at random: files that are nearly right, and
//! fields that are nearly numbers, dates and times.

#[path = "../../../fuzz/src/csv.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz target")]
mod reader;

use proptest::prelude::*;

/// The seeds of the fuzz target.
const SEEDS: [&[u8]; 3] = [
    include_bytes!("../../../fuzz/seeds/csv/types"),
    include_bytes!("../../../fuzz/seeds/csv/one-field"),
    include_bytes!("../../../fuzz/seeds/csv/tabs"),
];

/// Bytes that mean something to the reader or to a type.
const BYTES: &[u8] = b",\"\r\n\t0123456789-+:. TZeEinfaNtrue\xc3\xa9\xff";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damaged_files_keep_the_promise(
        seed in proptest::sample::select(&SEEDS[..]),
        options: u8,
        damage in proptest::collection::vec(
            (any::<proptest::sample::Index>(), proptest::sample::select(BYTES), 0..3_u8),
            0..6,
        ),
    ) {
        let mut text = seed[1..].to_vec();
        for (place, byte, how) in damage {
            let at = place.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => text.truncate(at + 1),
            }
        }
        reader::check(options, &text);
    }

    #[test]
    fn fields_are_taken_unchanged_or_not_at_all(
        options: u8,
        fields in proptest::collection::vec(
            prop_oneof![
                "[-+]?[0-9]{0,20}\\.?[0-9]{0,6}([eE][-+]?[0-9]{1,3})?",
                "[-+]?(inf|NaN|infinity|true|F|1|0)",
                "[0-9]{4}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{0,10})?(Z|[-+][0-9]{2}:?[0-9]{0,2})?)?",
                "\"?[-0-9: ,]{0,12}\"?",
            ],
            0..6,
        ),
    ) {
        reader::check(options & !3, fields.join("\n").as_bytes());
    }

    #[test]
    fn any_text_keeps_the_promise(
        options: u8,
        text in proptest::collection::vec(proptest::sample::select(BYTES), 0..60),
    ) {
        reader::check(options, &text);
    }
}
