//! What looking up the keys of a window together is worth, near and on emulated far memory.
//!
//! ```text
//! cargo run --release -p tierra-kv --example window -- [RECORDS]
//! ```
//!
//! Keys are drawn evenly from all; each is found and its 1,000-byte value read, sixteen and a hundred and
//! twenty-eight to a window. Both sides alternate; medians of 11.

use std::hint::black_box;
use std::time::Instant;

use tierra_kv::keyspace::{Expiry, Key, Keyspace, Options, Policy, Settings};
use tierra_memory::emulation::{self, FarMemory};

const VALUE_BYTES: usize = 1000;
const FINDS: usize = 100_000;
const ROUNDS: usize = 11;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.parse())?;
    for (policy, far) in [
        (Policy::OnlyDram, None),
        (Policy::OnlyPmem, Some(FarMemory::OPTANE)),
    ] {
        let settings = Settings {
            policy,
            ..Settings::default()
        };
        let mut keyspace = Keyspace::new(&Options {
            settings,
            ..Options::default()
        })?;
        let start = Instant::now();
        for number in 0..records {
            let value = [number as u8; VALUE_BYTES];
            keyspace
                .db(0)
                .set_string(&Key::new(name(number).as_bytes()), &value, Expiry::Clear)?;
        }
        let each = start.elapsed().as_nanos() as f64 / records as f64;
        println!(
            "{policy}: {records} records made in {each:.0} ns each, {:?}",
            keyspace.report()
        );
        emulation::set(far)?;
        for batch in [16, 128] {
            let mut times = [const { Vec::new() }; 2];
            for round in 0..ROUNDS {
                for on in [false, true] {
                    keyspace.set_window(on);
                    times[usize::from(on)].push(finds(&mut keyspace, records, batch, round as u64));
                }
            }
            let [off, on] = times.map(median);
            println!(
                "{policy}, windows of {batch}: {off:.0} ns one by one, {on:.0} ns together, {:.2}x",
                off / on
            );
        }
        emulation::set(None)?;
    }
    Ok(())
}

fn name(number: u64) -> String {
    format!("user{:020}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn finds(keyspace: &mut Keyspace, records: u64, batch: usize, seed: u64) -> f64 {
    let mut state = seed + 1;
    let names: Vec<String> = (0..FINDS)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            name((state >> 33) % records)
        })
        .collect();
    let (mut found, mut keys) = (Vec::new(), Vec::new());
    let mut sum = 0;
    let db = keyspace.db(0);
    let start = Instant::now();
    for names in names.chunks(batch) {
        keys.clear();
        keys.extend(names.iter().map(String::as_bytes));
        found.clear();
        db.find_many(&keys, &mut found);
        for (key, found) in keys.iter().zip(&found) {
            let entry = db.find(&Key::carried(key, *found)).expect("it was set");
            let value = db.string(entry);
            sum += value
                .iter()
                .step_by(64)
                .map(|&byte| u64::from(byte))
                .sum::<u64>();
        }
    }
    black_box(sum);
    start.elapsed().as_nanos() as f64 / FINDS as f64
}
