//! Building and probing the build side of a join, plain against interleaved.
//!
//! ```text
//! export GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0    # 2 MiB pages for the rows, too
//! cargo run --release -p tierra-index --example join_table -- [ROWS]
//! ```
//!
//! Builds a table of that many different keys (10 million unless told otherwise) on one and on all
//! threads, probes it with a million keys at a time, half of them present, checks every answer and prints
//! medians of alternating rounds.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tierra_index::{JoinMatch, JoinRows, JoinTable};
use tierra_interleave::{Cx, Execution, GroupSize, in_mode, map_into};

const PROBES: usize = 1_000_000;
const ROUNDS: usize = 11;

fn main() -> ExitCode {
    let rows = match std::env::args().nth(1).map(|rows| rows.parse::<u64>()) {
        None => 10_000_000,
        Some(Ok(rows @ 1..=1_000_000_000)) => rows,
        Some(_) => {
            eprintln!("usage: join_table [ROWS], from 1 to 1000000000");
            return ExitCode::FAILURE;
        }
    };
    // The key of row r is r times an odd number: different for each, in no order.
    let key_of = |row: u64| row.wrapping_mul(0xd134_2543_de82_ef95);
    let keys: Vec<u64> = (0..rows).map(key_of).collect();
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut built = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (threads, times) in [1, all].into_iter().zip(&mut built) {
            let start = Instant::now();
            let table = JoinTable::build(&keys, |_| true, threads);
            times.push(start.elapsed());
            assert_eq!(table.keys() as u64, rows);
        }
    }
    let table = JoinTable::build(&keys, |_| true, all);
    println!(
        "{rows} rows; table of {} MiB; ns per row, built by 1 thread: {:.1}, by {all}: {:.1}",
        table.bytes() >> 20,
        ns_each(&mut built[0], rows as usize),
        ns_each(&mut built[1], rows as usize),
    );

    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut found = vec![JoinMatch::default(); PROBES];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (execution, times) in Execution::ALL.into_iter().zip(&mut times) {
            let wanted: Vec<u64> = std::iter::repeat_with(|| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % (2 * rows)
            })
            .take(PROBES)
            .collect();
            let keys: Vec<u64> = wanted.iter().copied().map(key_of).collect();
            let start = Instant::now();
            in_mode!(execution, M => map_into(
                GroupSize::DEFAULT, &keys, |cx: Cx<M>, &key| table.find(cx, key), &mut found));
            times.push(start.elapsed());
            for (row, found) in wanted.into_iter().zip(&found) {
                let expected = match row < rows {
                    true => JoinRows::One(row as u32),
                    false => JoinRows::None,
                };
                assert_eq!(table.rows(*found), expected, "row {row}, {execution}");
            }
        }
    }
    for (execution, mut times) in Execution::ALL.into_iter().zip(times) {
        println!(
            "{execution:>12}: {:.1} ns per probe",
            ns_each(&mut times, PROBES)
        );
    }
    ExitCode::SUCCESS
}

/// The median.
fn ns_each(times: &mut [Duration], count: usize) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64 / count as f64
}
