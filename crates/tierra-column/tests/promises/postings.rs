//! Promise: postings list exactly the rows that hold a code, whatever the codes and chunks are; and
//! untrusted bytes are refused, or answered without reading outside them.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::support::Random;
use arrow::array::{ArrayRef, Int32Array};
use proptest::prelude::*;
use tierra_column::{
    Chunk, ChunkPlan, Dictionary, DictionaryBuilder, Encoding, FormatError, LogicalType,
    PostingList, Postings, PostingsError, PostingsPlan, Value, ordinal,
};
use tierra_interleave::{Cx, GroupSize, Interleaved, Plain, for_each};

const TY: LogicalType = LogicalType::Integer;

fn go_on() -> AtomicBool {
    AtomicBool::new(false)
}

/// Dictionary chunks of one dictionary, generation 3.
struct Column {
    values: Vec<Int32Array>,
    chunks: Vec<Vec<u8>>,
    dictionary: Dictionary,
}

impl Column {
    /// `before` are values that only the dictionary has.
    fn new(before: &[i32], values: Vec<Int32Array>) -> Self {
        let mut builder = DictionaryBuilder::new(TY, 3);
        let before: ArrayRef = Arc::new(Int32Array::from(before.to_vec()));
        builder.encode(&[before]).unwrap();
        let mut chunks = Vec::new();
        for values in &values {
            let array: ArrayRef = Arc::new(values.clone());
            let encoding = Some(Encoding::Dictionary);
            let plan = ChunkPlan::new(TY, &[array], encoding, Some(&mut builder)).unwrap();
            let mut bytes = vec![0; plan.len_bytes()];
            plan.write(&mut bytes);
            chunks.push(bytes);
        }
        Column {
            values,
            chunks,
            dictionary: builder.finish(),
        }
    }

    fn chunks(&self) -> Vec<Chunk<'_>> {
        self.chunks
            .iter()
            .map(|bytes| Chunk::open(bytes, TY).unwrap())
            .collect()
    }

    fn postings(&self, threads: usize) -> Vec<u8> {
        let threads = NonZeroUsize::new(threads).unwrap();
        let plan = PostingsPlan::new(self.chunks(), &self.dictionary, threads, &go_on()).unwrap();
        // What was there before does not matter.
        let mut bytes = vec![0xa5; plan.len_bytes() + 100];
        plan.write(&mut bytes, &go_on()).unwrap();
        bytes
    }

    /// By code: chunk and row of each place where its value stands.
    fn expected(&self) -> Vec<Vec<(usize, u32)>> {
        let mut expected = vec![Vec::new(); self.dictionary.len()];
        let code_of = |value: i32| {
            let value = Value::Ordinal(ordinal::of_i32(value));
            (0..self.dictionary.len() as u32).find(|code| self.dictionary.value(*code) == value)
        };
        let mut known = std::collections::HashMap::new();
        for (chunk, values) in self.values.iter().enumerate() {
            for (row, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let code = *known
                    .entry(value)
                    .or_insert_with(|| code_of(value).unwrap());
                expected[code as usize].push((chunk, row as u32));
            }
        }
        expected
    }

    fn check(&self, bytes: &[u8]) {
        let postings = Postings::open(bytes).unwrap();
        assert_eq!(
            (postings.generation(), postings.chunks()),
            (3, self.chunks.len())
        );
        (0..postings.pages()).for_each(|page| postings.verify_page(page).unwrap());
        let expected = self.expected();
        let rows: usize = expected.iter().map(Vec::len).sum();
        assert_eq!(postings.entries(), rows as u64);
        for (code, expected) in expected.iter().enumerate() {
            assert_eq!(found(&postings, code as u32), *expected, "code {code}");
        }
        for code in [expected.len() as u32, u32::MAX - 1, u32::MAX] {
            assert_eq!(found(&postings, code), [], "no code");
        }
        // In groups, plain and interleaved, as a scan asks.
        assert_eq!(grouped::<Plain>(&postings, expected.len()), expected);
        assert_eq!(grouped::<Interleaved>(&postings, expected.len()), expected);
    }
}

fn found(postings: &Postings<'_>, code: u32) -> Vec<(usize, u32)> {
    let mut rows = Vec::new();
    let position = |at: tierra_column::Position| rows.push((at.chunk(), at.row()));
    postings.positions(code, position).unwrap();
    rows
}

fn grouped<M: tierra_interleave::Mode>(
    postings: &Postings<'_>,
    codes: usize,
) -> Vec<Vec<(usize, u32)>> {
    let mut rows = vec![Vec::new(); codes];
    let mut ranges = Vec::new();
    for_each(
        GroupSize::DEFAULT,
        0..codes as u32,
        |cx: Cx<M>, code| postings.list(cx, code),
        |code, listed| match listed.unwrap() {
            PostingList::Empty => {}
            PostingList::Single(at) => rows[code].push((at.chunk(), at.row())),
            PostingList::Entries(range) => {
                assert!(!range.is_empty());
                ranges.extend(range.parts().map(|part| (code, part)));
            }
        },
    );
    for_each(
        GroupSize::DEFAULT,
        &ranges,
        |cx: Cx<M>, (_, range)| postings.load_range(cx, *range),
        |index, range| {
            let (code, part) = ranges[index];
            assert_eq!(range, part);
            postings.positions_in(&range, |at| rows[code].push((at.chunk(), at.row())));
        },
    );
    rows.iter_mut().for_each(|rows| rows.sort_unstable());
    rows
}

/// Rows whose values are drawn from `values`; one in `null_every` is NULL.
fn drawn(random: &mut Random, rows: usize, values: u64, null_every: u64) -> Int32Array {
    (0..rows)
        .map(|_| {
            let value = random.below(values) as i32;
            (random.below(null_every) != 0).then_some(value)
        })
        .collect()
}

#[test]
fn every_shape_of_column_is_listed() {
    let seed = 17;
    let mut random = Random(seed);
    let all = |rows| (0..rows).collect::<Int32Array>();
    let columns = [
        // Unique: rows by code. One row, a block and one more, several chunks.
        Column::new(&[], vec![all(1)]),
        Column::new(&[], vec![all(1025)]),
        Column::new(&[], vec![all(5000), (5000..9000).rev().collect()]),
        // Unique, but nearly half of the codes have no row.
        Column::new(
            &(0..3000).collect::<Vec<_>>(),
            vec![(0..3000).step_by(2).collect()],
        ),
        // One value, few values, many values, NULLs among them.
        Column::new(&[], vec![Int32Array::from(vec![7; 3000])]),
        Column::new(
            &[],
            vec![
                drawn(&mut random, 5000, 3, 4),
                drawn(&mut random, 2000, 9, 9),
            ],
        ),
        Column::new(&[], vec![drawn(&mut random, 9000, 4000, 10); 3]),
        // NULL only, and such a chunk between others.
        Column::new(&[5], vec![Int32Array::new_null(100)]),
        Column::new(&[], vec![all(70), Int32Array::new_null(100), all(90)]),
        // Few rows, many codes: entries repeat a part of the code.
        Column::new(
            &(0..100_000).collect::<Vec<_>>(),
            vec![drawn(&mut random, 50, 100_000, 9)],
        ),
        Column::new(
            &(0..100_000).collect::<Vec<_>>(),
            vec![Int32Array::from(vec![99_999])],
        ),
        Column::new(
            &(0..70_000).collect::<Vec<_>>(),
            vec![drawn(&mut random, 40_000, 70_000, 50)],
        ),
        // Skew: most rows hold one value of many.
        Column::new(
            &(0..5000).collect::<Vec<_>>(),
            vec![
                (0..9000)
                    .map(|row| Some(if row % 3 == 0 { row % 5000 } else { 4 }))
                    .collect(),
            ],
        ),
    ];
    for (at, column) in columns.iter().enumerate() {
        println!("column {at}, seed {seed}");
        let bytes = column.postings(1);
        column.check(&bytes);
        // As many threads as there may be write the same bytes.
        assert!(column.postings(3) == bytes, "column {at}");
    }
}

#[test]
fn slabs_meet_where_bytes_are_shared() {
    // Enough codes and rows that several slabs are cut at every phase of a byte.
    let rows = 3_000_000_u64;
    let value = |row: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i32 % 2_500_000;
    let part = |first: u64| (first..first + rows / 3).map(value).collect::<Int32Array>();
    let column = Column::new(&[], (0..3).map(|at| part(at * rows / 3)).collect());
    let (one, three) = (column.postings(1), column.postings(3));
    assert!(one == three);
    let postings = Postings::open(&one).unwrap();
    let mut rows_found = 0;
    for code in 0..column.dictionary.len() as u32 {
        let wanted = column.dictionary.value(code);
        let mut last = None;
        postings
            .positions(code, |at| {
                assert!(last < Some(at), "ascending");
                last = Some(at);
                let value = column.values[at.chunk()].value(at.row() as usize);
                assert_eq!(Value::Ordinal(ordinal::of_i32(value)), wanted);
                rows_found += 1;
            })
            .unwrap();
    }
    assert_eq!(rows_found, rows);
}

#[test]
fn what_cannot_be_listed_is_an_error() {
    let column = Column::new(&[], vec![(0..10).collect()]);
    let other = Column::new(&[], vec![(0..10).collect()])
        .dictionary
        .merge(4)
        .0;
    let build = |dictionary: &Dictionary, stop: bool| {
        let stop = AtomicBool::new(stop);
        PostingsPlan::new(column.chunks(), dictionary, NonZeroUsize::MIN, &stop).map(|_| ())
    };
    assert!(matches!(
        build(&other, false).unwrap_err(),
        PostingsError::Chunk {
            chunk: 0,
            source: FormatError::Generation {
                needed: 4,
                given: Some(3)
            }
        }
    ));
    assert_eq!(
        build(&column.dictionary, true).unwrap_err(),
        PostingsError::Interrupted
    );
    let plan = PostingsPlan::new(
        column.chunks(),
        &column.dictionary,
        NonZeroUsize::MIN,
        &go_on(),
    );
    let plan = plan.unwrap();
    let mut bytes = vec![0; plan.len_bytes()];
    let stopped = plan.write(&mut bytes, &AtomicBool::new(true));
    assert_eq!(stopped.unwrap_err(), PostingsError::Interrupted);
}

#[test]
fn every_changed_bit_is_noticed() {
    let column = Column::new(&[], vec![drawn(&mut Random(5), 3000, 1500, 10)]);
    let mut bytes = column.postings(1);
    bytes.truncate(bytes.len() - 100);
    for len in [0, 4, 63, 64, bytes.len() - 1] {
        let error = Postings::open(&bytes[..len]).unwrap_err();
        assert!(
            matches!(error, FormatError::Truncated { .. }),
            "{len}: {error}"
        );
    }
    for at in (0..bytes.len()).step_by(13).chain(0..200) {
        bytes[at] ^= 1 << (at % 8);
        if let Ok(postings) = Postings::open(&bytes) {
            let mut pages = 0..postings.pages();
            let noticed = pages.any(|page| postings.verify_page(page).is_err());
            // Only the padding of the checksums to whole lines means nothing.
            assert!(noticed || bytes[at] == 1 << (at % 8), "byte {at}");
        }
        bytes[at] ^= 1 << (at % 8);
    }
    let mut newer = bytes.clone();
    newer[4] = 2;
    let error = Postings::open(&newer).unwrap_err().to_string();
    assert_eq!(
        error,
        "an inverted index has format version 2, this build reads 1: use the build that wrote it"
    );
}

/// The header's checksum made right again.
fn reseal(bytes: &mut [u8]) {
    let crc = crc32c_of(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
}

/// CRC32C bit by bit: slow, and not the crate that is tested.
fn crc32c_of(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever the header and the pages say: an error or positions, nothing else.
    #[test]
    fn hostile_bytes_are_errors_or_positions(
        unique in any::<bool>(),
        head in prop::collection::vec((5..60_usize, any::<u8>()), 0..3),
        data in prop::collection::vec((any::<u16>(), any::<u8>()), 0..20),
    ) {
        let values = if unique { (0..900).collect() } else { drawn(&mut Random(8), 2000, 600, 9) };
        let column = Column::new(&[], vec![values]);
        let mut bytes = column.postings(1);
        for (at, value) in head {
            bytes[at] = value;
        }
        reseal(&mut bytes);
        for (at, value) in data {
            let at = 128 + usize::from(at) % (bytes.len() - 128);
            bytes[at] = value;
        }
        if let Ok(postings) = Postings::open(&bytes) {
            for code in (0..700).chain([u32::MAX - 1]) {
                let (list, mut rows) = (postings.pages_of_list(code), 0_u64);
                prop_assert!(list.end <= postings.pages());
                if postings.positions(code, |_| rows += 1).is_ok() {
                    prop_assert!(rows <= postings.entries().max(1));
                }
            }
        }
    }
}

/// Version 1, as it was first written.
#[test]
fn postings_are_written_and_read_as_ever() {
    let lists = Column::new(
        &(0..40).collect::<Vec<_>>(),
        vec![
            (0..150)
                .map(|row| (row % 10 != 3).then_some(row % 7))
                .collect(),
            Int32Array::from(vec![Some(30), None, Some(2)]),
        ],
    );
    let sparse = Column::new(
        &(0..1000).collect::<Vec<_>>(),
        vec![Int32Array::from(vec![5, 999])],
    );
    let rows = Column::new(&[], vec![(0..50).rev().collect(), (50..60).collect()]);
    for (name, column) in [("lists", lists), ("sparse", sparse), ("rows", rows)] {
        let mut written = column.postings(1);
        written.truncate(written.len() - 100);
        let path = format!("tests/golden/{name}.postings");
        if std::env::var_os("TIERRA_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &written).unwrap();
        }
        let stored = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(stored == written, "{name} is no longer written as it was");
        column.check(&stored);
    }
}
