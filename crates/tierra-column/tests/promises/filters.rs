//! Promise: a filter keeps exactly the rows for which SQL's condition is true, NULLs included, on
//! arrow arrays and on chunks of every encoding; a block's verdict never lies; nothing is decoded
//! except where the encoding is delta or a set is sparse.

use std::sync::Arc;

use crate::support::{NULLS, Nulls, Random, SHAPES, Shape, TYPES, column, encode};
use arrow::array::{Array, ArrayRef, Int64Array};
use proptest::prelude::*;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{
    Chunk, Encoding, Filter, FilterError, LogicalType, Scratch, Value, ValueSet, Verdict, evaluate,
};
use tierra_interleave::Execution;

/// A condition as SQL writes it.
#[derive(Debug, Clone)]
enum Condition {
    Eq(Value),
    NotEq(Value),
    Less(Value),
    LessOrEqual(Value),
    Greater(Value),
    GreaterOrEqual(Value),
    Between(Value, Value),
    In(Vec<Option<Value>>),
    NotIn(Vec<Option<Value>>),
    IsNull,
    IsNotNull,
}

use Condition::*;

impl Condition {
    /// Three-valued: `None` is unknown. Written from the standard, not from the filters.
    fn holds(&self, value: Option<&Value>) -> Option<bool> {
        match self {
            IsNull => Some(value.is_none()),
            IsNotNull => Some(value.is_some()),
            Eq(other) => Some(value? == other),
            NotEq(other) => Some(value? != other),
            Less(other) => Some(value? < other),
            LessOrEqual(other) => Some(value? <= other),
            Greater(other) => Some(value? > other),
            GreaterOrEqual(other) => Some(value? >= other),
            Between(low, high) => Some(low <= value? && value? <= high),
            In(list) => {
                if list.is_empty() {
                    return Some(false);
                }
                let value = value?;
                if list.iter().flatten().any(|member| member == value) {
                    return Some(true);
                }
                list.iter().all(Option::is_some).then_some(false)
            }
            NotIn(list) => In(list.clone()).holds(value).map(|is_in| !is_in),
        }
    }

    fn filter(&self) -> Filter {
        let set = |list: &[Option<Value>]| {
            let values = list.iter().flatten().cloned().collect();
            Arc::new(ValueSet::new(values).unwrap())
        };
        match self.clone() {
            Eq(v) => Filter::eq(v),
            NotEq(v) => Filter::not_eq(v),
            Less(v) => Filter::less(v),
            LessOrEqual(v) => Filter::less_or_equal(v),
            Greater(v) => Filter::greater(v),
            GreaterOrEqual(v) => Filter::greater_or_equal(v),
            Between(low, high) => Filter::between(low, high),
            In(list) => Filter::in_set(set(&list)),
            NotIn(list) => Filter::not_in_set(set(&list), list.contains(&None)),
            IsNull => Filter::is_null(),
            IsNotNull => Filter::is_not_null(),
        }
    }
}

/// A value from the column, or one beside it, or an extreme one.
fn probe(ty: LogicalType, column: &ArrayRef, random: &mut Random) -> Value {
    let known = (0..column.len().min(20))
        .find_map(|_| Value::of_array(column, random.below(column.len() as u64) as usize));
    let step = random.below(5) as i64 - 2;
    match (known, ty) {
        (Some(Value::Ordinal(ordinal)), LogicalType::Boolean) => Value::Ordinal(ordinal),
        (Some(Value::Ordinal(ordinal)), _) => Value::Ordinal(ordinal.wrapping_add_signed(step)),
        (Some(Value::Wide(value)), _) => Value::Wide(value + i128::from(step)),
        (Some(Value::Bytes(bytes)), _) => {
            let mut bytes = bytes.to_vec();
            match step {
                -1 => drop(bytes.pop()),
                1 => bytes.push(0),
                2 => bytes.insert(0, b'a'),
                _ => {}
            }
            Value::Bytes(bytes.into())
        }
        (None, LogicalType::Varchar) => Value::Bytes((*b"x").into()),
        (
            None,
            LogicalType::Decimal {
                precision: 19.., ..
            },
        ) => Value::Wide(7),
        (None, LogicalType::Boolean) => Value::Ordinal(random.below(2)),
        (None, _) => Value::Ordinal([0, u64::MAX, 1 << 63][random.below(3) as usize]),
    }
}

fn condition(ty: LogicalType, column: &ArrayRef, random: &mut Random) -> Condition {
    let list = |random: &mut Random| {
        // From empty to larger than the bounds at which sets change their form.
        let len = [0, 1, 3, 5, 40, 600][random.below(6) as usize];
        let mut list: Vec<_> = (0..len).map(|_| Some(probe(ty, column, random))).collect();
        if random.below(4) == 0 {
            list.push(None);
        }
        list
    };
    match random.below(13) {
        0 => Eq(probe(ty, column, random)),
        1 => NotEq(probe(ty, column, random)),
        2 => Less(probe(ty, column, random)),
        3 => LessOrEqual(probe(ty, column, random)),
        4 => Greater(probe(ty, column, random)),
        5 => GreaterOrEqual(probe(ty, column, random)),
        6 | 7 => Between(probe(ty, column, random), probe(ty, column, random)),
        8 | 9 => In(list(random)),
        10 => NotIn(list(random)),
        11 => IsNull,
        _ => IsNotNull,
    }
}

/// Whether filters see decoded values.
fn decodes(encoding: Encoding) -> bool {
    match encoding {
        Encoding::Delta
        | Encoding::FastPfor
        | Encoding::Lz4
        | Encoding::Lz4Fast
        | Encoding::Lz4High
        | Encoding::Snappy
        | Encoding::Front
        | Encoding::Fsst
        | Encoding::Prefix => true,
        Encoding::Plain
        | Encoding::Static
        | Encoding::Dynamic
        | Encoding::Dynamic128
        | Encoding::FrameOfReference
        | Encoding::Dictionary
        | Encoding::Rle => false,
    }
}

fn check(ty: LogicalType, column: &ArrayRef, encoding: Encoding, seed: u64, what: &str) {
    let mut random = Random(seed);
    let encoded = encode(ty, column, Some(encoding));
    let dictionary = encoded.dictionary.as_ref();
    let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
    let mut scratch = Scratch::new();
    let values: Vec<Option<Value>> = (0..column.len())
        .map(|row| Value::of_array(column, row))
        .collect();
    for _ in 0..16 {
        let condition = condition(ty, column, &mut random);
        let filter = condition.filter();
        let expected: Vec<bool> = values
            .iter()
            .map(|value| condition.holds(value.as_ref()) == Some(true))
            .collect();
        let what = format!("{what}: {condition:?}");

        let found = evaluate(&filter, column).unwrap();
        assert!(
            found.iter().eq(expected.iter().copied()),
            "evaluate, {what}"
        );

        let bound = chunk
            .bind(&filter, dictionary, Execution::default())
            .unwrap();
        for block in 0..chunk.blocks() {
            let rows = chunk.block_rows(block);
            let expected = &expected[block * BLOCK_LEN..][..rows];
            let passing = expected.iter().filter(|&&passes| passes).count();
            match chunk.verdict(&bound, block) {
                Verdict::Skip => assert_eq!(passing, 0, "skipped, {what}"),
                Verdict::All => assert_eq!(passing, rows, "all, {what}"),
                Verdict::Test => {}
            }
            // Some rows were dropped by another filter.
            let mut given = Mask::all();
            if random.below(2) == 0 {
                given.0.iter_mut().for_each(|word| *word = random.next());
            }
            let mut mask = given;
            let touched = chunk
                .select(&bound, block, &mut mask, &mut scratch)
                .unwrap();
            for row in 0..BLOCK_LEN {
                let expected = row < rows && given.get(row) && expected[row];
                assert_eq!(
                    mask.get(row),
                    expected,
                    "row {row} of block {block}, {what}"
                );
            }
            assert_eq!(touched.bytes, chunk.block_bytes(block));
            if !decodes(encoded.encoding) && !matches!(condition, In(_) | NotIn(_)) {
                assert!(!touched.decoded, "decoded, {what}");
            }
        }
    }
}

#[test]
fn conditions_hold_on_every_encoding_of_every_type() {
    let seed = 0xf117e5;
    for (index, ty) in TYPES.into_iter().enumerate() {
        for encoding in Encoding::ALL
            .into_iter()
            .filter(|encoding| encoding.supports(ty))
        {
            for shape in SHAPES {
                let nulls = NULLS[(index + shape as usize + encoding as usize) % NULLS.len()];
                let column = column(ty, shape, nulls, 2100, seed);
                check(
                    ty,
                    &column,
                    encoding,
                    seed,
                    &format!("{ty} {encoding} {shape:?} {nulls:?}"),
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_condition_holds_on_any_column(
        ty in proptest::sample::select(&TYPES[..]),
        encoding in proptest::sample::select(&Encoding::ALL[..]),
        shape in proptest::sample::select(&SHAPES[..]),
        nulls in proptest::sample::select(&NULLS[..]),
        rows in 1_usize..1200,
        seed: u64,
    ) {
        if encoding.supports(ty) {
            check(ty, &column(ty, shape, nulls, rows, seed), encoding, seed, "property");
        }
    }
}

/// Sets over more codes than a window of them would pay for: kept as a bitmap, as a hashed set, and as a hashed set
/// that is a bitmap for the chunk.
#[test]
fn sets_over_many_codes_are_tested_without_unpacking() {
    let ty = LogicalType::BigInt;
    let rows = 3 * BLOCK_LEN + 5;
    let seed = 0x5e75;
    println!("seed {seed:#x}");
    for (span, has_nulls) in [
        (1 << 13, false),
        (1 << 14, true),
        (1 << 20, true),
        (1 << 40, false),
    ] {
        for least in [i64::MIN, -77, i64::MAX - span] {
            let mut random = Random(seed);
            let column: ArrayRef = Arc::new(Int64Array::from_iter((0..rows).map(|row| {
                let value = least + random.below(span as u64 + 1) as i64;
                let is_end = row < 2;
                let end = if row == 0 { least } else { least + span };
                let is_null = has_nulls && !is_end && random.below(9) == 0;
                (!is_null).then_some(if is_end { end } else { value })
            })));
            let values: Vec<Option<Value>> =
                (0..rows).map(|row| Value::of_array(&column, row)).collect();
            for step in [2, 70, 700, 5000] {
                // Every so many values, some before and behind the column's, and known ones.
                let beyond = 5 * step;
                let mut list: Vec<Value> = (0..(rows as u64 / 2).min(span as u64 / step as u64))
                    .map(|i| least.wrapping_sub(beyond).wrapping_add(i as i64 * step))
                    .map(|value| Value::Ordinal(value as u64 ^ 1 << 63))
                    .collect();
                list.extend(values.iter().flatten().take(9).cloned());
                let set = Arc::new(ValueSet::new(list.clone()).unwrap());
                for negated in [false, true] {
                    let filter = match negated {
                        false => Filter::in_set(set.clone()),
                        true => Filter::not_in_set(set.clone(), false),
                    };
                    let passes = |value: &Option<Value>| {
                        value
                            .as_ref()
                            .is_some_and(|value| set.contains(value) != negated)
                    };
                    for encoding in Encoding::ALL.into_iter().filter(|it| it.supports(ty)) {
                        let encoded = encode(ty, &column, Some(encoding));
                        let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
                        let bound = chunk
                            .bind(&filter, encoded.dictionary.as_ref(), Execution::default())
                            .unwrap();
                        let mut scratch = Scratch::new();
                        for block in 0..chunk.blocks() {
                            let mut mask = Mask::all();
                            let stats = chunk
                                .select(&bound, block, &mut mask, &mut scratch)
                                .unwrap();
                            let values = values[block * BLOCK_LEN..].iter().take(BLOCK_LEN);
                            let expected = values
                                .enumerate()
                                .filter_map(|(row, value)| passes(value).then_some(row));
                            let what = format!("{encoding} {span} {least} {step} {negated}");
                            assert!(mask.iter().eq(expected), "{what}");
                            if !decodes(encoded.encoding) && span <= 1 << 14 {
                                assert!(!stats.decoded, "decoded, {what}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_range_outside_all_values_skips_every_block() {
    let ty = LogicalType::Integer;
    for encoding in Encoding::ALL.into_iter().filter(|it| it.supports(ty)) {
        let column = column(ty, Shape::Steps, Nulls::Some, 5000, 3);
        let encoded = encode(ty, &column, Some(encoding));
        let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
        let far = Filter::eq(Value::Ordinal(0));
        let list = vec![Value::Ordinal(1), Value::Ordinal(u64::from(u32::MAX))];
        let set = Filter::in_set(Arc::new(ValueSet::new(list).unwrap()));
        for filter in [far, set] {
            let bound = chunk
                .bind(&filter, encoded.dictionary.as_ref(), Execution::default())
                .unwrap();
            for block in 0..chunk.blocks() {
                assert_eq!(chunk.verdict(&bound, block), Verdict::Skip, "{encoding}");
            }
        }
    }
}

#[test]
fn a_set_within_one_step_skips_the_others() {
    let ty = LogicalType::Integer;
    let column = column(ty, Shape::Steps, Nulls::No, 5 * BLOCK_LEN, 3);
    let wanted: Vec<Value> = (2 * BLOCK_LEN..2 * BLOCK_LEN + 9)
        .filter_map(|row| Value::of_array(&column, row))
        .collect();
    let filter = Filter::in_set(Arc::new(ValueSet::new(wanted).unwrap()));
    for encoding in Encoding::ALL.into_iter().filter(|it| it.supports(ty)) {
        let encoded = encode(ty, &column, Some(encoding));
        let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
        let bound = chunk
            .bind(&filter, encoded.dictionary.as_ref(), Execution::default())
            .unwrap();
        let tested: Vec<usize> = (0..chunk.blocks())
            .filter(|&block| chunk.verdict(&bound, block) != Verdict::Skip)
            .collect();
        assert_eq!(tested, [2], "{encoding}");
    }
}

#[test]
fn doubles_compare_as_arrow_compares_them() {
    use arrow::array::Float64Array;
    use arrow::compute::kernels::cmp;
    let values = [
        f64::NAN,
        -f64::NAN,
        0.0,
        -0.0,
        1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    for value in values {
        let scalar = Float64Array::new_scalar(value);
        let at = |make: fn(Value) -> Filter| {
            let value = Value::of_array(&Float64Array::from(vec![value]), 0).unwrap();
            evaluate(&make(value), &column).unwrap()
        };
        assert_eq!(&at(Filter::eq), cmp::eq(&column, &scalar).unwrap().values());
        assert_eq!(
            &at(Filter::not_eq),
            cmp::neq(&column, &scalar).unwrap().values()
        );
        assert_eq!(
            &at(Filter::less),
            cmp::lt(&column, &scalar).unwrap().values()
        );
        assert_eq!(
            &at(Filter::greater_or_equal),
            cmp::gt_eq(&column, &scalar).unwrap().values()
        );
    }
}

#[test]
fn a_filter_on_another_type_is_an_error() {
    let ty = LogicalType::Integer;
    let column = column(ty, Shape::Few, Nulls::No, 10, 1);
    let encoded = encode(ty, &column, Some(Encoding::Static));
    let chunk = Chunk::open(&encoded.bytes, ty).unwrap();
    let text = Value::Bytes((*b"x").into());
    let set = Arc::new(ValueSet::new(vec![text.clone()]).unwrap());
    for filter in [Filter::eq(text), Filter::in_set(set)] {
        assert!(matches!(
            chunk.bind(&filter, None, Execution::default()),
            Err(FilterError::Type { .. })
        ));
        assert!(matches!(
            evaluate(&filter, &column),
            Err(FilterError::Type { .. })
        ));
    }
    let codes = Filter::codes(1, vec![1].into(), false);
    assert!(matches!(
        chunk.bind(&codes, None, Execution::default()),
        Err(FilterError::Codes { .. })
    ));
    assert!(matches!(
        evaluate(&codes, &column),
        Err(FilterError::Codes { .. })
    ));
}
