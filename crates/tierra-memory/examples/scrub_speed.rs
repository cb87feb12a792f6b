//! How fast a walk that checks checksums is, beside what the memory gives and what CRC32C of cached bytes
//! takes: `cargo run --release -p tierra-memory --example scrub_speed [DIR [MIB]]`. Medians of alternating
//! rounds, all CPUs.

use std::hint::black_box;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tierra_memory::faults::{Ended, ScrubPass, Stop};
use tierra_memory::measure::{self, Effort};
use tierra_memory::{Pool, PoolOptions};

const ROUNDS: usize = 7;
const EXTENT_BYTES: u64 = 8 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let parent = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".to_owned()));
    let mib: u64 = args.next().map_or(Ok(512), |mib| mib.parse())?;
    let dir = tempfile::tempdir_in(parent)?;
    let pool = Pool::create(&dir.path().join("pool"), &PoolOptions::default())?;
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let mut extents = Vec::new();
    for number in 0..(mib << 20) / EXTENT_BYTES {
        let mut writer = pool.allocate(EXTENT_BYTES, 0)?;
        for (at, byte) in writer.iter_mut().enumerate() {
            *byte = (at as u64 * 7 + number) as u8;
        }
        extents.push(writer.finish()?.extent());
    }
    let parts: Vec<_> = extents.chunks(extents.len().div_ceil(threads)).collect();
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let effort = Effort {
            working_set_bytes: 256 << 20,
            time_per_figure: Duration::from_millis(150),
            threads,
        };
        rates[0].push(measure::pool(&pool, &effort)?.sequential_read_bytes_per_s);
        let began = Instant::now();
        thread::scope(|scope| {
            for part in &parts {
                scope.spawn(|| {
                    let mut pass = ScrubPass::new(part.to_vec());
                    let ended = pass.verify(&pool, &Stop::default(), |extent, error| {
                        panic!("{extent:?}: {error}");
                    });
                    assert_eq!(ended, Ended::Done);
                });
            }
        });
        rates[1].push((extents.len() as u64 * EXTENT_BYTES) as f64 / began.elapsed().as_secs_f64());
        let cached = vec![7u8; 64 << 10];
        let times = 4_000;
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    (0..times).for_each(|_| {
                        black_box(crc32c::crc32c(black_box(&cached)));
                    })
                });
            }
        });
        rates[2].push((times * threads * cached.len()) as f64 / began.elapsed().as_secs_f64());
    }
    println!(
        "{mib} MiB on {}, {threads} threads, pages of {} bytes",
        pool.medium(),
        pool.page_size_bytes()
    );
    let names = ["sequential reads", "walk with CRC32C", "CRC32C, cached"];
    let mut medians = Vec::new();
    for (name, rates) in names.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| rates[at] / 1e9);
        println!("{name:18} {median:6.2} GB/s ({least:.2} to {most:.2})");
        medians.push(median);
    }
    let share = medians[1] / medians[0];
    println!(
        "the walk reaches {:.0} % of sequential reads; half is asked for",
        share * 100.0
    );
    Ok(())
}
