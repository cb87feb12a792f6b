//! What it takes to read a value of each encoding besides waiting for memory: the constants of `src/encoding/read_cost.rs`.
//!
//! `cargo run --release -p tierra-column --example read_costs`, for one CPU whose cache holds the chunk.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use tierra_column::bits::Mask;
use tierra_column::{Chunk, ChunkPlan, ColumnReader, Encoding, LogicalType, Scratch};
use tierra_interleave::{Cx, Plain, run_plain};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROWS: usize = 64 * 1024;
const SAMPLES: usize = 15;
const CELLS: usize = 4096;

/// Values of ten bits, one in a thousand of thirty; each of them eight times. As strings with a common prefix.
fn column(ty: LogicalType) -> ArrayRef {
    let value = |row: usize| {
        let mixed = (row as i64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        match mixed.rem_euclid(1000) {
            0 => mixed.rem_euclid(1 << 30),
            _ => mixed.rem_euclid(1 << 10),
        }
    };
    match ty {
        LogicalType::BigInt => Arc::new(Int64Array::from_iter_values((0..ROWS).map(value))),
        _ => {
            let texts = (0..ROWS).map(|row| format!("customer#{:09}", value(row)));
            Arc::new(StringViewArray::from_iter_values(texts))
        }
    }
}

/// All values in order; nanoseconds for one.
fn in_order_ns(chunk: &Chunk<'_>, scratch: &mut Scratch) -> Outcome<f64> {
    let mut reader = ColumnReader::new(chunk.logical_type(), 8192);
    let start = Instant::now();
    for block in 0..chunk.blocks() {
        reader.append(chunk, block, &Mask::all(), None, scratch)?;
        if reader.len() == 8192 {
            black_box(reader.finish());
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / ROWS as f64)
}

/// Single values in no order; nanoseconds for one.
fn alone_ns(chunk: &Chunk<'_>) -> Outcome<f64> {
    let start = Instant::now();
    for cell in 0..CELLS {
        let row = cell.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13 & (ROWS - 1);
        run_plain(async |cx: Cx<Plain>| black_box(chunk.value(cx, row, None).await).map(drop))
            .map_err(|error| *error)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / CELLS as f64)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() -> Outcome<()> {
    println!(
        "| type | encoding | bytes a value | in order, ns | alone, ns |\n|---|---|---|---|---|"
    );
    for ty in [LogicalType::BigInt, LogicalType::Varchar] {
        for encoding in Encoding::ALL {
            if !encoding.supports(ty) || encoding.uses_dictionary() {
                continue;
            }
            let plan = ChunkPlan::new(ty, &[column(ty)], Some(encoding), None)?;
            let mut bytes = vec![0; plan.len_bytes()];
            plan.write(&mut bytes);
            let chunk = Chunk::open(&bytes, ty)?;
            let mut scratch = Scratch::new();
            let (mut in_order, mut alone) = (Vec::new(), Vec::new());
            for _ in 0..SAMPLES {
                in_order.push(in_order_ns(&chunk, &mut scratch)?);
                alone.push(alone_ns(&chunk)?);
            }
            let (in_order, alone) = (median(in_order), median(alone));
            let stored = bytes.len() as f64 / ROWS as f64;
            println!("| {ty} | {encoding} | {stored:.2} | {in_order:.2} | {alone:.1} |");
        }
    }
    Ok(())
}
