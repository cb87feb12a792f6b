//! Packing alone, width by width: blocks of one width, in the cache and from memory.

use std::hint::black_box;
use std::time::Instant;

use tierra_column::bits::{BLOCK_LEN, Kernels, PAD_BYTES, packed_bytes};

use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::peers::codecs::{Bitpacking, FastLanes};
use crate::progress;
use crate::random::Random;
use crate::row::Row;
use crate::turns::turns;

/// Values of a mini-block of the encoding `dynamic`.
const MINI_LEN: usize = 64;

/// Who packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packer {
    /// Tierra, as in blocks of one width.
    Static,
    /// Tierra, each mini-block by itself: no more than `dynamic` has to do, whose neighbours of one width are one run.
    Dynamic,
    Bitpacking,
    FastLanes,
}

impl Packer {
    const ALL: [Packer; 4] = [
        Packer::Static,
        Packer::Dynamic,
        Packer::Bitpacking,
        Packer::FastLanes,
    ];
    pub(super) const OURS: [Packer; 2] = [Packer::Static, Packer::Dynamic];
    pub(super) const PEERS: [Packer; 2] = [Packer::Bitpacking, Packer::FastLanes];

    pub(super) fn name(self) -> &'static str {
        match self {
            Packer::Static => "Tierra, blocks of 1,024",
            Packer::Dynamic => "Tierra, mini-blocks of 64",
            Packer::Bitpacking => "crate bitpacking",
            Packer::FastLanes => "crate fastlanes",
        }
    }
}

/// Where the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Cache,
    Memory,
}

impl Place {
    pub(super) const ALL: [Place; 2] = [Place::Cache, Place::Memory];

    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Cache => "in the cache",
            Place::Memory => "from memory",
        }
    }
}

pub(super) const PACK: &str = "pack";
pub(super) const UNPACK: &str = "unpack";

/// The key that names a panel's contenders.
pub(super) fn panel(direction: &str, place: Place) -> String {
    format!("{direction}, {}", place.name())
}

/// Values, their packed blocks, and where they are unpacked to.
struct Arrays {
    values: Vec<u32>,
    /// Blocks of whole words, with the pad behind the last.
    packed: Vec<u32>,
    unpacked: Vec<u32>,
}

impl Arrays {
    fn new(values: usize) -> Arrays {
        Arrays {
            values: vec![0; values],
            packed: vec![0; values + PAD_BYTES / 4],
            unpacked: vec![0; values],
        }
    }

    fn fill(&mut self, width: u8, random: &mut Random) {
        for value in &mut self.values {
            *value = (random.bits() >> (64 - u32::from(width))) as u32;
        }
    }
}

/// One pass over all blocks; nanoseconds.
fn pack(packer: Packer, kernels: Kernels, width: u8, arrays: &mut Arrays) -> u64 {
    let words = packed_bytes(BLOCK_LEN, width) / 4;
    let bitpacking = Bitpacking::new();
    let start = Instant::now();
    let blocks = black_box(&arrays.values[..]).chunks_exact(BLOCK_LEN);
    for (values, packed) in blocks.zip(arrays.packed.chunks_exact_mut(words)) {
        match packer {
            Packer::Static => kernels.pack_from(values, 0, width, bytes_mut(packed)),
            Packer::Dynamic => {
                let minis = values.chunks_exact(MINI_LEN);
                let places = bytes_mut(packed).chunks_exact_mut(packed_bytes(MINI_LEN, width));
                for (mini, place) in minis.zip(places) {
                    kernels.pack_from(mini, 0, width, place);
                }
            }
            Packer::Bitpacking => {
                let blocks = values.chunks_exact(Bitpacking::BLOCK);
                let len = packed_bytes(Bitpacking::BLOCK, width);
                for (block, place) in blocks.zip(bytes_mut(packed).chunks_exact_mut(len)) {
                    bitpacking.pack(width, block, place);
                }
            }
            Packer::FastLanes => FastLanes::pack(width, values, packed),
        }
    }
    black_box(&mut arrays.packed);
    start.elapsed().as_nanos() as u64
}

fn unpack(packer: Packer, kernels: Kernels, width: u8, arrays: &mut Arrays) -> u64 {
    let words = packed_bytes(BLOCK_LEN, width) / 4;
    let bitpacking = Bitpacking::new();
    let start = Instant::now();
    let packed = black_box(&arrays.packed[..]);
    for (number, values) in arrays.unpacked.chunks_exact_mut(BLOCK_LEN).enumerate() {
        let from = number * words;
        match packer {
            Packer::Static => kernels.unpack_u32(bytes(&packed[from..]), width, values),
            Packer::Dynamic => {
                let block = bytes(&packed[from..]);
                let len = packed_bytes(MINI_LEN, width);
                for (mini, values) in values.chunks_exact_mut(MINI_LEN).enumerate() {
                    kernels.unpack_u32(&block[mini * len..], width, values);
                }
            }
            Packer::Bitpacking => {
                let block = bytes(&packed[from..from + words]);
                let len = packed_bytes(Bitpacking::BLOCK, width);
                let blocks = values.chunks_exact_mut(Bitpacking::BLOCK);
                for (values, block) in blocks.zip(block.chunks_exact(len)) {
                    bitpacking.unpack(width, block, values);
                }
            }
            Packer::FastLanes => FastLanes::unpack(width, &packed[from..from + words], values),
        }
    }
    black_box(&mut arrays.unpacked);
    start.elapsed().as_nanos() as u64
}

fn bytes(words: &[u32]) -> &[u8] {
    zerocopy::IntoBytes::as_bytes(words)
}

fn bytes_mut(words: &mut [u32]) -> &mut [u8] {
    zerocopy::IntoBytes::as_mut_bytes(words)
}

/// Every width from 1 to 32, by every packer.
pub(super) fn measure(lab: &Lab) -> Result<Vec<Row>, LabError> {
    let kernels = Kernels::best();
    let mut random = Random::new(SEED);
    let rounds = lab.size(3, 15);
    let mut rows = Vec::new();
    let bar = progress::bar("widths", Place::ALL.len() * 32);
    for place in Place::ALL {
        // Eight blocks and what becomes of them stay in a core's second cache.
        let (values, passes) = match place {
            Place::Cache => (8 * BLOCK_LEN, lab.size(10, 500)),
            Place::Memory => (lab.size(1 << 16, 1 << 25), 1),
        };
        let mut arrays = Arrays::new(values);
        for width in 1..=32 {
            arrays.fill(width, &mut random);
            let mut samples = vec![[Vec::new(), Vec::new()]; Packer::ALL.len()];
            for turn in turns(Packer::ALL.len(), rounds) {
                let packer = Packer::ALL[turn.contender];
                // Not what another contender packed or unpacked.
                arrays.packed.fill(0);
                // Passes of one contender follow each other, so that blocks are where it left them.
                let packed: u64 = (0..passes)
                    .map(|_| pack(packer, kernels, width, &mut arrays))
                    .sum();
                arrays.unpacked.fill(!arrays.values[0]);
                let unpacked: u64 = (0..passes)
                    .map(|_| unpack(packer, kernels, width, &mut arrays))
                    .sum();
                if arrays.unpacked != arrays.values {
                    return Err(LabError::WrongAnswer {
                        who: packer.name().to_owned(),
                        what: format!("other values than were packed with {width} bits"),
                    });
                }
                if !turn.is_warm_up() {
                    let [packs, unpacks] = &mut samples[turn.contender];
                    packs.push(packed);
                    unpacks.push(unpacked);
                }
            }
            for (packer, samples) in Packer::ALL.into_iter().zip(samples) {
                for (direction, samples) in [PACK, UNPACK].into_iter().zip(samples) {
                    let row = Row::new()
                        .text(&panel(direction, place), packer.name())
                        .text("width", width.to_string())
                        .count("values", (values * passes) as u64);
                    rows.push(row.samples("time", "ns", samples));
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}
