//! Promise: a DAX device without a file system holds a pool as a file does, without anything that a device does not honour, and
//! nothing that it held before is overwritten.
//!
//! A file stands in for the device, and a folder for what sysfs says of it: everything but the kernel's own part runs. With
//! `TIERRA_DAX_DEVICE=/dev/dax0.0` a true one is used as well, which must be empty and is empty again afterwards.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tierra_memory::faults::Injector;
use tierra_memory::{Durability, Extent, MediumKind, Pool, PoolError, PoolOptions};

const UNIT: u64 = 2 << 20;

/// A machine with one DAX device, for which any file stands in: its number is that of no device.
struct Machine {
    root: TempDir,
    folder: PathBuf,
    device: PathBuf,
}

impl Machine {
    fn with(bytes: u64, align_bytes: u64) -> Machine {
        Machine::on("LNXSYSTM:00/ndbus0/region0/dax0.0", bytes, align_bytes)
    }

    fn on(bus: &str, bytes: u64, align_bytes: u64) -> Machine {
        let root = TempDir::new().unwrap();
        let folder = root.path().join("sys/devices").join(bus).join("dax0.0");
        let bus = root.path().join("sys/bus/dax");
        let numbers = root.path().join("sys/dev/char");
        for folder in [&folder, &bus, &numbers] {
            fs::create_dir_all(folder).unwrap();
        }
        symlink(&folder, numbers.join("0:0")).unwrap();
        symlink(&bus, folder.join("subsystem")).unwrap();
        fs::write(folder.join("size"), format!("{bytes}\n")).unwrap();
        fs::write(folder.join("align"), format!("{align_bytes}\n")).unwrap();
        let device = root.path().join("dax0.0");
        File::create_new(&device).unwrap().set_len(bytes).unwrap();
        Machine {
            root,
            folder,
            device,
        }
    }

    fn options(&self) -> PoolOptions {
        PoolOptions {
            machine: Some(self.root.path().to_owned()),
            ..PoolOptions::default()
        }
    }

    fn create(&self) -> Result<Arc<Pool>, PoolError> {
        Pool::create(&self.device, &self.options())
    }

    fn open(&self) -> Result<Arc<Pool>, PoolError> {
        Pool::open(&self.device, &self.options())
    }

    /// What the device holds, read past the pool.
    fn content(&self) -> Vec<u8> {
        fs::read(&self.device).unwrap()
    }

    fn file(&self) -> File {
        File::options()
            .read(true)
            .write(true)
            .open(&self.device)
            .unwrap()
    }
}

fn write(pool: &Arc<Pool>, bytes: &[u8]) -> Extent {
    let mut writer = pool.allocate(bytes.len() as u64, 7).unwrap();
    writer.copy_from_slice(bytes);
    let root = writer.finish().unwrap();
    pool.publish(&root).unwrap();
    root.extent()
}

#[test]
fn what_was_published_is_there_again() {
    let machine = Machine::with(8 * UNIT, UNIT);
    let pool = machine.create().unwrap();
    assert_eq!(pool.medium(), MediumKind::Device);
    assert_eq!(pool.durability(), Durability::CacheLine);
    assert_eq!(pool.capacity_bytes(), 8 * UNIT);
    assert!(matches!(machine.open(), Err(PoolError::InUse { .. })));
    // More than the pool begins with.
    let payload: Vec<u8> = (0..3 * UNIT).map(|at| (at % 251) as u8).collect();
    let first = write(&pool, &payload);
    let second = write(&pool, b"second");
    let (id, len_bytes) = (pool.id(), pool.len_bytes());
    drop(pool);

    let pool = machine.open().unwrap();
    assert_eq!((pool.id(), pool.len_bytes()), (id, len_bytes));
    assert_eq!(pool.root(), Some(second));
    pool.retain(&[first, second]).unwrap();
    pool.verify_extent(first).unwrap();
    assert!(pool.bytes(first) == payload);
    assert_eq!(pool.bytes(second), b"second");
    write(&pool, b"third");
    drop(pool);
    let pool = machine.open().unwrap();
    assert_eq!(pool.bytes(pool.root().unwrap()), b"third");
    assert_eq!(
        machine.content().len() as u64,
        8 * UNIT,
        "it is as long as before"
    );
}

#[test]
fn memory_that_is_not_persistent_is_told_from_it() {
    for bus in [
        "platform/hmem.0",
        "ACPI0017:00/root0/decoder0.0/region0/dax_region0",
    ] {
        let machine = Machine::on(bus, 2 * UNIT, 4096);
        assert_eq!(
            machine.create().unwrap().durability(),
            Durability::ProcessOnly
        );
    }
}

#[test]
fn a_device_ends_where_it_ends() {
    // A ragged end cannot be mapped.
    let machine = Machine::with(3 * UNIT + 4096, UNIT);
    let pool = machine.create().unwrap();
    assert_eq!(pool.capacity_bytes(), 3 * UNIT);
    let mut held = Vec::new();
    let full = loop {
        match pool.allocate(UNIT / 4, 1) {
            Ok(writer) => held.push(writer),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(full, PoolError::Full { capacity_bytes, .. } if capacity_bytes == 3 * UNIT),
        "{full}"
    );
    assert_eq!(held.len(), 11);
    // What is given back can be had again.
    held.clear();
    write(&pool, &vec![1; 2 * UNIT as usize]);
    drop(pool);

    // Less of it, if less is asked for; never less than what is there.
    let less = PoolOptions {
        capacity_bytes: Some(UNIT + 5),
        ..machine.options()
    };
    let pool = Pool::open(&machine.device, &less).unwrap();
    assert_eq!(pool.capacity_bytes(), pool.len_bytes());
    drop(pool);
    let other = Machine::with(3 * UNIT, UNIT);
    let less = PoolOptions {
        capacity_bytes: Some(UNIT + 5),
        ..other.options()
    };
    let pool = Pool::create(&other.device, &less).unwrap();
    assert_eq!(pool.capacity_bytes(), UNIT);

    // A device made smaller.
    fs::write(machine.folder.join("size"), UNIT.to_string()).unwrap();
    assert!(matches!(machine.open(), Err(PoolError::Truncated { .. })));
}

#[test]
fn what_a_device_holds_is_not_overwritten() {
    let machine = Machine::with(2 * UNIT, UNIT);
    let empty = machine.open().unwrap_err();
    assert!(matches!(empty, PoolError::NotAPool { .. }), "{empty}");
    // Anywhere in what a header and its slots take.
    for at in [0, 63, 5000, 16383] {
        machine.file().write_all_at(b"x", at).unwrap();
        let before = machine.content();
        let error = machine.create().unwrap_err();
        assert!(matches!(error, PoolError::Occupied { .. }), "{error}");
        assert!(error.to_string().contains("daxio --zero"), "{error}");
        assert!(machine.content() == before);
        machine.file().write_all_at(b"\0", at).unwrap();
    }
    let pool = machine.create().unwrap();
    let root = write(&pool, b"mine");
    drop(pool);
    let before = machine.content();
    let error = machine.create().unwrap_err();
    assert!(
        error.to_string().contains("holds a pool already"),
        "{error}"
    );
    assert!(machine.content() == before);
    let pool = machine.open().unwrap();
    assert_eq!(pool.bytes(root), b"mine");
    // Its owner may discard it.
    pool.discard().unwrap();
    drop(pool);
    assert!(machine.device.exists());
    machine.create().unwrap();
}

/// Records of its logs would count again.
#[test]
fn nothing_of_an_earlier_pools_logs_is_seen() {
    let machine = Machine::with(6 * UNIT, UNIT);
    let garbage = vec![0xAB; (6 * UNIT) as usize - 16384];
    machine.file().write_all_at(&garbage, 16384).unwrap();
    let pool = machine.create().unwrap();
    for bytes in [UNIT / 2, 3 * UNIT] {
        let log = pool.allocate(bytes, 1).unwrap().finish_log().unwrap();
        assert!(
            pool.bytes(log.extent()).iter().all(|byte| *byte == 0),
            "{bytes}"
        );
    }
}

#[test]
fn what_sysfs_says_is_checked() {
    let refused = |machine: &Machine, expected: &str| {
        let before = machine.content();
        for error in [machine.create().unwrap_err(), machine.open().unwrap_err()] {
            assert!(matches!(error, PoolError::Device { .. }), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(machine.content() == before);
    };
    for align_bytes in [0, 512, 3 << 20] {
        refused(&Machine::with(8 * UNIT, align_bytes), "in units of");
    }
    let machine = Machine::with(2 * UNIT, UNIT);
    fs::remove_file(machine.folder.join("size")).unwrap();
    refused(&machine, "dax0.0/size");
    fs::write(machine.folder.join("size"), "large").unwrap();
    refused(&machine, "expected bytes");
    // Older kernels do not say it: large pages.
    let machine = Machine::with(2 * UNIT, UNIT);
    fs::remove_file(machine.folder.join("align")).unwrap();
    machine.create().unwrap();
    // Less than can be mapped.
    let machine = Machine::with(UNIT - 4096, UNIT);
    assert!(matches!(machine.create(), Err(PoolError::Full { .. })));
    // Smaller units than those that its end lies at.
    let machine = Machine::with(4 * UNIT, 4096);
    let pool = machine.create().unwrap();
    write(&pool, &[1; 100]);
    drop(pool);
    fs::write(machine.folder.join("align"), (4 * UNIT).to_string()).unwrap();
    let error = machine.open().unwrap_err();
    assert!(
        error.to_string().contains("set its alignment back"),
        "{error}"
    );
}

/// As this one, which every machine has.
#[test]
fn other_devices_are_refused_with_what_to_do() {
    let path = Path::new("/dev/null");
    for refused in [
        Pool::create(path, &PoolOptions::default()),
        Pool::open(path, &PoolOptions::default()),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, PoolError::Device { .. }), "{error}");
        assert!(error.to_string().contains("--mode=devdax"), "{error}");
    }
    let missing = Path::new("/dev/dax-none");
    let error = Pool::open(missing, &PoolOptions::default()).unwrap_err();
    assert!(matches!(error, PoolError::Missing { .. }), "{error}");
}

/// The kernel takes a device's whole page away, and lets nothing smaller be mapped over it.
#[test]
fn a_lost_page_is_as_large_as_the_devices() {
    for unit in [4096, UNIT, 2 * UNIT] {
        let machine = Machine::with(4 * UNIT, unit);
        let pool = machine.create().unwrap();
        let payload: Vec<u8> = (0..3 * UNIT / 2).map(|at| (at % 253) as u8).collect();
        let extent = write(&pool, &payload);
        let epoch = pool.fault_epoch();
        let at = extent.offset + UNIT;
        Injector::new(1).lose_page(&pool, at..at + 1).unwrap();
        assert!(pool.verify_extent(extent).is_err());
        assert_ne!(pool.fault_epoch(), epoch);
        let faults = pool.take_faults();
        assert_eq!(faults.len(), 1);
        let lost = faults[0].offsets.clone();
        assert_eq!(
            (lost.start, lost.end),
            (at / unit * unit, (at / unit + 1) * unit)
        );
        // With the page goes what else is on it, the header of the pool among it.
        let from = lost.start.max(extent.offset);
        let good = &payload[(from - extent.offset) as usize..];
        let good = &good[..good.len().min((lost.end - from) as usize)];
        if lost.start < extent.offset {
            let label = tierra_memory::ExtentLabel {
                owner: 7,
                payload_crc: Some(crc32c::crc32c(&payload)),
            };
            pool.restore_header(extent, &label).unwrap();
            assert!(pool.check_superblock(true).unwrap());
        }
        pool.restore(extent, from - extent.offset, good).unwrap();
        pool.verify_extent(extent).unwrap();
        drop(pool);
        let pool = machine.open().unwrap();
        assert!(pool.bytes(extent) == payload, "{unit}");
    }
}

/// There is no system call that clears an error of a device: where stores do not, it stays lost, and says what to do.
#[test]
fn a_page_that_stays_bad_stays_lost() {
    let machine = Machine::with(4 * UNIT, UNIT);
    let pool = machine.create().unwrap();
    let extent = write(&pool, &vec![5; 3 * UNIT as usize / 2]);
    // Behind the end of the file there is nothing, whatever is stored there.
    machine.file().set_len(UNIT).unwrap();
    let good = [5; 100];
    let at = UNIT + 4096 - extent.offset;
    for _ in 0..2 {
        let error = pool.restore(extent, at, &good).unwrap_err();
        assert!(error.to_string().contains("clear-errors"), "{error}");
        assert!(pool.verify_extent(extent).is_err());
    }
    // All else is there.
    let head = &pool.bytes(extent)[..1000];
    assert!(head.iter().all(|byte| *byte == 5));
    // Space there is left out, of the whole page at once.
    assert!(pool.allocate(100, 1).is_err());
    // Memory that can be written again is good again.
    machine.file().set_len(4 * UNIT).unwrap();
    let other = pool.allocate(100, 1).unwrap().finish().unwrap();
    assert!(other.extent().offset > 2 * UNIT);
    pool.restore(extent, at, &good).unwrap();
    let page = &pool.bytes(extent)[at as usize..][..100];
    assert_eq!(page, good);
}

/// Needs a device, and to be root for the page that fails.
#[test]
fn the_device_of_this_machine() {
    let Some(path) = std::env::var_os("TIERRA_DAX_DEVICE") else {
        return;
    };
    let path = PathBuf::from(path);
    let options = PoolOptions::default();
    let pool = Pool::create(&path, &options).unwrap();
    println!(
        "{}: {}, {} bytes, {}, pages of {}",
        path.display(),
        pool.medium(),
        pool.capacity_bytes(),
        pool.durability(),
        pool.page_size_bytes()
    );
    assert_eq!(pool.medium(), MediumKind::Device);
    assert!(matches!(
        Pool::open(&path, &options),
        Err(PoolError::InUse { .. })
    ));
    let payload: Vec<u8> = (0..20 * UNIT).map(|at| (at % 251) as u8).collect();
    let first = write(&pool, &payload);
    let second = write(&pool, b"second");
    drop(pool);

    let error = Pool::create(&path, &options).unwrap_err();
    assert!(matches!(error, PoolError::Occupied { .. }), "{error}");
    let pool = Pool::open(&path, &options).unwrap();
    pool.retain(&[first, second]).unwrap();
    pool.verify_extent(first).unwrap();
    assert!(pool.bytes(first) == payload && pool.bytes(second) == b"second");

    // A page that fails is noticed, and all else goes on.
    let at = 10 * UNIT as usize;
    let address = pool.bytes(first)[at..].as_ptr();
    let address = address.wrapping_sub(address.addr() % UNIT as usize);
    let epoch = pool.fault_epoch();
    // SAFETY: the kernel takes the page away as if its memory had failed, which is what the pool is made for.
    let poisoned = unsafe { libc::madvise(address.cast_mut().cast(), 4096, libc::MADV_HWPOISON) };
    if poisoned == 0 {
        assert!(pool.verify_extent(first).is_err());
        assert_ne!(pool.fault_epoch(), epoch);
        let faults = pool.take_faults();
        println!("lost: {faults:?}");
        assert_eq!(faults.len(), 1);
        assert_eq!(pool.bytes(second), b"second");
        let lost = faults[0].offsets.clone();
        let part = (lost.start - first.offset) as usize..(lost.end - first.offset) as usize;
        match pool.restore(first, part.start as u64, &payload[part.clone()]) {
            Ok(()) => pool.verify_extent(first).map(drop).unwrap(),
            Err(error) => println!("not restored: {error}"),
        }
    } else {
        println!("not poisoned: {}", std::io::Error::last_os_error());
    }
    let mut held = Vec::new();
    let full = loop {
        match pool.allocate(16 * UNIT, 1) {
            Ok(writer) => held.push(writer),
            Err(error) => break error,
        }
    };
    println!("full: {full}");
    assert!(matches!(full, PoolError::Full { .. }), "{full}");
    drop(held);
    pool.discard().unwrap();
    drop(pool);
    let error = Pool::open(&path, &options).unwrap_err();
    assert!(matches!(error, PoolError::NotAPool { .. }), "{error}");
}
