//! What a calibration depends on: the processor, its caches, and how much memory there is; and the files that
//! keep what was measured on it.

mod file;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub use file::{MeasuredFile, MeasuredFileError};

/// This machine in a line.
pub fn describe() -> String {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let value = text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        });
        value.unwrap_or_else(|| "unknown".to_owned())
    };
    // Virtual machines often hide the name; family and model still identify the generation.
    let cpus = read(Path::new("/proc/cpuinfo"));
    let mut parts = vec![format!(
        "{} {}/{}",
        field(&cpus, "model name"),
        field(&cpus, "cpu family"),
        field(&cpus, "model")
    )];
    for index in 0..8 {
        let cache = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let attribute = |name| read(&Path::new(&cache).join(name)).trim().to_owned();
        let (level, kind, size) = (attribute("level"), attribute("type"), attribute("size"));
        if !level.is_empty() {
            parts.push(format!("L{level} {kind} {size}"));
        }
    }
    parts.push(format!("{} GiB", memory_bytes().div_ceil(1 << 30)));
    parts.join(", ")
}

/// Bytes of main memory; 0 if the system does not tell.
pub fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim();
        kib.strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    kib.unwrap_or(0) << 10
}

/// Bytes of all last-level caches together; 0 if the system does not tell.
pub fn last_level_cache_bytes() -> u64 {
    let cpus = fs::read_dir("/sys/devices/system/cpu").into_iter();
    let mut caches = BTreeMap::new();
    for cpu in cpus.flatten().flatten() {
        let attribute = |index: usize, name: &str| {
            let cache = cpu.path().join(format!("cache/index{index}"));
            let text = fs::read_to_string(cache.join(name)).ok()?;
            Some(text.trim().to_owned())
        };
        let of_cpu = (0..8).filter_map(|index| {
            let level: u64 = attribute(index, "level")?.parse().ok()?;
            let size = attribute(index, "size")?;
            let kib: u64 = size.strip_suffix('K')?.parse().ok()?;
            Some((level, attribute(index, "shared_cpu_list")?, kib << 10))
        });
        // Processors that share a cache name the same ones.
        if let Some((_, sharing, bytes)) = of_cpu.max() {
            caches.insert(sharing, bytes);
        }
    }
    caches.into_values().sum()
}
