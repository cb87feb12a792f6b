//! Promise: a code means one value for as long as its generation lives, through growth, durable
//! images, and merging; values are found by code and codes by value, in any execution.

use std::sync::Arc;

use crate::support::{Nulls, Shape, column, concatenated, read};
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use tierra_column::bits::Mask;
use tierra_column::{
    Cell, Chunk, ChunkPlan, Dictionary, DictionaryBuilder, Encoding, Filter, LogicalType, Scratch,
    Value, ValueSet, Verdict,
};
use tierra_interleave::{Execution, Lookups, Scheduling, run_plain};

const TYPES: [LogicalType; 3] = [
    LogicalType::Varchar,
    LogicalType::BigInt,
    LogicalType::Double,
];

fn write(plan: &ChunkPlan) -> Vec<u8> {
    let mut bytes = vec![0; plan.len_bytes()];
    plan.write(&mut bytes);
    bytes
}

/// Two chunks of a column; the second one's new values are the delta.
fn grown(ty: LogicalType) -> (Dictionary, [(Vec<u8>, ArrayRef); 2]) {
    let mut builder = DictionaryBuilder::new(ty, 3);
    let chunks = [(Shape::Few, 1), (Shape::Random, 2)].map(|(shape, seed)| {
        let column = column(ty, shape, Nulls::Some, 1500, seed);
        let encoding = Some(Encoding::Dictionary);
        let plan =
            ChunkPlan::new(ty, &[Arc::clone(&column)], encoding, Some(&mut builder)).unwrap();
        (write(&plan), column)
    });
    (builder.finish(), chunks)
}

fn assert_reads(dictionary: &Dictionary, chunks: &[(Vec<u8>, ArrayRef)]) {
    let ty = dictionary.logical_type();
    for (bytes, column) in chunks {
        let chunk = Chunk::open(bytes, ty).unwrap();
        assert_eq!(chunk.dictionary_generation(), Some(dictionary.generation()));
        let found = read(&chunk, Some(dictionary), |_| Mask::all());
        assert_eq!(format!("{found:?}"), format!("{column:?}"), "{ty}");
        assert_eq!(found.len(), column.len());
    }
}

#[test]
fn the_first_chunk_is_in_order_and_later_values_are_the_delta() {
    for ty in TYPES {
        let (dictionary, chunks) = grown(ty);
        assert_eq!(dictionary.main_len(), 5, "{ty}");
        assert!(dictionary.delta_len() > 1000 && dictionary.wants_merge());
        let main: Vec<Value> = (0..5).map(|code| dictionary.value(code)).collect();
        assert!(main.is_sorted());
        assert_reads(&dictionary, &chunks);
    }
}

#[test]
fn a_chunk_of_nulls_needs_no_dictionary() {
    // A column whose first rows are all NULL has a dictionary chunk before it has a dictionary.
    for ty in TYPES {
        for rows in [1, 1024, 1025] {
            let column = column(ty, Shape::Few, Nulls::All, rows, 1);
            let mut builder = DictionaryBuilder::new(ty, 1);
            let encoding = Some(Encoding::Dictionary);
            let plan = ChunkPlan::new(
                ty,
                std::slice::from_ref(&column),
                encoding,
                Some(&mut builder),
            );
            let bytes = write(&plan.unwrap());
            assert!(builder.is_empty());
            let chunk = Chunk::open(&bytes, ty).unwrap();
            assert_eq!(&read(&chunk, None, |_| Mask::all()), &column, "{ty}");
            assert_eq!(
                run_plain(|cx| chunk.value(cx, rows - 1, None)),
                Ok(Cell::Null)
            );
            let value = match ty {
                LogicalType::Varchar => Value::Bytes(b"a"[..].into()),
                _ => Value::Ordinal(1),
            };
            for (filter, passing) in [
                (Filter::eq(value.clone()), 0),
                (Filter::not_eq(value), 0),
                (Filter::is_not_null(), 0),
                (Filter::is_null(), rows),
            ] {
                let bound = chunk.bind(&filter, None, Execution::default()).unwrap();
                let mut found = 0;
                for block in 0..chunk.blocks() {
                    let mut mask = Mask::all();
                    chunk
                        .select(&bound, block, &mut mask, &mut Scratch::new())
                        .unwrap();
                    found += mask.count();
                    let verdict = if passing == 0 {
                        Verdict::Skip
                    } else {
                        Verdict::All
                    };
                    assert_eq!(chunk.verdict(&bound, block), verdict);
                }
                assert_eq!(found, passing, "{ty} {filter:?}");
            }
        }
    }
}

#[test]
fn codes_are_found_by_value_in_every_execution() {
    for ty in TYPES {
        let (dictionary, _) = grown(ty);
        let mut wanted: Vec<Value> = (0..dictionary.len() as u32)
            .rev()
            .map(|code| dictionary.value(code))
            .collect();
        let absent = match ty {
            LogicalType::Varchar => ["", "Customer#", "Customer#9", "nothing like it", "\0"]
                .map(|text| Value::Bytes(text.as_bytes().into()))
                .to_vec(),
            _ => vec![
                Value::Ordinal(0),
                Value::Ordinal(u64::MAX),
                Value::Ordinal(12345),
            ],
        };
        wanted.extend(absent.iter().cloned());
        let schedulings = [
            Scheduling::Auto,
            Execution::Plain.into(),
            Execution::Interleaved.into(),
        ];
        for execution in schedulings {
            let mut lookups = Lookups::new(execution);
            let codes = dictionary.code_of_many(&wanted, &mut lookups);
            assert!(lookups.report().lookups >= wanted.len() as u64);
            for (code, expected) in codes.iter().zip((0..dictionary.len() as u32).rev()) {
                assert_eq!(*code, Some(expected), "{ty} {execution}");
            }
            assert!(
                codes[dictionary.len()..].iter().all(Option::is_none),
                "{ty} {execution}"
            );
        }
    }
}

#[test]
fn images_give_back_main_and_delta() {
    for ty in TYPES {
        let (dictionary, chunks) = grown(ty);
        let (main, from) = (dictionary.main_piece(), dictionary.main_len());
        let whole = dictionary.delta_piece(from);
        assert_eq!(main.len(), dictionary.main_piece_bytes());
        assert_eq!(whole.len(), dictionary.delta_piece_bytes(from));
        let opened = Dictionary::open(ty, 3, &main, &[&whole]).unwrap();
        assert_reads(&opened, &chunks);
        assert_eq!(
            (opened.main_len(), opened.delta_len()),
            (5, dictionary.delta_len())
        );

        // In two pieces: as it was when it had grown half as far, and since.
        let first = Dictionary::open(ty, 3, &main, &[]).unwrap();
        let mut builder = DictionaryBuilder::from_dictionary(&first);
        let middle = dictionary.values_array().slice(5, 400);
        builder.intern(&middle, &mut Vec::new()).unwrap();
        let half = builder.finish().delta_piece(from);
        let rest = dictionary.delta_piece(from + 400);
        let opened = Dictionary::open(ty, 3, &main, &[&half, &rest]).unwrap();
        assert_reads(&opened, &chunks);

        // Out of turn, twice, or of another generation.
        assert!(Dictionary::open(ty, 3, &main, &[&rest]).is_err());
        assert!(Dictionary::open(ty, 3, &main, &[&half, &half]).is_err());
        assert!(Dictionary::open(ty, 4, &main, &[]).is_err());
        assert!(Dictionary::open(ty, 3, &whole, &[]).is_err());
    }
}

#[test]
fn a_builder_goes_on_where_a_dictionary_stopped() {
    for ty in TYPES {
        let (dictionary, chunks) = grown(ty);
        let mut builder = DictionaryBuilder::from_dictionary(&dictionary);
        let more = concatenated(
            ty,
            &[
                Arc::clone(&chunks[1].1),
                column(ty, Shape::Extremes, Nulls::No, 200, 8),
            ],
        );
        let plan = ChunkPlan::new(
            ty,
            &[Arc::clone(&more)],
            Some(Encoding::Dictionary),
            Some(&mut builder),
        )
        .unwrap();
        let third = (write(&plan), more);
        let longer = builder.finish();
        assert!(longer.len() > dictionary.len());
        assert_eq!(longer.main_len(), dictionary.main_len());
        assert_reads(&longer, &chunks);
        assert_reads(&longer, &[third]);
    }
}

#[test]
fn merging_makes_codes_ranks_and_chunks_follow() {
    for ty in TYPES {
        let (dictionary, chunks) = grown(ty);
        let (merged, remapping) = dictionary.merge(4);
        assert_eq!((merged.generation(), merged.delta_len()), (4, 0));
        assert_eq!((remapping.from(), remapping.to()), (3, 4));
        assert_eq!(merged.len(), dictionary.len());
        for code in 0..merged.len() as u32 {
            let new = remapping.get(code).unwrap();
            assert_eq!(merged.value(new), dictionary.value(code));
            assert!(code == 0 || merged.value(code - 1) < merged.value(code));
        }
        let mut scratch = Scratch::new();
        let moved = chunks.map(|(bytes, column)| {
            let chunk = Chunk::open(&bytes, ty).unwrap();
            let plan = ChunkPlan::remap(&chunk, &remapping, &mut scratch).unwrap();
            (write(&plan), column)
        });
        assert_reads(&merged, &moved);
        // The old dictionary does not read the new chunks.
        let chunk = Chunk::open(&moved[0].0, ty).unwrap();
        assert!(
            chunk
                .bind(
                    &Filter::eq(dictionary.value(0)),
                    Some(&dictionary),
                    Execution::default()
                )
                .is_err()
        );
        let codes = dictionary
            .code_filter(&Filter::eq(dictionary.value(0)), &mut Lookups::default())
            .unwrap();
        assert!(chunk.bind_codes(&codes).is_err());
        assert!(ChunkPlan::remap(&chunk, &remapping, &mut scratch).is_err());
    }
}

#[test]
fn filters_see_main_and_delta() {
    for ty in TYPES {
        let (dictionary, chunks) = grown(ty);
        let mut sorted: Vec<Value> = (0..dictionary.len() as u32)
            .map(|code| dictionary.value(code))
            .collect();
        sorted.sort();
        let (low, high) = (
            sorted[sorted.len() / 4].clone(),
            sorted[sorted.len() / 2].clone(),
        );
        let members: Vec<Value> = sorted.iter().step_by(9).cloned().collect();
        let filters = [
            Filter::between(low.clone(), high),
            Filter::not_eq(low),
            Filter::in_set(Arc::new(ValueSet::new(members.clone()).unwrap())),
            Filter::not_in_set(
                Arc::new(ValueSet::new(members[..3].to_vec()).unwrap()),
                false,
            ),
        ];
        for filter in filters {
            // Looked up once for all chunks, or for each anew.
            let codes = dictionary
                .code_filter(&filter, &mut Lookups::default())
                .unwrap();
            let both = chunks
                .iter()
                .flat_map(|chunk| [(chunk, true), (chunk, false)]);
            for ((bytes, column), shared) in both {
                let expected = tierra_column::evaluate(&filter, column).unwrap();
                let chunk = Chunk::open(bytes, ty).unwrap();
                let bound = match shared {
                    true => chunk.bind_codes(&codes),
                    false => chunk.bind(&filter, Some(&dictionary), Scheduling::Auto),
                };
                let bound = bound.unwrap();
                let mut scratch = Scratch::new();
                for block in 0..chunk.blocks() {
                    let mut mask = Mask::all();
                    let touched = chunk
                        .select(&bound, block, &mut mask, &mut scratch)
                        .unwrap();
                    assert!(!touched.decoded);
                    for row in 0..chunk.block_rows(block) {
                        assert_eq!(mask.get(row), expected.value(block * 1024 + row));
                    }
                }
            }
        }
    }
}

#[test]
fn a_predicate_evaluated_once_per_value_filters_rows_by_code() {
    let ty = LogicalType::Varchar;
    let (dictionary, chunks) = grown(ty);
    let values = dictionary.values_array();
    let mut bitmap = vec![0_u64; dictionary.len().div_ceil(64)];
    for (code, text) in values.as_string_view().iter().enumerate() {
        bitmap[code / 64] |= u64::from(text.unwrap().contains('7')) << (code % 64);
    }
    for matches_null in [false, true] {
        let filter = Filter::codes(dictionary.generation(), bitmap.clone().into(), matches_null);
        for (bytes, column) in &chunks {
            let chunk = Chunk::open(bytes, ty).unwrap();
            let bound = chunk
                .bind(&filter, Some(&dictionary), Execution::default())
                .unwrap();
            let (mut scratch, mut found) = (Scratch::new(), Vec::new());
            for block in 0..chunk.blocks() {
                let mut mask = Mask::all();
                chunk
                    .select(&bound, block, &mut mask, &mut scratch)
                    .unwrap();
                found.extend(mask.iter().map(|row| block * 1024 + row));
            }
            let column: &StringViewArray = column.as_string_view();
            let expected: Vec<usize> = (0..column.len())
                .filter(|&row| match column.is_null(row) {
                    true => matches_null,
                    false => column.value(row).contains('7'),
                })
                .collect();
            assert_eq!(found, expected);
        }
    }
}
