//! Pools as fuzz inputs: a file of many grains, nearly all zeros, written as the runs that are not.
//!
//! ```text
//! offset 0   checksums: even, they are made right after mutation; odd, they stay as they are
//!        1   grains of 4 KiB that the pool has, at most 128
//!        2   runs: first line, u16 | lines, u8 | that many lines of 64 bytes
//! ```
//!
//! Invariant: every input is an image; a run that leaves the pool is cut off there.

use crate::seal;

const LINE: usize = 64;
const GRAIN: usize = 4096;
const GRAINS_MAX: usize = 128;
/// Both slots, and their twins.
const SLOTS: [usize; 4] = [4096, 8192, 12288 + 1024, 12288 + 2048];

/// The pool that the input describes.
pub fn expand(input: &[u8]) -> Vec<u8> {
    let [checksums, grains, runs @ ..] = input else {
        return Vec::new();
    };
    let mut runs = runs;
    let mut image = vec![0; usize::from(*grains).min(GRAINS_MAX) * GRAIN];
    while let [low, high, lines, rest @ ..] = runs {
        let at = usize::from(u16::from_le_bytes([*low, *high])) * LINE;
        let (bytes, rest) = rest.split_at((usize::from(*lines) * LINE).min(rest.len()));
        if let Some(place) = image.get_mut(at..) {
            let len = bytes.len().min(place.len());
            place[..len].copy_from_slice(&bytes[..len]);
        }
        runs = rest;
    }
    if checksums % 2 == 0 {
        seal::pool(&mut image);
    }
    image
}

/// The input that [`expand`]s to this pool, with its checksums made right.
pub fn compress(image: &[u8]) -> Vec<u8> {
    let mut input = vec![0, (image.len() / GRAIN) as u8];
    let lines: Vec<&[u8]> = image.chunks(LINE).collect();
    let mut first = 0;
    while first < lines.len() {
        let written = |line: &&[u8]| line.iter().any(|byte| *byte != 0);
        let len = lines[first..]
            .iter()
            .take(255)
            .take_while(|line| written(line))
            .count();
        if len > 0 {
            input.extend_from_slice(&(first as u16).to_le_bytes());
            input.push(len as u8);
            input.extend_from_slice(&image[first * LINE..(first + len) * LINE]);
        }
        first += len.max(1);
    }
    input
}

/// Where the payload of the pool's current root lies.
pub fn root(image: &[u8]) -> std::ops::Range<usize> {
    let u64_at = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("8 bytes"));
    let slot = SLOTS
        .into_iter()
        .max_by_key(|slot| u64_at(*slot))
        .expect("there are slots");
    let start = u64_at(slot + 8) as usize;
    start..start + u64_at(slot + 16) as usize
}

/// The same pool with another root, in an extent of its own behind all others.
pub fn with_root(image: &[u8], root_bytes: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    let old = root(&image);
    let start = image.len();
    let span = (LINE + root_bytes.len()).next_multiple_of(GRAIN);
    // The header of the old root's extent says owner, pool and kind.
    image.extend_from_within(old.start - LINE..old.start);
    image.extend_from_slice(root_bytes);
    image.resize(start + span, 0);
    let mut put = |at: usize, value: usize| {
        image[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
    };
    put(start + 16, start + LINE);
    put(start + 24, root_bytes.len());
    put(start + 32, span);
    for slot in SLOTS {
        put(slot + 8, start + LINE);
        put(slot + 16, root_bytes.len());
        put(slot + 24, start + span);
    }
    seal::pool(&mut image);
    image
}
