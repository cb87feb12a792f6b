//! All of the replicated buffers, as `buffers.c` does: allocate one with two replicas, append, read by the replica that suits, unpack
//! blocks, delete.
//!
//!     cargo run --release -p tierra-buffers --example buffers -- /dev/shm/my-buffers

use std::path::{Path, PathBuf};

use tierra_buffers::{Buffer, Buffers, Near, Options, Packing, ReadPattern};

const VALUES: i64 = 100_000;

/// Reads all by packed codes where there are any.
fn sum_of_blocks(
    buffer: &Buffer,
    pattern: ReadPattern,
) -> Result<i128, Box<dyn std::error::Error>> {
    let reader = buffer.reader(pattern)?;
    let mut sum = 0;
    for number in 0..reader.blocks() {
        let codes = reader.read_block(number, |block| {
            // One width for all codes: a value is its code plus the base.
            let Packing::Even { width, base } = block.packing else {
                return Err(block.position..block.position + block.codes.len() as u64);
            };
            let bytes = [block.bytes, &[0; 16]].concat();
            let code = |at: usize| {
                let bit = at * usize::from(width);
                let sixteen = bytes[bit / 8..][..16].try_into().expect("16 bytes");
                let code = u128::from_le_bytes(sixteen) >> (bit % 8) & ((1 << width) - 1);
                i128::from(base.wrapping_add(code as i64))
            };
            Ok(block.codes.clone().map(code).sum::<i128>())
        })?;
        sum += match codes {
            Ok(codes) => codes,
            Err(positions) => reader
                .values(positions)?
                .iter()
                .copied()
                .map(i128::from)
                .sum(),
        };
    }
    Ok(sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os().nth(1).map(PathBuf::from);
    run(&dir.ok_or("usage: buffers DIRECTORY")?)
}

/// All of it, in a directory of its own.
pub(crate) fn run(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    options.engine.near_memory_bytes = Some(64 << 20);
    options
        .tiers
        .push(("b".to_owned(), dir.with_extension("b-pool")));
    let buffers = Buffers::open(dir, &options)?;
    let prices = buffers.allocate("prices", &["far/static", "b/dynamic"], Near::Never)?;
    let value = |at: i64| {
        if at % 1000 == 7 {
            1_000_000 + at
        } else {
            at % 100 - 50
        }
    };
    prices.append(&(0..VALUES - 1).map(value).collect::<Vec<_>>())?; // durable in both tiers now
    prices.append(&[value(VALUES - 1)])?;
    for replica in prices.info()?.replicas {
        println!(
            "{}: {:?}, {} values in {} bytes",
            replica.tier, replica.encodings, replica.rows, replica.stored_bytes
        );
    }
    for pattern in [ReadPattern::Random, ReadPattern::Sequential] {
        let reader = prices.reader(pattern)?;
        let sum = reader.sum()?;
        println!(
            "{pattern:?}: {} values, sum {sum}, read from {:?}",
            reader.len(),
            reader.sources()
        );
        assert_eq!(sum, sum_of_blocks(&prices, pattern)?);
        println!(
            "{pattern:?}: at 99999, 0, 4711: {:?}",
            reader.at(&[99_999, 0, 4_711])?
        );
        prices.pack()?; // what was staged is in both replicas now
    }
    prices.delete()?;
    println!("{}", prices.append(&[1]).expect_err("it was deleted"));
    Ok(())
}
