//! Promise: a block's bytes can be made again from its values, which may come from a chunk in any other encoding; what comes out
//! matches the block's checksum, and values that are not the block's give nothing.

use crate::support::{NULLS, Nulls, SHAPES, Shape, TYPES, column, read};
use arrow::array::{Array, ArrayRef, Int32Array};
use std::sync::Arc;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{
    Chunk, ChunkPlan, ColumnReader, Dictionary, DictionaryBuilder, Encoding, LogicalType, Scratch,
    ValueChecksums,
};

/// A chunk in this encoding, with logical checksums and its dictionary.
fn replica(
    ty: LogicalType,
    values: &ArrayRef,
    encoding: Encoding,
) -> (Vec<u8>, Option<Dictionary>) {
    let checksums = ValueChecksums::new(ty, std::slice::from_ref(values)).unwrap();
    let mut builder = (encoding == Encoding::Dictionary).then(|| DictionaryBuilder::new(ty, 7));
    let arrays = std::slice::from_ref(values);
    let plan = ChunkPlan::new(ty, arrays, Some(encoding), builder.as_mut()).unwrap();
    let plan = plan.with_checksums(&checksums);
    let mut bytes = vec![0x77; plan.len_bytes()];
    plan.write(&mut bytes);
    (bytes, builder.map(DictionaryBuilder::finish))
}

fn values(chunk: &Chunk<'_>, block: usize, dictionary: Option<&Dictionary>) -> ArrayRef {
    let rows = chunk.block_rows(block);
    let mut reader = ColumnReader::new(chunk.logical_type(), rows);
    let appended = reader.append(
        chunk,
        block,
        &Mask::first(rows),
        dictionary,
        &mut Scratch::new(),
    );
    appended.unwrap();
    reader.finish()
}

#[test]
fn every_block_follows_from_its_values_in_any_other_encoding() {
    let (mut blocks, mut by_all) = (0, 0);
    for ty in TYPES {
        let encodings = || Encoding::ALL.into_iter().filter(|it| it.supports(ty));
        for (shape, nulls) in SHAPES.iter().flat_map(|it| NULLS.map(|nulls| (*it, nulls))) {
            let array = column(ty, shape, nulls, 2 * BLOCK_LEN + 77, 11);
            let from: Vec<_> = [Encoding::Plain, Encoding::Dictionary]
                .into_iter()
                .filter(|it| it.supports(ty))
                .map(|it| replica(ty, &array, it))
                .collect();
            for encoding in encodings() {
                let what = format!("{ty} {encoding} {shape:?} {nulls:?}");
                let (bytes, dictionary) = replica(ty, &array, encoding);
                let chunk = Chunk::open(&bytes, ty).unwrap();
                let checksums = chunk.value_checksums().unwrap();
                for (other_bytes, other_dictionary) in &from {
                    let other = Chunk::open(other_bytes, ty).unwrap();
                    assert_eq!(other.value_checksums().as_ref(), Some(&checksums), "{what}");
                    for block in 0..chunk.blocks() {
                        let values = values(&other, block, other_dictionary.as_ref());
                        assert!(checksums.matches(block, ty, &values), "{what}");
                        let by_itself = chunk.rebuild_block(block, &values, dictionary.as_ref());
                        let rebuilt = by_itself.or_else(|| {
                            by_all += 1;
                            assert_eq!(chunk.encoding(), Encoding::Fsst, "{what}");
                            let all = read(&other, other_dictionary.as_ref(), |_| Mask::all());
                            chunk.rebuild_block_of(block, &[all])
                        });
                        assert_eq!(
                            rebuilt.as_deref(),
                            Some(chunk.stored_block(block)),
                            "{what}"
                        );
                        blocks += 1;
                    }
                }
            }
        }
    }
    assert!(blocks > 10_000 && by_all > 0, "{blocks} {by_all}");
}

/// Bytes of other values would be as wrong as the damaged ones: the checks must tell.
#[test]
fn other_values_rebuild_nothing() {
    let ty = LogicalType::Integer;
    let array = column(ty, Shape::Steps, Nulls::Some, 2 * BLOCK_LEN, 5);
    let mut other = Int32Array::from(array.to_data()).iter().collect::<Vec<_>>();
    let changed = other.iter().rposition(Option::is_some).unwrap();
    other[changed] = other[changed].map(|value| value ^ 1);
    let other: ArrayRef = Arc::new(Int32Array::from(other));
    for encoding in Encoding::ALL.into_iter().filter(|it| it.supports(ty)) {
        let (bytes, dictionary) = replica(ty, &array, encoding);
        let chunk = Chunk::open(&bytes, ty).unwrap();
        let checksums = chunk.value_checksums().unwrap();
        for wrong in [
            other.slice(BLOCK_LEN, BLOCK_LEN),
            array.slice(0, BLOCK_LEN),
            array.slice(BLOCK_LEN, BLOCK_LEN - 1),
        ] {
            assert!(!checksums.matches(1, ty, &wrong), "{encoding}");
            let rebuilt = chunk.rebuild_block(1, &wrong, dictionary.as_ref());
            assert_eq!(rebuilt, None, "{encoding}");
        }
        if !encoding.uses_dictionary() {
            assert_eq!(
                chunk.rebuild_block_of(1, std::slice::from_ref(&other)),
                None,
                "{encoding}"
            );
        }
    }
}

/// A chunk has logical checksums only where they were asked for, and other bytes in their place are refused.
#[test]
fn they_are_part_of_the_header() {
    let ty = LogicalType::BigInt;
    let array = column(ty, Shape::Sorted, Nulls::No, 3 * BLOCK_LEN, 1);
    let (bytes, _) = replica(ty, &array, Encoding::Delta);
    let with = Chunk::open(&bytes, ty).unwrap();
    let plan = ChunkPlan::new(ty, &[array], Some(Encoding::Delta), None).unwrap();
    let mut plain = vec![0; plan.len_bytes()];
    plan.write(&mut plain);
    let without = Chunk::open(&plain, ty).unwrap();
    assert_eq!(without.value_checksums(), None);
    assert_eq!(with.distinct_sketch(), without.distinct_sketch());
    let rows = 3 * BLOCK_LEN;
    for (chunk, bytes) in [(&with, &bytes), (&without, &plain)] {
        assert_eq!(Chunk::header_bytes_at(bytes, rows), chunk.header_bytes());
        assert!(chunk.header_bytes() <= Chunk::header_bytes_max(rows));
        assert_eq!(
            chunk.used().next(),
            Some(0..chunk.used().next().unwrap().end)
        );
    }
    for block in 0..3 {
        assert_eq!(with.stored_block(block), without.stored_block(block));
    }
    // Each byte of the checksums counts.
    let end = with.used().next().unwrap().end;
    for at in end - 3 * 4..end {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Chunk::open(&damaged, ty).is_err(), "{at}");
    }
}
