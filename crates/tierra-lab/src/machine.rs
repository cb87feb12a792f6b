//! The machine on which a result was measured: without it a time has no meaning.
//!
//! An experiment that measures time begins when the machine is quiet ([`wait_until_quiet`]). One that did not wait long enough says
//! so by its load at the start, and does not count ([`Machine::why_not_counted`]).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// With a load of this or more at the start the machine was doing other work, and times measured on it do not count.
pub const QUIET_LOAD: f64 = 0.5;
/// The time over which other work is measured.
const LISTENED: Duration = Duration::from_millis(500);
/// The time between two looks at the load.
const LOOKS_APART: Duration = Duration::from_secs(5);

/// The place and time of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU's name.
    pub cpu: String,
    /// CPUs this process may run on.
    pub cores: u64,
    /// CPU 0's caches, for example "L1 data 48 KiB".
    pub caches: Vec<String>,
    /// Main memory.
    pub memory_bytes: u64,
    /// The system's base page.
    pub base_page_bytes: u64,
    /// The page size that a near region obtained.
    pub near_page_bytes: Option<u64>,
    /// The system's name and version.
    pub kernel: String,
    /// The CPU flags on which the choice of kernels and of flushes depends.
    pub cpu_flags: Vec<String>,
    /// The average number of runnable tasks over the minute before the experiment, including the lab's own.
    pub load_at_start: Option<f64>,
    /// Processors that were busy while the lab waited, just before the experiment ([`busy_processors`]).
    pub busy_at_start: Option<f64>,
    /// When the experiment started, UTC, ISO 8601.
    pub date: String,
    /// The source's commit, with `+` if the working tree differed.
    pub commit: Option<String>,
    /// The build, for example "release".
    pub build: String,
}

impl Machine {
    /// Describes this machine now. `near_page_bytes` is what a near region obtained, `busy_at_start` the result of
    /// [`busy_processors`].
    pub fn record(near_page_bytes: Option<u64>, busy_at_start: Option<f64>) -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        };
        let flags = field("flags").unwrap_or_default();
        Machine {
            cpu: cpu_name(&field),
            cores: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
            caches: caches(),
            memory_bytes: tierra_memory::machine::memory_bytes(),
            base_page_bytes: tierra_memory::base_page_bytes() as u64,
            near_page_bytes,
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            cpu_flags: flags
                .split_whitespace()
                .filter(|flag| decides(flag))
                .map(str::to_owned)
                .collect(),
            load_at_start: load(),
            busy_at_start,
            date: utc_now(),
            commit: commit(),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            }
            .to_owned(),
        }
    }

    /// Why what was measured here does not count, in a few words; `None` if it does. Other work disturbs only times.
    pub fn why_not_counted(&self, is_timed: bool) -> Option<String> {
        if self.build != "release" {
            return Some(format!("{} build", self.build));
        }
        if !is_timed {
            return None;
        }
        let Some(load) = self.load_at_start else {
            return Some("load unknown when it began".to_owned());
        };
        let busy = self.busy_at_start.map(|busy| ("busy processors", busy));
        let mut known = [Some(("load", load)), busy].into_iter().flatten();
        let (of, much) = known.find(|(_, much)| *much >= QUIET_LOAD)?;
        Some(format!("{of} {much:.2} when it began"))
    }
}

/// The average number of runnable tasks over the last minute, the lab's own included; `None` if the system does not tell.
pub fn load() -> Option<f64> {
    let average = read("/proc/loadavg");
    average.split_whitespace().next()?.parse().ok()
}

/// Sleeps until the load is below [`QUIET_LOAD`], but no longer than `most`.
pub fn wait_until_quiet(most: Duration) {
    let start = Instant::now();
    let is_busy = || load().is_none_or(|load| load >= QUIET_LOAD);
    while is_busy() && start.elapsed() < most {
        std::thread::sleep(LOOKS_APART.min(most.saturating_sub(start.elapsed())));
    }
}

/// The number of processors busy during half a second in which this thread sleeps; `None` if the system does not tell.
pub fn busy_processors() -> Option<f64> {
    let before = processor_ticks(&read("/proc/stat"))?;
    std::thread::sleep(LISTENED);
    let stat = read("/proc/stat");
    let after = processor_ticks(&stat)?;
    let (busy, all) = (
        after.0.checked_sub(before.0)?,
        after.1.checked_sub(before.1)?,
    );
    // One line per processor follows the line of all.
    let processors = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    (all > 0).then(|| busy as f64 / all as f64 * processors as f64)
}

/// Ticks of all processors since the start: busy ones, and all.
fn processor_ticks(stat: &str) -> Option<(u64, u64)> {
    // user, nice, system, idle, iowait, irq, softirq, steal; the following fields are part of user.
    let ticks: Vec<u64> = stat
        .strip_prefix("cpu ")?
        .split_whitespace()
        .take(8)
        .map_while(|ticks| ticks.parse().ok())
        .collect();
    let all = ticks.iter().sum::<u64>();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((all - idle, all))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Virtual machines often hide the model's name; family and model still tell the generation.
fn cpu_name(field: &dyn Fn(&str) -> Option<String>) -> String {
    let part = |name: &str| field(name).unwrap_or_else(|| "unknown".to_owned());
    format!(
        "{} (family {}, model {}, stepping {})",
        part("model name"),
        part("cpu family"),
        part("model"),
        part("stepping")
    )
}

fn decides(flag: &str) -> bool {
    [
        "avx",
        "bmi",
        "clflush",
        "clwb",
        "sse4",
        "popcnt",
        "gfni",
        "hypervisor",
    ]
    .iter()
    .any(|prefix| flag.starts_with(prefix))
}

fn caches() -> Vec<String> {
    let root = Path::new("/sys/devices/system/cpu/cpu0/cache");
    let attribute = |index: usize, name: &str| {
        fs::read_to_string(root.join(format!("index{index}")).join(name))
            .map(|text| text.trim().to_owned())
            .ok()
    };
    (0..8)
        .map_while(|index| {
            let (level, kind) = (attribute(index, "level")?, attribute(index, "type")?);
            let size = attribute(index, "size")?;
            Some(format!(
                "L{level} {} {}",
                kind.to_lowercase(),
                size.replace('K', " KiB")
            ))
        })
        .collect()
}

fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "HEAD"])?;
    // Results of an earlier experiment of the same run do not change the source.
    let changed = git(&["status", "--porcelain", "--", ":!results", ":(top)"])?;
    let changed = changed
        .lines()
        .any(|line| !line.contains("tierra-lab/results/"));
    Some(if changed { format!("{head}+") } else { head })
}

fn utc_now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a number of days since 1970-01-01 (Hinnant's `civil_from_days`).
fn civil(days_since_epoch: u64) -> (u64, u64, u64) {
    let days = days_since_epoch + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_817), (2026, 12, 30));
    }

    #[test]
    fn says_what_it_runs_on() {
        let machine = Machine::record(Some(4096), Some(0.25));
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && machine.base_page_bytes >= 4096);
        assert!(machine.date.ends_with('Z') && machine.kernel.starts_with("Linux"));
    }

    #[test]
    fn a_busy_machine_does_not_count() {
        let mut machine = Machine::record(None, None);
        machine.build = "release".to_owned();
        machine.load_at_start = Some(0.1);
        assert_eq!(machine.why_not_counted(true), None);
        machine.busy_at_start = Some(0.0);
        assert_eq!(machine.why_not_counted(true), None);
        machine.load_at_start = Some(3.0);
        assert_eq!(
            machine.why_not_counted(true).unwrap(),
            "load 3.00 when it began"
        );
        assert_eq!(machine.why_not_counted(false), None, "counts have no time");
        machine.load_at_start = Some(0.1);
        // Work that began just now is not yet in the average of a minute.
        machine.busy_at_start = Some(1.5);
        assert!(
            machine
                .why_not_counted(true)
                .unwrap()
                .contains("processors 1.50")
        );
        machine.load_at_start = None;
        assert!(machine.why_not_counted(true).unwrap().contains("unknown"));
        machine.build = "debug".to_owned();
        assert_eq!(machine.why_not_counted(true).unwrap(), "debug build");
        assert_eq!(machine.why_not_counted(false).unwrap(), "debug build");
    }

    #[test]
    fn waiting_for_a_quiet_machine_ends() {
        let start = Instant::now();
        wait_until_quiet(Duration::from_millis(20));
        // It would not end as long as the machine is busy.
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn waiting_is_not_work() {
        let stat = "cpu  10 5 20 100 7 0 1 2 10 5\ncpu0 1 2 3\n";
        assert_eq!(processor_ticks(stat), Some((38, 145)));
        assert_eq!(processor_ticks("intr 5"), None);
        assert_eq!(processor_ticks("cpu  1 2"), None);
    }
}
