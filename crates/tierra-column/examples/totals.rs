//! What the sum of a column costs, made of an array of its values and taken from its packed codes.
//!
//! `cargo run --release -p tierra-column --example totals`, for one CPU whose cache holds the chunk. To count instructions, give an
//! encoding, `rows` or `totals` (or `nothing`), and how often:
//!
//! `valgrind --tool=callgrind target/release/examples/totals static totals 10`

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use tierra_column::bits::Mask;
use tierra_column::{
    Chunk, ChunkPlan, ColumnReader, ColumnTotals, Encoding, LogicalType, Scratch, WantedTotals,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROWS: usize = 64 * 1024;
const TY: LogicalType = LogicalType::BigInt;
const ENCODINGS: [Encoding; 8] = [
    Encoding::Plain,
    Encoding::Static,
    Encoding::Dynamic,
    Encoding::Dynamic128,
    Encoding::FrameOfReference,
    Encoding::Delta,
    Encoding::FastPfor,
    Encoding::Rle,
];
const SAMPLES: usize = 15;

/// Values of ten bits, one in a thousand of thirty; each of them eight times.
fn encode(encoding: Encoding) -> Outcome<Vec<u8>> {
    let value = |row: usize| {
        let mixed = (row as i64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        match mixed.rem_euclid(1000) {
            0 => mixed.rem_euclid(1 << 30),
            _ => mixed.rem_euclid(1 << 10),
        }
    };
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(value)));
    let plan = ChunkPlan::new(TY, &[column], Some(encoding), None)?;
    let mut bytes = vec![0; plan.len_bytes()];
    plan.write(&mut bytes);
    Ok(bytes)
}

/// The sum, made of arrays of 8,192 values, or taken from codes.
fn sum(chunk: &Chunk<'_>, how: &str, scratch: &mut Scratch) -> Outcome<i128> {
    let mut sum = 0;
    match how {
        "rows" => {
            let mut reader = ColumnReader::new(TY, 8192);
            for block in 0..chunk.blocks() {
                reader.append(chunk, block, &Mask::all(), None, scratch)?;
                if reader.len() == 8192 {
                    let values = reader.finish();
                    let values = values.as_primitive::<Int64Type>();
                    sum += i128::from(arrow::compute::sum(values).unwrap_or(0));
                }
            }
        }
        "totals" => {
            let wanted = WantedTotals {
                sum: true,
                extremes: false,
            };
            let mut totals = ColumnTotals::new(TY, wanted);
            for block in 0..chunk.blocks() {
                totals.append(chunk, block, &Mask::all(), None, scratch)?;
            }
            sum += totals.finish().sum;
        }
        _ => {}
    }
    Ok(sum)
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut scratch = Scratch::new();
    if let [encoding, how, rounds] = args.as_slice() {
        let bytes = encode(encoding.parse()?)?;
        let chunk = Chunk::open(&bytes, TY)?;
        for _ in 0..rounds.parse()? {
            black_box(sum(&chunk, how, &mut scratch)?);
        }
        return Ok(());
    }
    println!("encoding     ns a value: of an array   of codes");
    for encoding in ENCODINGS {
        let bytes = encode(encoding)?;
        let chunk = Chunk::open(&bytes, TY)?;
        let of_rows = sum(&chunk, "rows", &mut scratch)?;
        assert_eq!(of_rows, sum(&chunk, "totals", &mut scratch)?);
        let mut medians = [0.0; 2];
        for (median, how) in medians.iter_mut().zip(["rows", "totals"]) {
            let mut samples = [0.0; SAMPLES];
            for sample in &mut samples {
                let start = Instant::now();
                black_box(sum(&chunk, how, &mut scratch)?);
                *sample = start.elapsed().as_secs_f64() * 1e9 / ROWS as f64;
            }
            samples.sort_by(f64::total_cmp);
            *median = samples[SAMPLES / 2];
        }
        let name = encoding.to_string();
        println!("{name:<12} {:>24.3} {:>10.3}", medians[0], medians[1]);
    }
    Ok(())
}
