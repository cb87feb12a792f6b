//! What a calibration depends on: the processor, its caches, and how much memory there is; and the files that
//! keep what was measured on it.

mod file;

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
    let memory = field(&read(Path::new("/proc/meminfo")), "MemTotal");
    let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    parts.push(format!("{} GiB", kib.div_ceil(1 << 20)));
    parts.join(", ")
}
