//! Whether emulated far memory is as slow as it was asked to be: dependent chase, parallel random
//! loads, sequential scan, stores with flush and fence, bulk copy; and what a load costs at zero latency.
//!
//! `cargo run --release -p tierra-memory --example emulation_check [MiB]`
//!
//! Every line is the median of 101 rounds of about a millisecond, each of which takes emulated and native in turn: short
//! enough that on a machine shared with others most are left alone. Where native is slower than what was
//! asked, emulation cannot be faster than native.

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::time::{Duration, Instant};

use tierra_interleave::{Execution, Interleaved, Plain};
use tierra_memory::emulation::{self, FarMemory, begin_read, count_as_far};
use tierra_memory::measure::Chase;
use tierra_memory::{LINE_BYTES, Region, RegionError, in_mode, persist};

const ROUNDS: usize = 101;
const TIME: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mib: usize = std::env::args().nth(1).map_or(Ok(512), |arg| arg.parse())?;
    let mut region = populated(mib)?;
    let far = count_as_far(&region[..]);
    println!(
        "{mib} MiB on pages of {} KiB",
        region.page_size_bytes() >> 10
    );
    println!("{:44} {:>9} {:>9} {:>9}", "", "asked", "got", "native");
    chases(&mut region);
    scans(&region);
    stores(&mut region);
    drop(far);
    Ok(())
}

fn chases(region: &mut Region) {
    let chase = RefCell::new(Chase::lay(region));
    let plain = || in_mode!(Execution::Plain, M => chase.borrow_mut().ns_per_line::<M>(1, TIME));
    for latency_ns in [200.0, 250.0, 300.0, 500.0, 1000.0] {
        let far = FarMemory {
            latency_ns,
            ..FarMemory::UNLIMITED
        };
        let native = || chase.borrow_mut().ns_per_line::<Plain>(1, TIME);
        compare(
            "dependent chase, ns a line",
            latency_ns,
            far,
            &plain,
            &native,
        );
    }
    for (misses, loads) in [
        (1, 24),
        (4, 24),
        (8, 24),
        (10, 10),
        (10, 16),
        (10, 24),
        (10, 64),
    ] {
        let far = FarMemory {
            latency_ns: 300.0,
            misses_in_flight: misses,
            ..FarMemory::UNLIMITED
        };
        let name = format!("{loads} loads, {misses} misses in flight, ns a line");
        let emulated = || in_mode!(Execution::Interleaved, M => chase.borrow_mut().ns_per_line::<M>(loads, TIME));
        let native = || chase.borrow_mut().ns_per_line::<Interleaved>(loads, TIME);
        compare(&name, 300.0 / misses as f64, far, &emulated, &native);
    }
    let loads = 64;
    let emulated =
        || in_mode!(Execution::Interleaved, M => chase.borrow_mut().ns_per_line::<M>(loads, TIME));
    let native = || chase.borrow_mut().ns_per_line::<Interleaved>(loads, TIME);
    for rate in [1.0, 2.0] {
        let far = FarMemory {
            latency_ns: 300.0,
            misses_in_flight: 64,
            random_read_gb_per_s: rate,
            ..FarMemory::UNLIMITED
        };
        let name = format!("64 loads at {rate} GB/s, ns a line");
        compare(&name, 64.0 / rate, far, &emulated, &native);
    }

    // Lines that the nearest cache holds, so that the emulator's own work shows.
    let mut small = vec![0; 8 << 10];
    let far = count_as_far(&small);
    let chase = RefCell::new(Chase::lay(&mut small));
    let due_at_once = FarMemory {
        latency_ns: 1.0,
        misses_in_flight: 64,
        cache_bytes: 0,
        random_read_gb_per_s: 1000.0,
        sequential_read_gb_per_s: 1000.0,
        ..FarMemory::OPTANE
    };
    for (name, setting) in [
        ("zero latency, plain, ns a load", FarMemory::UNLIMITED),
        ("cached in the model, plain, ns a load", FarMemory::OPTANE),
        ("due at once, plain, ns a load", due_at_once),
    ] {
        let emulated =
            || in_mode!(Execution::Plain, M => chase.borrow_mut().ns_per_line::<M>(8, TIME));
        let native = || chase.borrow_mut().ns_per_line::<Plain>(8, TIME);
        compare(name, 0.0, setting, &emulated, &native);
        let name = name.replace("plain", "interleaved");
        let emulated =
            || in_mode!(Execution::Interleaved, M => chase.borrow_mut().ns_per_line::<M>(8, TIME));
        let native = || chase.borrow_mut().ns_per_line::<Interleaved>(8, TIME);
        compare(&name, 0.0, setting, &emulated, &native);
    }
    drop(far);
    let emulated = || in_mode!(Execution::Plain, M => chase.borrow_mut().ns_per_line::<M>(8, TIME));
    let native = || chase.borrow_mut().ns_per_line::<Plain>(8, TIME);
    compare(
        "near memory, plain, ns a load",
        0.0,
        FarMemory::OPTANE,
        &emulated,
        &native,
    );
}

fn scans(region: &Region) {
    let scan = || {
        timed_ns_per_byte(|| {
            for block in region[..256 << 10].chunks(4096) {
                let reading = begin_read(block);
                let words = block.chunks_exact(8).map(|word| u64::from(word[0]));
                black_box(words.sum::<u64>());
                drop(reading);
            }
            256 << 10
        })
    };
    for rate in [0.5, 1.0, 2.0, 4.0] {
        let far = FarMemory {
            latency_ns: 300.0,
            sequential_read_gb_per_s: rate,
            random_read_gb_per_s: rate,
            ..FarMemory::UNLIMITED
        };
        let name = format!("scan at {rate} GB/s, ns a byte");
        compare(&name, 1.0 / rate, far, &scan, &scan);
    }
}

fn stores(region: &mut Region) {
    let lines = region.len() / LINE_BYTES;
    let cell = RefCell::new(region);
    let stored = Cell::new(0usize);
    let durable = || {
        const STORES: usize = 1000;
        let region = &mut *cell.borrow_mut();
        let start = Instant::now();
        for _ in 0..STORES {
            let store = stored.get();
            stored.set(store + 1);
            let at = store.wrapping_mul(0x9E37_79B9_7F4A_7C15) % lines * LINE_BYTES;
            region[at] = store as u8;
            persist::persist(&region[at..at + 1]);
        }
        start.elapsed().as_nanos() as f64 / STORES as f64
    };
    for persist_ns in [500.0, 1000.0] {
        let far = FarMemory {
            persist_ns,
            ..FarMemory::UNLIMITED
        };
        compare(
            "store, flush and fence, ns a line",
            persist_ns,
            far,
            &durable,
            &durable,
        );
    }
    for rate in [0.1, 0.05] {
        let far = FarMemory {
            random_write_gb_per_s: rate,
            sequential_write_gb_per_s: rate,
            ..FarMemory::UNLIMITED
        };
        let name = format!("store, flush and fence at {rate} GB/s, ns a line");
        compare(&name, 64.0 / rate, far, &durable, &durable);
    }

    let from = vec![1; 256 << 10];
    let copy = || {
        let to = &mut cell.borrow_mut()[..256 << 10];
        timed_ns_per_byte(|| {
            persist::copy_nontemporal(to, &from);
            from.len()
        })
    };
    for rate in [0.5, 1.0, 2.0, 4.0] {
        let far = FarMemory {
            sequential_write_gb_per_s: rate,
            random_write_gb_per_s: rate,
            ..FarMemory::UNLIMITED
        };
        let name = format!("bulk copy at {rate} GB/s, ns a byte");
        compare(&name, 1.0 / rate, far, &copy, &copy);
    }
}

fn populated(mib: usize) -> Result<Region, RegionError> {
    let mut region = Region::near(mib << 20)?;
    region.populate()?;
    Ok(region)
}

/// Prints what was asked and the medians of what came, with emulation and without.
fn compare(
    name: &str,
    asked: f64,
    far: FarMemory,
    emulated: &dyn Fn() -> f64,
    native: &dyn Fn() -> f64,
) {
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        emulation::set(Some(far)).expect("a sensible setting");
        samples[0].push(emulated());
        emulation::set(None).expect("off is always possible");
        samples[1].push(native());
    }
    let [got, native] = samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        samples[ROUNDS / 2]
    });
    let off = if asked > 0.0 {
        format!("{:+.1} %", (got / asked - 1.0) * 100.0)
    } else {
        format!("{:+.2} ns", got - native)
    };
    println!("{name:44} {asked:9.3} {got:9.3} {native:9.3}  {off}");
}

fn timed_ns_per_byte(work: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    let bytes = work();
    start.elapsed().as_nanos() as f64 / bytes as f64
}
