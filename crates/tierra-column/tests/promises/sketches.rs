//! Promise: a chunk tells about how many distinct values it has, whatever its encoding, and chunks of one column tell it
//! together; a sketch that was damaged is noticed with the header that it is a part of.

use std::collections::HashSet;
use std::sync::Arc;

use crate::support::{NULLS, SHAPES, TYPES, column, encode};
use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, StringViewArray, new_null_array};
use tierra_column::{Chunk, DistinctSketch, Encoding, LogicalType, Value};

fn assert_near(sketch: &DistinctSketch, column: &ArrayRef, what: &str) {
    let value = |row| Value::of_array(column, row);
    let exact: HashSet<_> = (0..column.len()).filter_map(value).collect();
    let (estimate, exact) = (sketch.estimate() as f64, exact.len() as f64);
    let off = (estimate - exact).abs();
    assert!(
        off <= (0.13 * exact).max(4.0),
        "{what}: {estimate} of {exact}"
    );
}

#[test]
fn every_encoding_of_a_column_has_its_sketch() {
    for ty in TYPES {
        for (index, shape) in SHAPES.into_iter().enumerate() {
            let column = column(ty, shape, NULLS[index % NULLS.len()], 3000, 7);
            let whole = DistinctSketch::of_column(ty, &column);
            assert_eq!(whole.is_some(), column.null_count() < column.len());
            for encoding in Encoding::ALL.into_iter().filter(|e| e.supports(ty)) {
                let what = format!("{ty} {encoding} {shape:?}");
                let encoded = encode(ty, &column, Some(encoding));
                let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
                let sketch = chunk.distinct_sketch();
                if encoded.encoding == Encoding::Dictionary {
                    assert_eq!(sketch, None, "{what}");
                    continue;
                }
                assert_eq!(sketch, whole, "{what}");
                if let Some(sketch) = sketch {
                    assert_near(&sketch, &column, &what);
                }
            }
        }
    }
}

#[test]
fn chunks_tell_together_what_one_would() {
    let ty = LogicalType::BigInt;
    let values = |rows: std::ops::Range<i64>| -> ArrayRef {
        let value = |row: i64| (row % 11 != 0).then(|| (row * 7919 % 65_536 - 30_000) << (row % 3));
        Arc::new(rows.map(value).collect::<Int64Array>())
    };
    let sketch = |rows| {
        let encoded = encode(ty, &values(rows), Some(Encoding::Static));
        let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
        chunk.distinct_sketch().unwrap()
    };
    let mut parts = DistinctSketch::new();
    (0..40).for_each(|part| parts.merge(&sketch(part * 1500..(part + 1) * 1500)));
    for told in [parts, sketch(0..60_000)] {
        assert_near(&told, &values(0..60_000), "60,000 rows");
    }
}

/// Few values come for a long time, and then many.
#[test]
fn values_that_come_late_are_counted() {
    let ty = LogicalType::Integer;
    for (few, rows) in [(1, 100_000), (7, 300_000), (2_406, 400_000)] {
        let value = |row: i32| if row < rows { row % few } else { row };
        let column: ArrayRef = Arc::new((0..rows + 150_000).map(value).collect::<Int32Array>());
        let sketch = DistinctSketch::of_column(ty, &column).unwrap();
        assert_near(&sketch, &column, &format!("{few} values, then others"));
    }
}

/// The same values in turns of many rows, in which some blocks are passed over.
#[test]
fn values_in_turns_are_counted() {
    for turn in [1_024, 8 * 1_024, 16 * 1_024, 10_000] {
        let value = |row: i32| row / turn % 50;
        let column: ArrayRef = Arc::new((0..1_000_000).map(value).collect::<Int32Array>());
        let sketch = DistinctSketch::of_column(LogicalType::Integer, &column).unwrap();
        assert_near(&sketch, &column, &format!("{turn} rows a turn"));
    }
}

#[test]
fn few_rows_and_rows_of_null_have_none() {
    let few: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..1023).map(|i| i.to_string()),
    ));
    let null = new_null_array(&LogicalType::Varchar.arrow(), 5000);
    for column in [few, null] {
        let encoded = encode(LogicalType::Varchar, &column, Some(Encoding::Plain));
        let chunk = Chunk::open(&encoded.bytes, LogicalType::Varchar).unwrap();
        assert_eq!(chunk.distinct_sketch(), None);
        assert_eq!(
            DistinctSketch::of_column(LogicalType::Varchar, &column),
            None
        );
    }
}

#[test]
fn a_damaged_sketch_is_a_damaged_header() {
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values((0..2000).map(|row| row % 777)));
    let mut bytes = encode(LogicalType::Integer, &column, Some(Encoding::Static)).bytes;
    let open = |bytes: &[u8]| Chunk::open(bytes, LogicalType::Integer).map(|_| ());
    open(&bytes).unwrap();
    // Behind two entries of the directory.
    for at in 128 + 2 * 32..128 + 2 * 32 + 1024 {
        bytes[at] ^= 4;
        assert!(open(&bytes).is_err(), "byte {at}");
        bytes[at] ^= 4;
    }
    // Checksums that were made right do not make it possible.
    for (at, value, why) in [
        (128 + 2 * 32 + 9, 24, "no values come to"),
        (80, 193, "the sketch lies elsewhere"),
        (89, 8, "the sketch lies elsewhere"),
        (41, 0, "the data lies outside the chunk"),
    ] {
        let mut forged = bytes.clone();
        forged[at] = value;
        let summary = crc32c::crc32c(&forged[128..128 + 2 * 32 + 1024]);
        forged[120..124].copy_from_slice(&summary.to_le_bytes());
        let descriptor = crc32c::crc32c(&forged[..124]);
        forged[124..128].copy_from_slice(&descriptor.to_le_bytes());
        let error = open(&forged).unwrap_err().to_string();
        assert!(error.contains(why), "byte {at}: {error}");
    }
}
