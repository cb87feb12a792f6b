//! What the crate `fastlanes` has beside packing: frame of reference, differences, and runs, 1,024 values at a time. The words before a
//! block's codes are what its decoding needs.
//!
//! Widths are constants to the crate. As packing, it is at its best only in a program that was built for this processor.

use zerocopy::{FromBytes, IntoBytes};

use super::codecs::{BATCH, Codec, FastLanes, Take, for_each_block, signed, words_in, words_mut};
use crate::error::{Context, LabError};

/// Values of a block.
const BLOCK: usize = 1024;
/// Words packed side by side, each with differences of its own.
const LANES: usize = BLOCK / 32;

/// A codec of the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// A block's least value, and what others are above it.
    FrameOfReference,
    /// Each value less the one before it, in an order that vectors can add up again.
    Differences,
    /// Each run's value once, and for each value the number of its run.
    Runs,
}

/// Calls a function of a width and its words with the width as a constant.
macro_rules! at_width {
    ($width:expr, $call:ident $arguments:tt) => {
        at_width!(
            $width, $call $arguments,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        )
    };
    ($width:expr, $call:ident $arguments:tt, $($constant:literal)*) => {
        match $width {
            $($constant => $call::<$constant, { LANES * $constant }> $arguments,)*
            _ => unreachable!("32-bit integers have no more bits"),
        }
    };
}

fn pack_from<const WIDTH: usize, const WORDS: usize>(
    values: &[u32; BLOCK],
    base: u32,
    packed: &mut [u32],
) {
    let packed = packed.first_chunk_mut::<WORDS>().expect(ROOM);
    <u32 as fastlanes::FoR>::for_pack::<WIDTH, WORDS>(values, base, packed);
}

fn unpack_from<const WIDTH: usize, const WORDS: usize>(
    packed: &[u32],
    base: u32,
    values: &mut [u32; BLOCK],
) {
    let packed = packed.first_chunk::<WORDS>().expect(ROOM);
    <u32 as fastlanes::FoR>::unfor_pack::<WIDTH, WORDS>(packed, base, values);
}

fn add_up<const WIDTH: usize, const WORDS: usize>(
    packed: &[u32],
    bases: &[u32; LANES],
    values: &mut [u32; BLOCK],
) {
    let packed = packed.first_chunk::<WORDS>().expect(ROOM);
    <u32 as fastlanes::Delta>::undelta_pack::<LANES, WIDTH, WORDS>(packed, bases, values);
}

/// Why there are as many words as a width needs.
const ROOM: &str = "as many words as the block was given";

/// Words of a packed block.
fn words_of(width: u8) -> usize {
    LANES * usize::from(width)
}

/// Bits of a number.
fn width_of(number: u32) -> u8 {
    (32 - number.leading_zeros()) as u8
}

/// Bits of the numbers of so many runs.
fn width_of_runs(runs: usize) -> u8 {
    width_of(runs as u32 - 1)
}

/// Packs numbers of runs.
fn pack_runs(width: u8, numbers: &[u16; BLOCK], packed: &mut [u32]) {
    assert!(packed.len() == words_of(width) && width <= 16);
    let packed = <[u16]>::mut_from_bytes(packed.as_mut_bytes()).expect("two halves a word");
    // SAFETY: lengths and width are as the crate asks, which was just asserted.
    unsafe {
        <u16 as fastlanes::BitPacking>::unchecked_pack(usize::from(width), numbers, packed);
    }
}

fn unpack_runs(width: u8, packed: &[u32], numbers: &mut [u16; BLOCK]) {
    assert!(packed.len() == words_of(width) && width <= 16);
    let packed = <[u16]>::ref_from_bytes(packed.as_bytes()).expect("two halves a word");
    // SAFETY: as above.
    unsafe {
        <u16 as fastlanes::BitPacking>::unchecked_unpack(usize::from(width), packed, numbers);
    }
}

impl Lanes {
    /// Encodes a block; returns its words.
    fn encode_block(self, values: &[u32; BLOCK], out: &mut [u32]) -> usize {
        match self {
            Lanes::FrameOfReference => {
                let ends =
                    |(least, most): (u32, u32), value: &u32| (least.min(*value), most.max(*value));
                let (least, most) = values.iter().fold((u32::MAX, 0), ends);
                let width = width_of(most - least);
                (out[0], out[1]) = (width.into(), least);
                at_width!(width, pack_from(values, least, &mut out[2..]));
                2 + words_of(width)
            }
            Lanes::Differences => {
                let (mut transposed, mut differences) = ([0; BLOCK], [0; BLOCK]);
                <u32 as fastlanes::Transpose>::transpose(values, &mut transposed);
                // Each lane's first value, so that it differs by nothing.
                let bases = transposed.first_chunk::<LANES>().expect("a block has them");
                <u32 as fastlanes::Delta>::delta::<LANES>(&transposed, bases, &mut differences);
                let width = width_of(differences.iter().fold(0, |bits, it| bits | it));
                out[0] = width.into();
                out[1..=LANES].copy_from_slice(bases);
                let packed = &mut out[1 + LANES..][..words_of(width)];
                FastLanes::pack(width, &differences, packed);
                1 + LANES + words_of(width)
            }
            Lanes::Runs => {
                let (mut of_runs, mut numbers) = ([0; BLOCK], [0; BLOCK]);
                let runs = <u32 as fastlanes::RLE>::encode(values, &mut of_runs, &mut numbers);
                let width = width_of_runs(runs);
                out[0] = runs as u32;
                out[1..=runs].copy_from_slice(&of_runs[..runs]);
                pack_runs(width, &numbers, &mut out[1 + runs..][..words_of(width)]);
                1 + runs + words_of(width)
            }
        }
    }

    /// Decodes a block; returns the words behind it.
    fn decode_block<'w>(self, words: &'w [u32], values: &mut [u32; BLOCK]) -> &'w [u32] {
        match self {
            Lanes::FrameOfReference => {
                let (width, base, packed) = (words[0] as u8, words[1], &words[2..]);
                at_width!(width, unpack_from(packed, base, values));
                &packed[words_of(width)..]
            }
            Lanes::Differences => {
                let (width, behind) = (words[0] as u8, &words[1..]);
                let (bases, packed) = behind.split_first_chunk::<LANES>().expect(ROOM);
                let mut transposed = [0; BLOCK];
                at_width!(width, add_up(packed, bases, &mut transposed));
                <u32 as fastlanes::Transpose>::untranspose(&transposed, values);
                &packed[words_of(width)..]
            }
            Lanes::Runs => {
                let runs = words[0] as usize;
                let (of_runs, behind) = words[1..].split_at(runs);
                let (packed, behind) = behind.split_at(words_of(width_of_runs(runs)));
                let mut numbers = [0; BLOCK];
                unpack_runs(width_of_runs(runs), packed, &mut numbers);
                <u32 as fastlanes::RLE>::decode(of_runs, &numbers, values);
                behind
            }
        }
    }
}

impl Codec for Lanes {
    fn name(&self) -> String {
        let what = match self {
            Lanes::FrameOfReference => "frame of reference",
            Lanes::Differences => "differences",
            Lanes::Runs => "runs",
        };
        format!("crate fastlanes, {what}")
    }

    fn most_bytes(&self, values: usize) -> usize {
        // As many runs as values, each with its number.
        values * 6 + (1 << 16)
    }

    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError> {
        let words = words_mut(out).by(&self.name(), "encoding to unaligned memory")?;
        let mut at = 0;
        for_each_block::<BLOCK>(values, |block| {
            at += self.encode_block(block, &mut words[at..]);
        });
        Ok(at * 4)
    }

    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError> {
        let mut rest = words_in(bytes).by(&self.name(), "decoding")?;
        for first in (0..values).step_by(BATCH) {
            let count = BATCH.min(values - first);
            let mut batch = vec![0_u32; count.div_ceil(BLOCK) * BLOCK];
            for block in batch.as_chunks_mut::<BLOCK>().0 {
                rest = self.decode_block(rest, block);
            }
            take(signed(&batch[..count]))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Lanes; 3] = [Lanes::FrameOfReference, Lanes::Differences, Lanes::Runs];

    /// The bytes of some values, which are decoded again.
    fn encoded_bytes(codec: Lanes, values: &[i32]) -> usize {
        let mut out = vec![0; codec.most_bytes(values.len())];
        let len = codec.encode(values, &mut out).unwrap();
        let mut decoded = Vec::new();
        let take: Take<'_> = &mut |batch| {
            decoded.extend_from_slice(batch);
            Ok(())
        };
        codec.decode(&out[..len], values.len(), take).unwrap();
        assert_eq!(decoded, values, "{}", codec.name());
        len
    }

    #[test]
    fn each_gives_back_what_it_got_and_saves_bytes_where_it_can() {
        let ascending: Vec<i32> = (0..20_480).map(|row| 1_000_000 + row / 5 * 3).collect();
        for (codec, most_words) in ALL.into_iter().zip([12, 4, 16]) {
            let words = encoded_bytes(codec, &ascending) / 4;
            // Of 32 for 32 values.
            assert!(
                words <= ascending.len() / 32 * most_words,
                "{codec:?}: {words}"
            );
        }
        let in_no_order: Vec<i32> = (0..20_000).map(|row| row % 7 * (row % 1_000)).collect();
        let widest = vec![0, i32::MAX, 1, i32::MAX - 1];
        for codec in ALL {
            encoded_bytes(codec, &in_no_order);
            encoded_bytes(codec, &widest);
        }
    }
}
