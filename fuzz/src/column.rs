//! Columns made from a fuzzer's bytes, and what has to hold for their chunks.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
    Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use tierra_column::bits::Mask;
use tierra_column::{
    Cell, Chunk, ChunkPlan, ColumnReader, ColumnTotals, Dictionary, DictionaryBuilder,
    DistinctSketch, Encoding, Filter, LogicalType, Physical, Scratch, Value, ValueSet, Verdict,
    WantedTotals, evaluate,
};
use tierra_interleave::{Execution, run_plain};

use crate::queries::logical_type;

/// A column, an encoding, questions, and damage.
#[derive(Debug, Arbitrary)]
pub struct Case {
    ty: u8,
    encoding: Option<u8>,
    /// Rows repeat these, each time a `step` further: block boundaries need many rows.
    values: Vec<Option<i64>>,
    repeat: u16,
    step: i8,
    questions: Vec<Question>,
    /// Bytes of the chunk that change: place and mask.
    damage: Vec<(u32, u8)>,
}

/// A filter on values of some rows, or values near them.
#[derive(Debug, Arbitrary)]
enum Question {
    Equal(u16),
    NotEqual(u16),
    Less(u16),
    AtLeast(u16),
    Between(u16, u16),
    In(Vec<u16>),
    NotIn(Vec<u16>),
    IsNull,
    IsNotNull,
}

const ROWS_MAX: usize = 3 * 1024 + 65;

impl Case {
    fn ty(&self) -> LogicalType {
        logical_type(self.ty)
    }

    fn column(&self) -> ArrayRef {
        let n = self.values.len();
        let rows = (n * (1 + usize::from(self.repeat) % 512)).min(ROWS_MAX);
        let numbers = (0..rows).map(|row| {
            let further = (row / n) as i64 * i64::from(self.step);
            self.values[row % n].map(|value| value.wrapping_add(further))
        });
        array(self.ty(), numbers)
    }

    fn encoding(&self) -> Option<Encoding> {
        let encoding = Encoding::ALL[usize::from(self.encoding?) % Encoding::ALL.len()];
        encoding.supports(self.ty()).then_some(encoding)
    }
}

fn array(ty: LogicalType, numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    match ty {
        LogicalType::Boolean => Arc::new(
            numbers
                .map(|n| n.map(|n| n & 1 == 1))
                .collect::<BooleanArray>(),
        ),
        LogicalType::Integer => {
            Arc::new(numbers.map(|n| n.map(|n| n as i32)).collect::<Int32Array>())
        }
        LogicalType::Date => Arc::new(
            numbers
                .map(|n| n.map(|n| n as i32))
                .collect::<Date32Array>(),
        ),
        LogicalType::BigInt => Arc::new(numbers.collect::<Int64Array>()),
        LogicalType::Timestamp => Arc::new(numbers.collect::<TimestampMicrosecondArray>()),
        LogicalType::Double => Arc::new(
            numbers
                .map(|n| n.map(|n| f64::from_bits(n as u64)))
                .collect::<Float64Array>(),
        ),
        LogicalType::Decimal { precision, scale } => {
            let limit = 10_i128.pow(precision.into());
            let wide = |n: i64| (i128::from(n) << (if precision > 18 { 30 } else { 0 })) % limit;
            Arc::new(
                numbers
                    .map(|n| n.map(wide))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(precision, scale as i8)
                    .expect("a DECIMAL's precision and scale"),
            )
        }
        LogicalType::Varchar => {
            // Short, inlined, and long strings; the last byte decides.
            let text = |n: i64| match n & 3 {
                0 => String::new(),
                1 => (n >> 2).to_string(),
                2 => "é".repeat((n >> 2 & 63) as usize),
                _ => format!("a string that no view holds inline: {n}"),
            };
            Arc::new(numbers.map(|n| n.map(text)).collect::<StringViewArray>())
        }
    }
}

/// The filter that the question stands for.
fn filter(question: &Question, column: &ArrayRef) -> Option<Filter> {
    let value = |row: u16| {
        (!column.is_empty()).then(|| Value::of_array(column, usize::from(row) % column.len()))?
    };
    let set = |rows: &[u16]| {
        let values: Vec<Value> = rows.iter().filter_map(|row| value(*row)).collect();
        ValueSet::new(values).ok().map(Arc::new)
    };
    Some(match question {
        Question::Equal(row) => Filter::eq(value(*row)?),
        Question::NotEqual(row) => Filter::not_eq(value(*row)?),
        Question::Less(row) => Filter::less(value(*row)?),
        Question::AtLeast(row) => Filter::greater_or_equal(value(*row)?),
        Question::Between(low, high) => Filter::between(value(*low)?, value(*high)?),
        Question::In(rows) => Filter::in_set(set(rows)?),
        Question::NotIn(rows) => Filter::not_in_set(set(rows)?, false),
        Question::IsNull => Filter::is_null(),
        Question::IsNotNull => Filter::is_not_null(),
    })
}

fn decode(chunk: &Chunk<'_>, dictionary: Option<&Dictionary>) -> ArrayRef {
    let mut scratch = Scratch::new();
    let mut reader = ColumnReader::new(chunk.logical_type(), 64);
    for block in 0..chunk.blocks() {
        reader
            .append(chunk, block, &Mask::all(), dictionary, &mut scratch)
            .expect("blocks that pass their checksum are whole");
    }
    reader.finish()
}

/// Encodes the column, asks every question of the packed chunk and of the plain column, looks up
/// every row, then damages the chunk.
///
/// # Panics
/// Where a chunk answers otherwise than the column, or damaged bytes pass for whole ones.
pub fn check(case: &Case) {
    let (ty, column) = (case.ty(), case.column());
    let mut builder = (ty.physical() != Physical::Wide).then(|| DictionaryBuilder::new(ty, 7));
    // An explicit encoding other than dictionary must not be given one.
    if case
        .encoding()
        .is_some_and(|encoding| encoding != Encoding::Dictionary)
    {
        builder = None;
    }
    let plan = ChunkPlan::new(
        ty,
        std::slice::from_ref(&column),
        case.encoding(),
        builder.as_mut(),
    )
    .expect("every column of the type can be encoded");
    let mut bytes = vec![0xa5; plan.len_bytes()];
    plan.write(&mut bytes);
    let dictionary = builder.map(DictionaryBuilder::finish);
    let dictionary = dictionary.as_ref();
    let chunk = Chunk::open(&bytes, ty).expect("it was written a moment ago");
    assert_eq!(
        &decode(&chunk, dictionary),
        &column,
        "{ty} {}",
        chunk.encoding()
    );

    if chunk.encoding() != Encoding::Dictionary {
        assert_eq!(
            chunk.distinct_sketch(),
            DistinctSketch::of_column(ty, &column),
            "{ty} {}",
            chunk.encoding()
        );
    }

    check_totals(&chunk, dictionary, &column);

    for question in case.questions.iter().take(4) {
        if let Some(filter) = filter(question, &column) {
            check_filter(&chunk, dictionary, &filter, &column);
        }
    }
    let decoder = dictionary.map(Dictionary::decoder);
    let mut reader = ColumnReader::new(ty, column.len());
    for row in 0..column.len() {
        let cell = run_plain(|cx| chunk.value(cx, row, decoder.as_ref())).expect("a whole chunk");
        assert_eq!(matches!(cell, Cell::Null), column.is_null(row), "row {row}");
        reader.append_cell(cell).expect("a whole chunk");
    }
    assert_eq!(&reader.finish(), &column, "cell by cell");

    for (place, mask) in &case.damage {
        let place = *place as usize % bytes.len();
        bytes[place] ^= mask;
    }
    if let Ok(chunk) = Chunk::open(&bytes, ty)
        && (0..chunk.blocks()).all(|block| chunk.verify_block(block).is_ok())
    {
        assert_eq!(
            &decode(&chunk, dictionary),
            &column,
            "damage went unnoticed"
        );
    }
}

fn check_filter(
    chunk: &Chunk<'_>,
    dictionary: Option<&Dictionary>,
    filter: &Filter,
    column: &ArrayRef,
) {
    let expected = evaluate(filter, column).expect("a filter of the column's values");
    let bound = chunk
        .bind(filter, dictionary, Execution::default())
        .expect("a filter of the column's values");
    let mut scratch = Scratch::new();
    for block in 0..chunk.blocks() {
        let first = block * 1024;
        let rows = chunk.block_rows(block);
        let mut mask = Mask::first(rows);
        match chunk.verdict(&bound, block) {
            Verdict::Skip => mask = Mask::none(),
            Verdict::All => {}
            Verdict::Test => {
                chunk
                    .select(&bound, block, &mut mask, &mut scratch)
                    .expect("a whole chunk");
            }
        }
        for row in 0..rows {
            assert_eq!(
                mask.get(row),
                expected.value(first + row),
                "{} {filter:?}, row {}",
                chunk.encoding(),
                first + row
            );
        }
    }
}

/// Totals of packed codes are those of the column.
fn check_totals(chunk: &Chunk<'_>, dictionary: Option<&Dictionary>, column: &ArrayRef) {
    let ty = chunk.logical_type();
    let all = WantedTotals {
        sum: true,
        extremes: true,
    };
    if !all.of_type(ty) {
        return;
    }
    let mut scratch = Scratch::new();
    let mut of_chunk = ColumnTotals::new(ty, all);
    for block in 0..chunk.blocks() {
        of_chunk
            .append(chunk, block, &Mask::all(), dictionary, &mut scratch)
            .expect("a whole chunk");
    }
    let mut of_column = ColumnTotals::new(ty, all);
    of_column
        .append_array(column)
        .expect("an array of the type");
    assert_eq!(of_chunk.finish(), of_column.finish(), "{ty}");
}
