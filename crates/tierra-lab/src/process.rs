//! What the system tells of a process.

use crate::error::{At, LabError};

/// Ticks of a second in `/proc/PID/stat`, on every architecture that is left.
const TICKS_PER_SECOND: u64 = 100;

/// The time that all threads of a process have had a processor, user and system, to ten milliseconds. `process` is its folder in `/proc`.
///
/// # Errors
/// If there is no such process.
pub(crate) fn processor_ns(process: &str) -> Result<u64, LabError> {
    let path = format!("{process}/stat");
    let stat = std::fs::read_to_string(&path).at(&path)?;
    // The name, in parentheses, may hold anything; the times are 12 and 13 words after it.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let times = behind.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    Ok(ticks * (1_000_000_000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_is_counted() {
        let before = processor_ns("/proc/self").unwrap();
        let start = Instant::now();
        while processor_ns("/proc/self").unwrap() == before {
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        assert!(processor_ns("/proc/1234567890").is_err());
    }
}
