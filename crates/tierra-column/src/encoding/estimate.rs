//! Choosing an encoding from a sample of the values.
//!
//! Minima, maxima and NULLs of every block are known before this is asked, so the bytes of plain,
//! static and frame of reference are exact. Mini-blocks, differences and distinct values are
//! measured on evenly spread blocks and scaled up.
//!
//! The rule: the fewest bytes win, where the bytes of an encoding that is slower to read count more
//! (its [`handicap`](crate::encoding::format::Format::handicap)). One that estimates nothing is used only where it is asked for.
//! Strings get a dictionary if the column may have one and few of them are new; else they are plain.

use crate::encoding::values::{ChunkValues, Sample};
use crate::encoding::{Encoding, dictionary};
use crate::logical_type::Physical;

/// The encoding for these values.
pub(crate) fn encoding(values: &ChunkValues, has_dictionary: bool) -> Encoding {
    match values.ty.physical() {
        Physical::Ordinal => ordinal_encoding(values, has_dictionary),
        Physical::Bytes if has_dictionary && dictionary::pays_for_strings(values) => {
            Encoding::Dictionary
        }
        Physical::Wide | Physical::Bytes => Encoding::Plain,
    }
}

fn ordinal_encoding(values: &ChunkValues, has_dictionary: bool) -> Encoding {
    let sample = Sample::new(values);
    Encoding::ALL
        .into_iter()
        .filter(|encoding| has_dictionary || !encoding.uses_dictionary())
        .filter_map(|encoding| {
            let format = encoding.format();
            let bytes = (format.estimate)(values, &sample)?;
            Some((encoding, bytes, bytes * format.handicap))
        })
        // Of two that cost the same, the one that is read faster.
        .min_by(|a, b| a.2.total_cmp(&b.2).then(b.1.total_cmp(&a.1)))
        .map_or(Encoding::Plain, |(encoding, ..)| encoding)
}
