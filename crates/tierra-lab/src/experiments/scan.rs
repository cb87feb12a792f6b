//! Encodings: how many bytes does each need for twelve distributions, how fast is it written, read and filtered, and does the
//! estimator choose well?
//!
//! Every encoding is measured in the product's own chunk: planned, written, decoded into arrow arrays, and filtered on packed
//! codes by a range that a tenth of the values pass. Beside them are Parquet's encodings and, if the values are unsigned 32-bit
//! integers, the crate `bitpacking`, which makes no arrays. Decoded and selected values are compared with the original ones.
//!
//! The estimator sees a sample, so it can be wrong. Twelve distributions do not show how often: its choice is also compared with
//! every encoding's bytes on columns drawn at random.

use std::hint::black_box;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::MutableBuffer;
use arrow::compute::concat;
use arrow::datatypes::{Int32Type, Int64Type};
use tierra_column::bits::Mask;
use tierra_column::{
    CHUNK_ROWS, Chunk, ChunkPlan, ColumnReader, Dictionary, DictionaryBuilder, EncodeError,
    Encoding, Filter, LogicalType, Scratch, Value, evaluate,
};

use tierra_interleave::Execution;

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::distributions::{self, Distribution};
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::bitpacking::{self, Packed};
use crate::peers::parquet::{self, Stored};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::stats::geometric_mean;
use crate::turns::turns;
use crate::view::{Unit, View};

/// The name of the estimator's choice among the encodings.
const CHOSEN: &str = "chosen";
/// Columns drawn at random at full scale, without which the estimator's bar is not measured.
const DRAWN: usize = 100;
/// Blocks decoded into one array, as a scan does.
const BLOCKS_PER_ARRAY: usize = 8;
/// Values in such an array.
const VALUES_PER_ARRAY: usize = BLOCKS_PER_ARRAY * tierra_column::bits::BLOCK_LEN;
/// Values from which the range to select is computed.
const SAMPLE: usize = 4_096;

/// The experiment.
pub(super) struct Scan;

impl Experiment for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn about(&self) -> &'static str {
        "what does each encoding cost in bytes and time on twelve distributions, and does the estimator choose well?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let (values, rounds) = (lab.size(1 << 16, CHUNK_ROWS), lab.size(3, 15));
        let bar = progress::bar("distributions", distributions::ALL.len());
        let mut rows = Vec::new();
        for (number, distribution) in distributions::ALL.iter().enumerate() {
            bar.set_message(distribution.name);
            let mut random = Random::new(SEED + number as u64);
            let values = (distribution.values)(values, &mut random);
            rows.extend(measure(distribution, &values, rounds)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        for column in 0..lab.size(10, DRAWN) {
            let mut random = Random::new(SEED ^ ((column as u64 + 1) << 32));
            let drawn = distributions::drawn(values, &mut random);
            rows.push(chosen_for(column, &drawn)?);
        }
        let parameters = Row::new()
            .count("values", values as u64)
            .count("rounds", rounds as u64);
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let of_chosen = |key: &'static str| move |name: &str| value(rows, name, CHOSEN, key);
        let of_stored_as = |key: &'static str| {
            move |name: &str| {
                let chosen = find(rows, &[("distribution", name), ("encoding", CHOSEN)])?;
                value(rows, name, &chosen.get("stored_as")?.to_string(), key)
            }
        };
        let of = |encoding: &'static str, key: &'static str| {
            move |name: &str| value(rows, name, encoding, key)
        };
        let plain = Encoding::Plain.name();
        vec![
            Bar::at_most(
                format!(
                    "scan: bytes of the estimator's choice over the best encoding's, worst of twelve distributions and {DRAWN} random columns"
                ),
                1.1,
                worst_choice(rows),
            ),
            Bar::at_most(
                "scan: time of encoding with the estimator over with its choice given, geometric mean",
                1.25,
                mean_ratio(of_chosen("encode_ns"), of_stored_as("encode_ns")),
            ),
            Bar::at_most(
                "scan: bytes over Parquet's encodings, geometric mean",
                0.75,
                mean_ratio(
                    of_chosen("encoded_bytes"),
                    of(parquet::ENCODING, "encoded_bytes"),
                ),
            ),
            Bar::at_most(
                "scan: time of decoding into arrow arrays over Parquet's, geometric mean",
                0.5,
                mean_ratio(of_chosen("decode_ns"), of(parquet::ENCODING, "decode_ns")),
            ),
            Bar::at_most(
                "scan: time of selecting a tenth on packed codes over on plain values, geometric mean",
                0.8,
                mean_ratio(of_chosen("select_ns"), of(plain, "select_ns")),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

/// A cell of an encoding of a distribution.
fn value(rows: &[Row], distribution: &str, encoding: &str, key: &str) -> Option<f64> {
    let identity = [("distribution", distribution), ("encoding", encoding)];
    find(rows, &identity)?.value(key)
}

/// The geometric mean of a ratio over all twelve distributions; `None` if one was not measured.
fn mean_ratio(
    one: impl Fn(&str) -> Option<f64>,
    other: impl Fn(&str) -> Option<f64>,
) -> Option<f64> {
    let ratio =
        |distribution: &Distribution| Some(one(distribution.name)? / other(distribution.name)?);
    geometric_mean(
        distributions::ALL
            .iter()
            .map(ratio)
            .collect::<Option<Vec<f64>>>()?,
    )
}

/// The bytes of the choice over those of the best encoding, where that is most; `None` unless all columns were measured.
fn worst_choice(rows: &[Row]) -> Option<f64> {
    let named = |distribution: &Distribution| {
        let bytes = |encoding: &str| value(rows, distribution.name, encoding, "encoded_bytes");
        let all = Encoding::ALL.iter().filter_map(|one| bytes(one.name()));
        Some(bytes(CHOSEN)? / all.reduce(f64::min)?)
    };
    let drawn = |column: usize| {
        let row = find(rows, &[("drawn_column", &column.to_string())])?;
        Some(row.value("chosen_bytes")? / row.value("best_bytes")?)
    };
    let all = distributions::ALL
        .iter()
        .map(named)
        .chain((0..DRAWN).map(drawn));
    all.collect::<Option<Vec<f64>>>()?
        .into_iter()
        .reduce(f64::max)
}

const fn view(title: &'static str, value: &'static str, unit: Unit) -> View {
    View {
        title,
        category: "distribution",
        series: "encoding",
        value,
        per: Some("values"),
        unit,
        mean: false,
    }
}

const VIEWS: [View; 4] = [
    view(
        "bytes per value, dictionary included",
        "encoded_bytes",
        Unit::Bytes,
    ),
    view("time of encoding a value", "encode_ns", Unit::Nanoseconds),
    view(
        "time of decoding a value into arrow arrays",
        "decode_ns",
        Unit::Nanoseconds,
    ),
    view(
        "time of testing a value, where a range selects a tenth",
        "select_ns",
        Unit::Nanoseconds,
    ),
];

/// One column's values and the filter on them.
struct Task<'a> {
    name: &'static str,
    ty: LogicalType,
    values: &'a ArrayRef,
    filter: Filter,
    passing: usize,
}

/// How the values are encoded.
#[derive(Clone, Copy)]
enum Contender {
    /// By Tierra: with a given encoding, or the estimated one.
    Tierra(Option<Encoding>),
    /// By the crate `bitpacking`.
    Bitpacking,
    /// By Parquet.
    Parquet,
}

/// One repetition.
struct Sample {
    bytes: u64,
    encoding: &'static str,
    encode_ns: u64,
    decode_ns: u64,
    select_ns: Option<u64>,
}

fn measure(
    distribution: &Distribution,
    values: &ArrayRef,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let filter = middle_tenth(values);
    let passing = evaluate(&filter, values.as_ref())
        .by("Tierra", "counting what passes")?
        .count_set_bits();
    let task = Task {
        name: distribution.name,
        ty: distribution.ty,
        values,
        filter,
        passing,
    };
    let unsigned = unsigned(values);
    let wishes = Encoding::ALL
        .into_iter()
        .filter(|encoding| encoding.supports(task.ty))
        .map(Some);
    let mut contenders: Vec<Contender> = wishes.chain([None]).map(Contender::Tierra).collect();
    if unsigned.is_some() {
        contenders.push(Contender::Bitpacking);
    }
    contenders.push(Contender::Parquet);
    let mut samples: Vec<Vec<Sample>> = contenders
        .iter()
        .map(|_| Vec::with_capacity(rounds))
        .collect();
    for turn in turns(contenders.len(), rounds) {
        let sample = match (contenders[turn.contender], &unsigned) {
            (Contender::Bitpacking, Some(unsigned)) => bitpacked(&task, unsigned)?,
            (Contender::Bitpacking, None) => continue,
            (Contender::Parquet, _) => task.in_parquet(turn.is_warm_up())?,
            (Contender::Tierra(wish), _) => task.encoded(wish, turn.is_warm_up())?,
        };
        if !turn.is_warm_up() {
            samples[turn.contender].push(sample);
        }
    }
    let rows = contenders
        .iter()
        .zip(samples)
        .filter_map(|(contender, samples)| {
            let first = samples.first()?;
            let name = match contender {
                Contender::Tierra(None) => CHOSEN,
                _ => first.encoding,
            };
            let all = |time: fn(&Sample) -> u64| samples.iter().map(time).collect();
            let row = Row::new()
                .text("distribution", distribution.name)
                .text("type", distribution.ty.to_string())
                .text("encoding", name)
                .text("stored_as", first.encoding)
                .count("values", values.len() as u64)
                .count("encoded_bytes", first.bytes)
                .count("selected", passing as u64)
                .samples("encode", "ns", all(|sample| sample.encode_ns))
                .samples("decode", "ns", all(|sample| sample.decode_ns));
            let selects: Option<Vec<u64>> = samples.iter().map(|sample| sample.select_ns).collect();
            Some(match selects {
                Some(selects) => row.samples("select", "ns", selects),
                None => row,
            })
        });
    Ok(rows.collect())
}

impl Task<'_> {
    /// Encodes, decodes and selects once. Decoded values are compared if `check` is set.
    fn encoded(&self, wish: Option<Encoding>, check: bool) -> Result<Sample, LabError> {
        let doing = |what: &str| format!("{what} {}", self.name);
        let start = Instant::now();
        let mut builder = has_dictionary(self.ty).then(|| DictionaryBuilder::new(self.ty, 1));
        let plan = ChunkPlan::new(
            self.ty,
            std::slice::from_ref(self.values),
            wish,
            builder.as_mut(),
        )
        .by("Tierra", doing("planning"))?;
        let mut bytes = MutableBuffer::from_len_zeroed(plan.len_bytes());
        plan.write(&mut bytes);
        let dictionary = builder
            .map(DictionaryBuilder::finish)
            .filter(|_| plan.encoding().uses_dictionary());
        let image_bytes = dictionary
            .as_ref()
            .map_or(0, |dictionary| dictionary.main_piece().len());
        let encode_ns = elapsed_ns(start);

        let chunk = Chunk::open(&bytes, self.ty).by("Tierra", doing("opening"))?;
        let mut scratch = Scratch::new();
        if check {
            let mut decoded = Vec::new();
            self.decode(&chunk, dictionary.as_ref(), &mut scratch, |array| {
                decoded.push(array)
            })?;
            let decoded: Vec<&dyn Array> = decoded.iter().map(AsRef::as_ref).collect();
            let decoded = concat(&decoded).by("Arrow", doing("joining"))?;
            self.expect(
                &decoded == self.values,
                plan.encoding().name(),
                "decoded values differ from those encoded",
            )?;
        }
        let start = Instant::now();
        self.decode(&chunk, dictionary.as_ref(), &mut scratch, |array| {
            drop(black_box(array))
        })?;
        let decode_ns = elapsed_ns(start);

        let start = Instant::now();
        let selected = self.select(&chunk, dictionary.as_ref(), &mut scratch)?;
        let select_ns = Some(elapsed_ns(start));
        let detail = format!("{selected} rows selected, {} pass", self.passing);
        self.expect(selected == self.passing, plan.encoding().name(), &detail)?;
        let bytes = (plan.len_bytes() + image_bytes) as u64;
        Ok(Sample {
            bytes,
            encoding: plan.encoding().name(),
            encode_ns,
            decode_ns,
            select_ns,
        })
    }

    /// Encodes and decodes once by Parquet. Decoded values are compared if `check` is set.
    fn in_parquet(&self, check: bool) -> Result<Sample, LabError> {
        let who = parquet::ENCODING;
        let doing = |what: &str| format!("{what} {}", self.name);
        let start = Instant::now();
        let stored = Stored::new(self.values).by(who, doing("encoding"))?;
        let encode_ns = elapsed_ns(start);
        if check {
            let mut decoded = Vec::new();
            let done = stored.decode(VALUES_PER_ARRAY, |array| decoded.push(array));
            done.by(who, doing("decoding"))?;
            let decoded: Vec<&dyn Array> = decoded.iter().map(AsRef::as_ref).collect();
            let decoded = concat(&decoded).by("Arrow", doing("joining"))?;
            let detail = "decoded values differ from those encoded";
            self.expect(&decoded == self.values, who, detail)?;
        }
        let start = Instant::now();
        let done = stored.decode(VALUES_PER_ARRAY, |array| drop(black_box(array)));
        done.by(who, doing("decoding"))?;
        Ok(Sample {
            bytes: stored.len_bytes() as u64,
            encoding: who,
            encode_ns,
            decode_ns: elapsed_ns(start),
            select_ns: None,
        })
    }

    fn decode(
        &self,
        chunk: &Chunk<'_>,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
        mut take: impl FnMut(ArrayRef),
    ) -> Result<(), LabError> {
        let mut reader = ColumnReader::new(self.ty, VALUES_PER_ARRAY);
        for block in 0..chunk.blocks() {
            let mask = Mask::first(chunk.block_rows(block));
            reader
                .append(chunk, block, &mask, dictionary, scratch)
                .by("Tierra", format!("decoding {}", self.name))?;
            if (block + 1) % BLOCKS_PER_ARRAY == 0 {
                take(reader.finish());
            }
        }
        if !reader.is_empty() {
            take(reader.finish());
        }
        Ok(())
    }

    /// Rows that pass the filter. Every block's codes are tested, regardless of its minimum.
    fn select(
        &self,
        chunk: &Chunk<'_>,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
    ) -> Result<usize, LabError> {
        let doing = || format!("selecting from {}", self.name);
        let bound = chunk
            .bind(&self.filter, dictionary, Execution::default())
            .by("Tierra", doing())?;
        let mut selected = 0;
        for block in 0..chunk.blocks() {
            let mut mask = Mask::first(chunk.block_rows(block));
            chunk
                .select(&bound, block, &mut mask, scratch)
                .by("Tierra", doing())?;
            selected += mask.count();
        }
        Ok(selected)
    }

    fn expect(&self, holds: bool, encoding: &str, detail: &str) -> Result<(), LabError> {
        if holds {
            return Ok(());
        }
        Err(LabError::AnswersDiffer {
            what: self.name.to_owned(),
            left: encoding.to_owned(),
            right: "the values".to_owned(),
            detail: detail.to_owned(),
        })
    }
}

fn bitpacked(task: &Task<'_>, values: &[u32]) -> Result<Sample, LabError> {
    let start = Instant::now();
    let packed = Packed::new(values);
    let encode_ns = elapsed_ns(start);
    let packed = packed
        .ok_or("not a multiple of 256 values")
        .by(bitpacking::ENCODING, format!("packing {}", task.name))?;
    let start = Instant::now();
    packed.for_each_block(|block| {
        black_box(block);
    });
    let decode_ns = elapsed_ns(start);
    let (mut at, mut same) = (0, true);
    packed.for_each_block(|block| {
        same &= block == &values[at..at + block.len()];
        at += block.len();
    });
    task.expect(
        same && at == values.len(),
        bitpacking::ENCODING,
        "unpacked values differ from those packed",
    )?;
    let bytes = packed.len_bytes() as u64;
    Ok(Sample {
        bytes,
        encoding: bitpacking::ENCODING,
        encode_ns,
        decode_ns,
        select_ns: None,
    })
}

/// The estimator's choice for a column, and the best one.
fn chosen_for(column: usize, values: &ArrayRef) -> Result<Row, LabError> {
    let encoded =
        |wish| stored_bytes(values, wish).by("Tierra", format!("planning column {column}"));
    let (chosen, chosen_bytes) = encoded(None)?;
    let mut best = (chosen, chosen_bytes);
    let wishes = Encoding::ALL.into_iter();
    for wish in wishes.filter(|wish| wish.supports(LogicalType::BigInt)) {
        let (encoding, bytes) = encoded(Some(wish))?;
        if bytes < best.1 {
            best = (encoding, bytes);
        }
    }
    Ok(Row::new()
        .text("drawn_column", column.to_string())
        .text("chosen", chosen.name())
        .text("best", best.0.name())
        .count("chosen_bytes", chosen_bytes)
        .count("best_bytes", best.1))
}

/// The encoding and the bytes, dictionary included, of BIGINT values.
fn stored_bytes(values: &ArrayRef, wish: Option<Encoding>) -> Result<(Encoding, u64), EncodeError> {
    let ty = LogicalType::BigInt;
    let mut builder = DictionaryBuilder::new(ty, 1);
    let plan = ChunkPlan::new(ty, std::slice::from_ref(values), wish, Some(&mut builder))?;
    let dictionary_bytes = match plan.encoding().uses_dictionary() {
        true => builder.finish().main_piece().len(),
        false => 0,
    };
    Ok((
        plan.encoding(),
        (plan.len_bytes() + dictionary_bytes) as u64,
    ))
}

/// The values between the 45th and the 55th percentile.
fn middle_tenth(values: &ArrayRef) -> Filter {
    let step = values.len().div_ceil(SAMPLE).max(1);
    let mut sample: Vec<Value> = (0..values.len())
        .step_by(step)
        .filter_map(|row| Value::of_array(values.as_ref(), row))
        .collect();
    sample.sort_unstable();
    let at = |percent: usize| sample.get(sample.len() * percent / 100).cloned();
    match (at(45), at(55)) {
        (Some(low), Some(high)) => Filter::between(low, high),
        _ => Filter::nothing(),
    }
}

/// The values as unsigned 32-bit integers, if they are.
fn unsigned(values: &ArrayRef) -> Option<Vec<u32>> {
    if values.null_count() > 0 {
        return None;
    }
    if let Some(values) = values.as_primitive_opt::<Int32Type>() {
        return values
            .values()
            .iter()
            .map(|&value| u32::try_from(value).ok())
            .collect();
    }
    let values = values.as_primitive_opt::<Int64Type>()?;
    values
        .values()
        .iter()
        .map(|&value| u32::try_from(value).ok())
        .collect()
}

fn has_dictionary(ty: LogicalType) -> bool {
    Encoding::Dictionary.supports(ty)
}

fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rows that bars are about; the choice is always the second encoding.
    fn rows(worst: u64, encode_ns: u64) -> Vec<Row> {
        let row = |name: &str, encoding: &str, bytes, ns| {
            Row::new()
                .text("distribution", name)
                .text("encoding", encoding)
                .text("stored_as", "for")
                .count("encoded_bytes", bytes)
                .samples("encode", "ns", vec![ns])
                .samples("decode", "ns", vec![ns])
                .samples("select", "ns", vec![ns])
        };
        let named = distributions::ALL.iter().flat_map(|one| {
            [
                row(one.name, "plain", 400, 100),
                row(one.name, "for", 100, 100),
                row(one.name, parquet::ENCODING, 200, 400),
                row(one.name, bitpacking::ENCODING, 1, 1),
                row(one.name, CHOSEN, 105, encode_ns),
            ]
        });
        let drawn = (0..DRAWN).map(|column| {
            let row = Row::new().text("drawn_column", column.to_string());
            let bytes = if column == 7 { worst } else { 100 };
            row.count("chosen_bytes", bytes).count("best_bytes", 100)
        });
        named.chain(drawn).collect()
    }

    #[test]
    fn bars_are_on_the_choice_and_on_parquet() {
        let bars = Scan.bars(&rows(108, 80));
        let measured: Vec<f64> = bars.iter().map(|bar| bar.measured.unwrap()).collect();
        for (measured, expected) in measured.iter().zip([1.08, 0.8, 0.525, 0.2, 0.8]) {
            assert!((measured - expected).abs() < 1e-9, "{measured} {expected}");
        }
        assert!(bars[..4].iter().all(|bar| bar.met));
        let bars = Scan.bars(&rows(111, 200));
        assert!([0, 1, 4].iter().all(|&bar| !bars[bar].met));
        // A column less is not the promise.
        let mut fewer = rows(100, 80);
        fewer.pop();
        assert_eq!(Scan.bars(&fewer)[0].measured, None);
        assert_eq!(Scan.bars(&fewer[1..])[4].measured, None);
    }

    #[test]
    fn every_encoding_gives_back_a_small_distribution() {
        for distribution in distributions::ALL {
            let values = (distribution.values)(2_560, &mut Random::new(3));
            let rows = measure(&distribution, &values, 1).unwrap();
            assert!(
                rows.len() >= 4
                    && rows
                        .iter()
                        .all(|row| row.value("encoded_bytes") > Some(0.0))
            );
        }
    }

    #[test]
    fn no_choice_is_better_than_the_best() {
        for column in 0..20 {
            let mut random = Random::new(column);
            let row = chosen_for(0, &distributions::drawn(4_096, &mut random)).unwrap();
            assert!(row.value("chosen_bytes") >= row.value("best_bytes"));
        }
    }
}
