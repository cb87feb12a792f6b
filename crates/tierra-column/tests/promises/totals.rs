//! Promise: totals taken from packed chunks are those of the selected values, in every type and encoding, with NULLs, whatever part
//! of a block is selected and whatever level the kernels have; those of arrays are the same.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::filter;
use arrow::datatypes::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType,
};

use crate::support::{NULLS, Nulls, ROWS, Random, SHAPES, Shape, TYPES, column, encode};
use tierra_column::bits::{BLOCK_LEN, Kernels, Level, Mask};
use tierra_column::{
    Chunk, ColumnGroups, ColumnTotals, Encoding, GroupTotals, LogicalType, Scratch, Totals, Value,
    WantedTotals,
};

const KINDS: [WantedTotals; 4] = [
    WantedTotals {
        sum: false,
        extremes: false,
    },
    WantedTotals {
        sum: true,
        extremes: false,
    },
    WantedTotals {
        sum: false,
        extremes: true,
    },
    WantedTotals {
        sum: true,
        extremes: true,
    },
];

/// The value in a row as an integer.
fn integer(ty: LogicalType, column: &ArrayRef, row: usize) -> i128 {
    match ty {
        LogicalType::Integer => column.as_primitive::<Int32Type>().value(row).into(),
        LogicalType::Date => column.as_primitive::<Date32Type>().value(row).into(),
        LogicalType::BigInt => column.as_primitive::<Int64Type>().value(row).into(),
        LogicalType::Timestamp => {
            let column = column.as_primitive::<TimestampMicrosecondType>();
            column.value(row).into()
        }
        LogicalType::Decimal { .. } => column.as_primitive::<Decimal128Type>().value(row),
        _ => panic!("{ty} has no integers"),
    }
}

/// What totals have to be, by the values of the selected rows: how many, their sum, the ordinals of the least and the greatest.
fn expected(
    ty: LogicalType,
    wanted: WantedTotals,
    column: &ArrayRef,
    rows: impl Iterator<Item = usize>,
) -> (u64, i128, Option<(u64, u64)>) {
    let rows = rows.filter(|row| column.is_valid(*row));
    let (mut count, mut sum, mut extremes) = (0, 0, None::<(u64, u64)>);
    for row in rows {
        count += 1;
        if wanted.sum {
            sum += integer(ty, column, row);
        }
        if wanted.extremes {
            let Some(Value::Ordinal(ordinal)) = Value::of_array(column, row) else {
                panic!("a value of {ty} without an ordinal");
            };
            let (least, greatest) = extremes.unwrap_or((ordinal, ordinal));
            extremes = Some((least.min(ordinal), greatest.max(ordinal)));
        }
    }
    (count, sum, extremes)
}

fn found(totals: &Totals) -> (u64, i128, Option<(u64, u64)>) {
    (totals.count, totals.sum, totals.extremes())
}

/// Masks of a column's blocks: all rows, few, every other word of 64, none.
fn masks(blocks: usize, random: &mut Random) -> Vec<Vec<Mask>> {
    let mut some = || {
        let mut mask = Mask::none();
        let one_in = [2, 100][random.below(2) as usize];
        for row in 0..BLOCK_LEN {
            mask.set(row, random.below(one_in) == 0);
        }
        mask
    };
    let mixed = (0..blocks).map(|_| some()).collect();
    let mut words = Mask::none();
    for row in (0..BLOCK_LEN).filter(|row| row / 64 % 2 == 0) {
        words.set(row, true);
    }
    vec![
        vec![Mask::all(); blocks],
        mixed,
        vec![words; blocks],
        vec![Mask::none(); blocks],
    ]
}

fn check(ty: LogicalType, column: &ArrayRef, encoding: Encoding, random: &mut Random) {
    let encoded = encode(ty, column, Some(encoding));
    let dictionary = encoded.dictionary.as_ref();
    let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
    for wanted in KINDS.into_iter().filter(|wanted| wanted.of_type(ty)) {
        for masks in masks(chunk.blocks(), random) {
            let selected = |row: &usize| masks[row / BLOCK_LEN].get(row % BLOCK_LEN);
            let rows = (0..column.len()).filter(selected);
            let expected = expected(ty, wanted, column, rows);
            for level in Level::ALL {
                let Some(kernels) = Kernels::at(level) else {
                    continue;
                };
                let mut scratch = Scratch::with(kernels);
                let (mut read, mut known) =
                    (ColumnTotals::new(ty, wanted), ColumnTotals::new(ty, wanted));
                for (block, mask) in masks.iter().enumerate() {
                    read.append(&chunk, block, mask, dictionary, &mut scratch)
                        .unwrap();
                    let mut inside = *mask;
                    inside.and(&Mask::first(chunk.block_rows(block)));
                    if !known.add_known(&chunk, block, inside.count()) {
                        known
                            .append(&chunk, block, mask, dictionary, &mut scratch)
                            .unwrap();
                    }
                }
                let context = format!("{ty} {encoding} {level} {wanted:?}");
                assert_eq!(found(&read.finish()), expected, "{context}");
                assert_eq!(found(&known.finish()), expected, "{context}, known");
                assert_eq!(read.finish(), Totals::NONE);
            }
            let passing = (0..column.len()).map(|row| Some(selected(&row)));
            let array = filter(column, &passing.collect()).unwrap();
            let mut totals = ColumnTotals::new(ty, wanted);
            totals.append_array(&array).unwrap();
            assert_eq!(found(&totals.finish()), expected, "{ty} {wanted:?}, array");
        }
    }
}

#[test]
fn totals_are_those_of_the_selected_values() {
    let seed = 0x707a15;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for ty in TYPES {
        for encoding in Encoding::ALL.into_iter().filter(|it| it.supports(ty)) {
            for shape in SHAPES {
                let nulls = NULLS[random.below(NULLS.len() as u64) as usize];
                let rows = ROWS[random.below(ROWS.len() as u64) as usize];
                let column = column(ty, shape, nulls, rows, random.next());
                check(ty, &column, encoding, &mut random);
            }
            let most = ROWS[ROWS.len() - 1];
            for nulls in [Nulls::No, Nulls::Some, Nulls::Blocks] {
                let column = column(ty, Shape::Extremes, nulls, most, random.next());
                check(ty, &column, encoding, &mut random);
            }
        }
    }
}

/// The column of groups has a dictionary or none, and both have NULLs.
#[test]
fn totals_by_group_are_those_of_its_values() {
    let seed = 0x9909;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let rows = ROWS[ROWS.len() - 1];
    let names = LogicalType::Varchar;
    for ty in TYPES {
        for encoding in Encoding::ALL.into_iter().filter(|it| it.supports(ty)) {
            for by in [Encoding::Dictionary, Encoding::Plain] {
                let of = |random: &mut Random| NULLS[random.below(3) as usize];
                let groups = column(names, Shape::Few, of(&mut random), rows, random.next());
                let shape = SHAPES[random.below(SHAPES.len() as u64) as usize];
                let values = column(ty, shape, of(&mut random), rows, random.next());
                let wanted = match KINDS[3].of_type(ty) {
                    true => KINDS[1 + random.below(3) as usize],
                    false => KINDS[0],
                };
                let (by, encoded) = (
                    encode(names, &groups, Some(by)),
                    encode(ty, &values, Some(encoding)),
                );
                let of_groups = Chunk::open(&by.bytes, names).unwrap();
                let of_values = Chunk::open(&encoded.bytes, ty).unwrap();
                for masks in masks(of_values.blocks(), &mut random) {
                    let (mut found, mut totals) =
                        (ColumnGroups::new(names), GroupTotals::new(ty, wanted));
                    let (mut of_rows, scratch) = (Vec::new(), &mut Scratch::new());
                    for (block, mask) in masks.iter().enumerate() {
                        of_rows.clear();
                        let dictionary = by.dictionary.as_ref();
                        found
                            .append(&of_groups, block, mask, dictionary, scratch, &mut of_rows)
                            .unwrap();
                        let (dictionary, chunk) = (encoded.dictionary.as_ref(), &of_values);
                        totals
                            .append(&found, &of_rows, chunk, block, mask, dictionary, scratch)
                            .unwrap();
                    }
                    let totals = totals.finish(&found);
                    let found = found.finish().unwrap();
                    let selected = |row: &usize| masks[row / BLOCK_LEN].get(row % BLOCK_LEN);
                    let mut in_groups = 0;
                    for (group, totals) in totals.iter().enumerate() {
                        let value = Value::of_array(&found, group);
                        let is_in = |row: &usize| Value::of_array(&groups, *row) == value;
                        let members = (0..rows).filter(selected).filter(is_in);
                        in_groups += members.clone().count();
                        let expected = expected(ty, wanted, &values, members);
                        let context = format!("{ty} {encoding} {value:?}");
                        assert_eq!(self::found(totals), expected, "{context}");
                    }
                    assert_eq!(in_groups, (0..rows).filter(selected).count());
                }
            }
        }
    }
}

#[test]
fn totals_of_parts_add_up() {
    let ty = LogicalType::BigInt;
    let wanted = KINDS[3];
    let all = column(ty, Shape::Extremes, Nulls::Some, 3000, 5);
    let mut sum = Totals::NONE;
    for part in [
        all.slice(0, 1700),
        all.slice(1700, 0),
        all.slice(1700, 1300),
    ] {
        let mut totals = ColumnTotals::new(ty, wanted);
        totals.append_array(&part).unwrap();
        sum.add(&totals.finish());
    }
    assert_eq!(found(&sum), expected(ty, wanted, &all, 0..3000));
    let strings = column(LogicalType::Varchar, Shape::Few, Nulls::No, 10, 5);
    let mut totals = ColumnTotals::new(ty, wanted);
    assert!(totals.append_array(&strings).is_err());
}

/// Every byte of a block that is read counts: the check above would find totals that leave codes out.
#[test]
fn a_changed_code_changes_the_sum() {
    let ty = LogicalType::Integer;
    let column = column(ty, Shape::Random, Nulls::No, 2048, 9);
    let right = expected(ty, KINDS[1], &column, 0..2048);
    let encoded = encode(ty, &column, Some(Encoding::Static));
    let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
    for at in chunk.block_range(1).step_by(97) {
        let mut bytes = encoded.bytes.clone();
        bytes[at] ^= 0x10;
        let changed = Chunk::open(&bytes, ty).unwrap();
        let mut totals = ColumnTotals::new(ty, KINDS[1]);
        for block in 0..2 {
            let scratch = &mut Scratch::new();
            totals
                .append(&changed, block, &Mask::all(), None, scratch)
                .unwrap();
        }
        assert_ne!(found(&totals.finish()), right, "byte {at}");
    }
}
