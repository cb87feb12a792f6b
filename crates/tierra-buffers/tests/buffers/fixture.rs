//! Buffers in a folder of a test, values, and the check of all that a reader tells.

use std::path::Path;

use tierra_buffers::{Buffer, Buffers, DatabaseOptions, Near, Options, ReadPattern, Reader};

/// Little near memory, no scrubber, and a tier `b`.
pub(crate) fn options(dir: &Path) -> Options {
    Options {
        engine: DatabaseOptions {
            near_memory_bytes: Some(1 << 20),
            scrub_bytes_per_s: Some(0),
            ..DatabaseOptions::default()
        },
        tiers: vec![("b".to_owned(), dir.join("b.pool"))],
    }
}

pub(crate) fn open(dir: &Path) -> Buffers {
    Buffers::open(&dir.join("db"), &options(dir)).unwrap()
}

/// The buffer `n` in two replicas, each packed in another way.
pub(crate) fn allocate(buffers: &Buffers, near: Near) -> Buffer {
    let replicas = ["far/static", "b/dynamic"];
    buffers.allocate("n", &replicas, near).unwrap()
}

/// Mostly small values, now and then a large one.
pub(crate) fn value(position: u64) -> i64 {
    let mixed = position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    match position % 1000 {
        7 => mixed as i64 * 1_000_003,
        _ => (mixed % 251) as i64 - 100,
    }
}

pub(crate) fn values(positions: std::ops::Range<u64>) -> Vec<i64> {
    positions.map(value).collect()
}

pub(crate) const PATTERNS: [ReadPattern; 3] = [
    ReadPattern::Sequential,
    ReadPattern::Random,
    ReadPattern::Share(0.001),
];

/// Checks everything that a reader can tell against the values that it should have.
pub(crate) fn check(reader: &Reader, expected: &[i64]) {
    let count = expected.len() as u64;
    assert_eq!(reader.len(), count);
    assert_eq!(reader.values(0..count).unwrap(), expected);
    let sum: i128 = expected.iter().map(|value| i128::from(*value)).sum();
    assert_eq!(reader.sum().unwrap(), sum);
    let positions: Vec<u64> = (0..count.min(3000)).map(|at| at * 7919 % count).collect();
    let found = reader.at(&positions).unwrap();
    let wanted = positions.iter().map(|at| expected[*at as usize]);
    assert_eq!(found, wanted.collect::<Vec<_>>());
    assert_eq!(unpacked(reader), expected);
}

/// The same with a reader of each pattern.
pub(crate) fn check_patterns(buffer: &Buffer, expected: &[i64]) {
    for pattern in PATTERNS {
        check(&buffer.reader(pattern).unwrap(), expected);
    }
}

/// All values, from packed blocks.
fn unpacked(reader: &Reader) -> Vec<i64> {
    use tierra_buffers::Packing;
    let mut all = Vec::new();
    for number in 0..reader.blocks() {
        let block = reader.read_block(number, |block| {
            let bytes = [block.bytes, &[0; 16]].concat();
            let code = |bytes: &[u8], width: u32, at: usize| {
                let bit = at * width as usize;
                let sixteen = bytes[bit / 8..][..16].try_into().unwrap();
                (u128::from_le_bytes(sixteen) >> (bit % 8) & ((1 << width) - 1)) as i64
            };
            let (first, codes) = (block.position, block.codes.clone());
            let values: Option<Vec<i64>> = match block.packing {
                Packing::Even { width, base } => {
                    let value = |at| base.wrapping_add(code(&bytes, width.into(), at));
                    Some(codes.clone().map(value).collect())
                }
                Packing::MiniBlocks { codes: mini, base } => {
                    let widths = &bytes[..1024 / mini];
                    let value = |at: usize| {
                        let before = &widths[..at / mini];
                        let skipped: usize =
                            before.iter().map(|it| usize::from(*it) * mini / 8).sum();
                        let packed = &bytes[widths.len() + skipped..];
                        base.wrapping_add(code(packed, widths[at / mini].into(), at % mini))
                    };
                    Some(codes.clone().map(value).collect())
                }
                Packing::Coded => None,
            };
            (first, codes.len() as u64, values)
        });
        let (first, count, values) = block.unwrap();
        assert_eq!(first, all.len() as u64);
        all.extend(values.unwrap_or_else(|| reader.values(first..first + count).unwrap()));
    }
    all
}
