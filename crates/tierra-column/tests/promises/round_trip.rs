//! Promise: what was stored comes back, bit for bit, from every encoding of every type, whole
//! blocks, single rows and anything in between.

use std::sync::Arc;

use crate::support::{
    self, NULLS, Nulls, ROWS, Random, SHAPES, Shape, TYPES, column, encode, read,
};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, StringViewArray, UInt32Array,
};
use arrow::compute::{filter, take};
use arrow::datatypes::Float64Type;
use proptest::prelude::*;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{
    CHUNK_ROWS, CellAt, Chunk, ChunkPlan, ColumnReader, Dictionary, EncodeError, Encoding,
    LogicalType, read_cells,
};
use tierra_interleave::{Cx, Execution, GroupSize, for_each, in_mode};

/// Arrow compares doubles by value; here their bits count.
fn bits(array: &ArrayRef) -> Vec<Option<u64>> {
    array
        .as_primitive::<Float64Type>()
        .iter()
        .map(|value| value.map(f64::to_bits))
        .collect()
}

fn assert_same(found: &ArrayRef, expected: &ArrayRef, what: &str) {
    if expected.as_any().is::<Float64Array>() {
        assert_eq!(bits(found), bits(expected), "{what}");
    } else {
        assert_eq!(found, expected, "{what}");
    }
}

fn check(ty: LogicalType, column: &ArrayRef, encoding: Encoding, seed: u64, what: &str) {
    let encoded = encode(ty, column, Some(encoding));
    assert!(
        encoded.encoding == encoding || encoded.encoding == Encoding::Plain,
        "{what}: {} instead of {encoding}",
        encoded.encoding
    );
    let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
    let dictionary = encoded.dictionary.as_ref();
    assert_eq!(chunk.rows(), column.len(), "{what}");
    assert_eq!(chunk.null_count(), column.null_count(), "{what}");
    for block in 0..chunk.blocks() {
        chunk.verify_block(block).unwrap();
    }

    assert_same(&read(&chunk, dictionary, |_| Mask::all()), column, what);

    // From a few rows of a block to nearly all.
    for keep_of_64 in [1, 8, 40, 63] {
        let mut random = Random(seed);
        let keep: Vec<bool> = (0..column.len())
            .map(|_| random.below(64) < keep_of_64)
            .collect();
        let expected = filter(column, &BooleanArray::from(keep.clone())).unwrap();
        let found = read(&chunk, dictionary, |block| {
            let mut mask = Mask::none();
            for (row, &kept) in keep[block * BLOCK_LEN..].iter().take(BLOCK_LEN).enumerate() {
                mask.set(row, kept);
            }
            mask
        });
        assert_same(&found, &expected, what);
    }

    let decoder = dictionary.map(Dictionary::decoder);
    for execution in Execution::ALL {
        let rows: Vec<usize> = (0..column.len()).step_by(7).collect();
        let mut cells = vec![None; rows.len()];
        in_mode!(execution, M => for_each(
            GroupSize::DEFAULT,
            &rows,
            |cx: Cx<M>, &row| chunk.value(cx, row, decoder.as_ref()),
            |index, cell| cells[index] = Some(cell),
        ));
        // The same in one go.
        let mut together = vec![None; rows.len()];
        let every = rows.iter().enumerate().map(|(index, &row)| {
            let decoder = decoder.as_ref();
            (
                index,
                CellAt {
                    chunk: &chunk,
                    row,
                    decoder,
                },
            )
        });
        let report = in_mode!(execution, M => read_cells::<M, _>(
            GroupSize::DEFAULT,
            every,
            &mut |index: usize, cell| together[index] = Some(cell),
        ));
        assert_eq!(together, cells, "{what}");
        assert_eq!(report.lookups, rows.len() as u64);
        if execution == Execution::Plain {
            assert_eq!(report.suspensions, 0);
        }
        let mut reader = ColumnReader::new(ty, rows.len());
        for cell in cells {
            reader.append_cell(cell.unwrap().unwrap()).unwrap();
        }
        let keep: BooleanArray = (0..column.len()).map(|row| Some(row % 7 == 0)).collect();
        assert_same(&reader.finish(), &filter(column, &keep).unwrap(), what);
    }
}

#[test]
fn every_encoding_of_every_type_gives_back_what_it_got() {
    let seed = 0x7e11a;
    for ty in TYPES {
        for encoding in Encoding::ALL
            .into_iter()
            .filter(|encoding| encoding.supports(ty))
        {
            for shape in SHAPES {
                for nulls in NULLS {
                    let rows = ROWS[(shape as usize * 5 + nulls as usize) % ROWS.len()].max(1500);
                    let what = format!("{ty} {encoding} {shape:?} {nulls:?} {rows} rows");
                    check(
                        ty,
                        &column(ty, shape, nulls, rows, seed),
                        encoding,
                        seed,
                        &what,
                    );
                }
            }
        }
    }
}

#[test]
fn boundaries_hold_for_every_number_of_rows() {
    for ty in [
        LogicalType::Integer,
        LogicalType::Varchar,
        LogicalType::Boolean,
    ] {
        for encoding in Encoding::ALL
            .into_iter()
            .filter(|encoding| encoding.supports(ty))
        {
            for rows in ROWS {
                for nulls in [Nulls::No, Nulls::Some] {
                    let what = format!("{ty} {encoding} {nulls:?} {rows} rows");
                    check(
                        ty,
                        &column(ty, Shape::Outliers, nulls, rows, 5),
                        encoding,
                        5,
                        &what,
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn any_column_comes_back(
        ty in proptest::sample::select(&TYPES[..]),
        encoding in proptest::sample::select(&Encoding::ALL[..]),
        shape in proptest::sample::select(&SHAPES[..]),
        nulls in proptest::sample::select(&NULLS[..]),
        rows in 0_usize..2200,
        seed: u64,
    ) {
        if encoding.supports(ty) {
            check(ty, &column(ty, shape, nulls, rows, seed), encoding, seed, "property");
        }
    }
}

#[test]
fn values_over_all_ordinals_with_nulls_fall_back_to_plain() {
    let ty = LogicalType::BigInt;
    let column = column(ty, Shape::Extremes, Nulls::Some, 2000, 1);
    for encoding in [
        Encoding::Static,
        Encoding::FrameOfReference,
        Encoding::Dynamic,
        Encoding::Dynamic128,
        Encoding::Rle,
    ] {
        assert_eq!(
            encode(ty, &column, Some(encoding)).encoding,
            Encoding::Plain
        );
    }
}

#[test]
fn more_strings_than_a_directory_can_address_are_refused() {
    let rows = CHUNK_ROWS;
    // One string that all rows share: 256 GiB of which only one copy exists.
    let string: ArrayRef = Arc::new(StringViewArray::from_iter_values(["x".repeat(1 << 18)]));
    let all = take(&string, &UInt32Array::from(vec![0; rows]), None).unwrap();
    let plan =
        |rows| ChunkPlan::new(LogicalType::Varchar, &[all.slice(0, rows)], None, None).map(|_| ());
    assert!(matches!(
        plan(rows),
        Err(EncodeError::ChunkTooLong { rows: CHUNK_ROWS, bytes }) if bytes > 1 << 38
    ));
    assert_eq!(plan(rows - BLOCK_LEN), Ok(()));
}

#[test]
fn an_array_goes_through_a_reader_unchanged() {
    for ty in TYPES {
        let column = column(ty, Shape::Extremes, Nulls::Some, 300, 9);
        let mut reader = ColumnReader::new(ty, 0);
        for piece in support::pieces(&column) {
            reader.append_array(&piece).unwrap();
        }
        assert_eq!(reader.len(), 300);
        assert_same(&reader.finish(), &column, &ty.to_string());
        assert!(reader.is_empty());
    }
}
