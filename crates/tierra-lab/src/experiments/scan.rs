//! Encodings: how many bytes does each need for twelve distributions, how fast is it written, read and filtered, and does the
//! estimator choose well?
//!
//! Every encoding is measured in the product's own chunk: planned, written, decoded into arrow arrays, and filtered on packed
//! codes by a range that a tenth of the values pass. The crate `bitpacking` is measured as well if the values are unsigned
//! 32-bit integers. Decoded and selected values are compared with the original ones.

use std::hint::black_box;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::MutableBuffer;
use arrow::compute::concat;
use arrow::datatypes::{Int32Type, Int64Type};
use tierra_column::bits::Mask;
use tierra_column::{
    CHUNK_ROWS, Chunk, ChunkPlan, ColumnReader, Dictionary, DictionaryBuilder, Encoding, Filter,
    LogicalType, Scratch, Value, evaluate,
};

use tierra_interleave::Execution;

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::distributions::{self, Distribution};
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::bitpacking::{self, Packed};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::turns::turns;
use crate::view::{Unit, View};

/// The name of the estimator's choice among the encodings.
const CHOSEN: &str = "chosen";
/// Blocks decoded into one array, as a scan does.
const BLOCKS_PER_ARRAY: usize = 8;
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
        let bytes = |distribution: &str, encoding: &str| {
            find(
                rows,
                &[("distribution", distribution), ("encoding", encoding)],
            )?
            .value("encoded_bytes")
        };
        let bar = |distribution: &String| {
            let all = Encoding::ALL
                .iter()
                .filter_map(|encoding| bytes(distribution, encoding.name()));
            let best = all.reduce(f64::min);
            let ratio = bytes(distribution, CHOSEN)
                .zip(best)
                .map(|(chosen, best)| chosen / best);
            Bar::at_most(
                format!(
                    "scan: bytes of the estimator's choice over the best encoding's, {distribution}"
                ),
                1.1,
                ratio,
            )
        };
        let named: Vec<Bar> = distinct(rows, "distribution").iter().map(bar).collect();
        // The promise is about all twelve.
        let all_measured = Bar::at_least(
            "scan: distributions measured",
            distributions::ALL.len() as f64,
            Some(named.len() as f64),
        );
        named.into_iter().chain([all_measured]).collect()
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
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
    view("encoding, per value", "encode_ns", Unit::Nanoseconds),
    view(
        "decoding into arrow arrays, per value",
        "decode_ns",
        Unit::Nanoseconds,
    ),
    view(
        "selecting a tenth by a range, per value",
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
    let mut samples: Vec<Vec<Sample>> = contenders
        .iter()
        .map(|_| Vec::with_capacity(rounds))
        .collect();
    for turn in turns(contenders.len(), rounds) {
        let sample = match (contenders[turn.contender], &unsigned) {
            (Contender::Bitpacking, Some(unsigned)) => bitpacked(&task, unsigned)?,
            (Contender::Bitpacking, None) => continue,
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
            .map_or(0, |dictionary| dictionary.main_image().len());
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

    fn decode(
        &self,
        chunk: &Chunk<'_>,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
        mut take: impl FnMut(ArrayRef),
    ) -> Result<(), LabError> {
        let mut reader =
            ColumnReader::new(self.ty, BLOCKS_PER_ARRAY * tierra_column::bits::BLOCK_LEN);
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

    fn row(encoding: &str, bytes: u64) -> Row {
        Row::new()
            .text("distribution", "d")
            .text("encoding", encoding)
            .count("encoded_bytes", bytes)
    }

    #[test]
    fn the_choice_is_measured_against_the_best() {
        let bars = Scan.bars(&[row("plain", 400), row("delta", 100), row(CHOSEN, 110)]);
        assert!(bars[0].met);
        assert!(!bars[1].met, "one distribution is not twelve");
        // The bytes of a peer are no bar for the estimator.
        let bars = Scan.bars(&[
            row("plain", 400),
            row(bitpacking::ENCODING, 1),
            row(CHOSEN, 441),
        ]);
        assert!(!bars[0].met && bars[0].measured == Some(441.0 / 400.0));
    }

    #[test]
    fn every_encoding_gives_back_a_small_distribution() {
        for distribution in distributions::ALL {
            let values = (distribution.values)(2_560, &mut Random::new(3));
            let rows = measure(&distribution, &values, 1).unwrap();
            assert!(
                rows.len() >= 3
                    && rows
                        .iter()
                        .all(|row| row.value("encoded_bytes") > Some(0.0))
            );
        }
    }
}
