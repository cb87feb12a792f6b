//! What strings take in each of their encodings, and what reading them costs: all of them, those that a filter passes, single ones.
//!
//! `cargo run --release -p tierra-column --example strings`, for one CPU whose cache holds the chunk. To count instructions, give a set
//! of texts, an encoding, what to do (`all`, `filter`, `cell` or `nothing`) and how often:
//!
//! `valgrind --tool=callgrind target/release/examples/strings keys front all 10`
//!
//! Coded strings take less room and longer to read, so they are stored so only where it is asked for.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, StringViewArray};
use tierra_column::bits::Mask;
use tierra_column::{
    Chunk, ChunkPlan, ColumnReader, Encoding, Filter, LogicalType, Scratch, Value,
};
use tierra_interleave::{Execution, run_plain};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROWS: usize = 64 * 1024;
const ENCODINGS: [Encoding; 4] = [
    Encoding::Plain,
    Encoding::Front,
    Encoding::Prefix,
    Encoding::Fsst,
];
const SETS: [&str; 4] = ["keys", "shuffled", "addresses", "words"];
const WORK: [&str; 3] = ["all", "filter", "cell"];
const SAMPLES: usize = 9;

/// The texts of a set.
fn texts(set: &str) -> ArrayRef {
    let shuffled = |row: usize| row * 7919 % ROWS;
    let text = |row: usize| match set {
        "keys" => format!("Customer#{row:09}"),
        "shuffled" => format!("Customer#{:09}", shuffled(row)),
        "addresses" => format!("https://example{}.org/articles/{}", row % 7, shuffled(row)),
        _ => {
            let words = [
                "carefully",
                "final",
                "deposits",
                "sleep",
                "quickly",
                "ironic",
            ];
            let word = |at: usize| words[(shuffled(row) >> (3 * at)) % words.len()];
            format!("{} {} {} {row}", word(0), word(1), word(2))
        }
    };
    Arc::new(StringViewArray::from_iter_values((0..ROWS).map(text)))
}

fn encode(texts: &ArrayRef, encoding: Encoding) -> Outcome<Vec<u8>> {
    let texts = std::slice::from_ref(texts);
    let plan = ChunkPlan::new(LogicalType::Varchar, texts, Some(encoding), None)?;
    let mut bytes = vec![0; plan.len_bytes()];
    plan.write(&mut bytes);
    Ok(bytes)
}

/// Reads every row once; returns something that depends on them.
fn read(chunk: &Chunk<'_>, work: &str, scratch: &mut Scratch) -> Outcome<usize> {
    let ty = LogicalType::Varchar;
    let mut found = 0;
    match work {
        "all" => {
            for block in 0..chunk.blocks() {
                let mut reader = ColumnReader::new(ty, 1024);
                reader.append(chunk, block, &Mask::all(), None, scratch)?;
                found += black_box(reader.finish()).len();
            }
        }
        "filter" => {
            let filter = Filter::eq(Value::Bytes((*b"Customer#000000777 ").into()));
            let bound = chunk.bind(&filter, None, Execution::default())?;
            for block in 0..chunk.blocks() {
                let mut mask = Mask::all();
                chunk.select(&bound, block, &mut mask, scratch)?;
                found += mask.count();
            }
        }
        "cell" => {
            let mut reader = ColumnReader::new(ty, 1024);
            for row in 0..chunk.rows() {
                let row = row * 7919 % chunk.rows();
                reader.append_cell(run_plain(|cx| chunk.value(cx, row, None))?)?;
                if reader.len() == 1024 {
                    found += black_box(reader.finish()).len();
                }
            }
        }
        _ => {}
    }
    Ok(found)
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut scratch = Scratch::new();
    if let [set, encoding, work, rounds] = args.as_slice() {
        let bytes = encode(&texts(set), encoding.parse()?)?;
        let chunk = Chunk::open(&bytes, LogicalType::Varchar)?;
        for _ in 0..rounds.parse()? {
            black_box(read(&chunk, work, &mut scratch)?);
        }
        return Ok(());
    }
    println!("texts      encoding  bytes a row   ns a row: all   filter    cell");
    for set in SETS {
        let texts = texts(set);
        for encoding in ENCODINGS {
            let bytes = encode(&texts, encoding)?;
            let chunk = Chunk::open(&bytes, LogicalType::Varchar)?;
            let mut costs = [0.0; WORK.len()];
            for (cost, work) in costs.iter_mut().zip(WORK) {
                let mut samples = [0.0; SAMPLES];
                for sample in &mut samples {
                    let start = Instant::now();
                    black_box(read(&chunk, work, &mut scratch)?);
                    *sample = start.elapsed().as_secs_f64() * 1e9 / ROWS as f64;
                }
                samples.sort_by(f64::total_cmp);
                *cost = samples[SAMPLES / 2];
            }
            let [all, filter, cell] = costs;
            let encoding = encoding.to_string();
            println!(
                "{set:<10} {encoding:<8} {:>12.1} {all:>15.1} {filter:>8.1} {cell:>7.1}",
                bytes.len() as f64 / ROWS as f64
            );
        }
    }
    Ok(())
}
