//! Everything that a query may do with a chunk, for bytes whose answers nobody knows.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, Int64Array, StringViewArray};
use arrow::compute::cast;
use tierra_column::bits::Mask;
use tierra_column::{
    Chunk, ColumnReader, ColumnTotals, Dictionary, DictionaryBuilder, Filter, LogicalType,
    Physical, Scratch, Value, ValueSet, WantedTotals,
};
use tierra_interleave::{Execution, run_plain};

/// Types that a mutated byte chooses from: every one, and DECIMALs of each physical kind.
pub const TYPES: [LogicalType; 10] = [
    LogicalType::Boolean,
    LogicalType::Integer,
    LogicalType::BigInt,
    LogicalType::Decimal {
        precision: 9,
        scale: 2,
    },
    LogicalType::Decimal {
        precision: 18,
        scale: 0,
    },
    LogicalType::Decimal {
        precision: 30,
        scale: 2,
    },
    LogicalType::Double,
    LogicalType::Date,
    LogicalType::Timestamp,
    LogicalType::Varchar,
];

/// The type that `byte` stands for.
pub fn logical_type(byte: u8) -> LogicalType {
    TYPES[usize::from(byte) % TYPES.len()]
}

/// A value of the column's kind, which grows with `step`.
fn value(ty: LogicalType, step: u64) -> Value {
    match ty.physical() {
        Physical::Ordinal => Value::Ordinal((1 << 31) + 3 * step),
        Physical::Wide => Value::Wide(i128::from(step)),
        Physical::Bytes => Value::Bytes(format!("word {step}").into_bytes().into()),
    }
}

/// Filters of every kind.
pub fn filters(ty: LogicalType) -> Vec<Filter> {
    let set = ValueSet::new((0..300).map(|step| value(ty, step)).collect());
    let set = Arc::new(set.expect("values of one kind"));
    vec![
        Filter::in_set(set.clone()),
        Filter::not_in_set(set, false),
        Filter::not_eq(value(ty, 5)),
        Filter::less(value(ty, 100)),
        Filter::between(value(ty, 1), value(ty, 2)),
        Filter::is_null(),
        Filter::is_not_null(),
    ]
}

/// A dictionary of 200 values for the type; generation 7, as in the golden files.
pub fn dictionary(ty: LogicalType) -> Option<&'static Dictionary> {
    static DICTIONARIES: LazyLock<Vec<Option<Dictionary>>> =
        LazyLock::new(|| TYPES.into_iter().map(make_dictionary).collect());
    let place = TYPES.iter().position(|other| *other == ty)?;
    DICTIONARIES[place].as_ref()
}

fn make_dictionary(ty: LogicalType) -> Option<Dictionary> {
    let numbers = Int64Array::from_iter_values(0..200);
    let words = || StringViewArray::from_iter_values((0..200).map(|word| format!("word {word}")));
    let values: ArrayRef = match ty.physical() {
        Physical::Ordinal => cast(&numbers, &ty.arrow()).ok()?,
        Physical::Bytes => Arc::new(words()),
        Physical::Wide => return None,
    };
    let mut builder = DictionaryBuilder::new(ty, 7);
    builder.encode(&[values]).ok()?;
    Some(builder.finish())
}

/// Binds and evaluates every filter, decodes every block, looks up rows. Returns how many rows came
/// out, so that nothing is optimised away.
pub fn read(chunk: &Chunk<'_>, dictionary: Option<&Dictionary>) -> usize {
    let ty = chunk.logical_type();
    let mut scratch = Scratch::new();
    // What a reader collected before an error is of no use, so every block has its own.
    let decode = |block: usize, mask: &Mask, scratch: &mut Scratch| {
        let mut reader = ColumnReader::new(ty, 16);
        let decoded = reader.append(chunk, block, mask, dictionary, scratch);
        decoded.map_or(0, |()| reader.finish().len())
    };
    let mut rows = 0;
    // A chunk of a million rows may take few bytes: not all of its blocks are worth the time.
    let blocks = || {
        let few = (0..chunk.blocks()).take(3);
        few.chain((3..chunk.blocks()).step_by(97))
    };
    for filter in filters(ty) {
        let Ok(bound) = chunk.bind(&filter, dictionary, Execution::default()) else {
            continue;
        };
        for block in blocks() {
            let mut mask = Mask::first(chunk.block_rows(block));
            let _ = chunk.verdict(&bound, block);
            if chunk.select(&bound, block, &mut mask, &mut scratch).is_ok() {
                rows += decode(block, &mask, &mut scratch);
            }
        }
    }
    for block in blocks() {
        let _ = chunk.verify_block(block);
        rows += decode(block, &Mask::first(chunk.block_rows(block)), &mut scratch);
    }
    let all = WantedTotals {
        sum: true,
        extremes: true,
    };
    let wanted = if all.of_type(ty) {
        all
    } else {
        WantedTotals::default()
    };
    let mut totals = ColumnTotals::new(ty, wanted);
    for block in blocks() {
        let half = Mask::first(chunk.block_rows(block) / 2);
        totals.add_known(chunk, block, half.count());
        // What it returns does not matter here: whatever a block holds, there are totals or an error.
        let _ = totals.append(chunk, block, &half, dictionary, &mut scratch);
    }
    rows += totals.finish().count as usize;
    let decoder = dictionary.map(Dictionary::decoder);
    let mut reader = ColumnReader::new(ty, 16);
    for row in (0..chunk.rows())
        .take(70)
        .chain((70..chunk.rows()).step_by(16_411))
    {
        if let Ok(cell) = run_plain(|cx| chunk.value(cx, row, decoder.as_ref())) {
            let _ = reader.append_cell(cell);
        }
    }
    let _ = chunk.min_max();
    let _ = chunk.distinct_sketch().map(|sketch| sketch.estimate());
    rows + reader.finish().len()
}
