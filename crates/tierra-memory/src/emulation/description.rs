//! What far memory is like, and the presets, each with its source.

use super::EmulationError;
use crate::LINE_BYTES;

/// Far memory as lookups, scans and writes feel it.
///
/// Made from a preset or from text (`"optane"`, `"cxl,cache=0B"`, `"latency=500ns,random=4GB/s"`); the text
/// form names each field as shown below. Bandwidths are of the device, shared by all threads;
/// infinite ones limit nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarMemory {
    /// `latency`: nanoseconds from a load's issue to its line.
    pub latency_ns: f64,
    /// `misses`: lines that one core can wait for at a time.
    pub misses_in_flight: usize,
    /// `sequential`: GB/s (10^9 bytes) of reads in order.
    pub sequential_read_gb_per_s: f64,
    /// `random`: GB/s of reads of lines in no order.
    pub random_read_gb_per_s: f64,
    /// `sequential-write`: GB/s of writes in order.
    pub sequential_write_gb_per_s: f64,
    /// `random-write`: GB/s of writes of lines in no order.
    pub random_write_gb_per_s: f64,
    /// `persist`: nanoseconds from a line's flush until a fence may pass it.
    pub persist_ns: f64,
    /// `line`: bytes that the memory moves at a time inside. A line of the same or the following internal
    /// line as the one before it costs sequential bandwidth, any other random bandwidth.
    pub internal_line_bytes: usize,
    /// `cache`: bytes of the last-level cache, shared by all threads. A far line that was loaded by a lookup
    /// and not yet displaced by others costs nothing again.
    pub cache_bytes: usize,
    /// `overlap`: plain loads that are taken to overlap. 1 is the upper bound of plain execution,
    /// `misses_in_flight` the lower.
    pub plain_overlap: usize,
    /// `far=everything` instead of `far=registered`: whether all memory counts as far, and not only far
    /// pools and what was registered with [`count_as_far`](super::count_as_far).
    pub everywhere: bool,
}

impl FarMemory {
    /// As fast as what lies below: no latency, no limit but ten misses in flight.
    pub const UNLIMITED: FarMemory = FarMemory {
        latency_ns: 0.0,
        misses_in_flight: 10,
        sequential_read_gb_per_s: f64::INFINITY,
        random_read_gb_per_s: f64::INFINITY,
        sequential_write_gb_per_s: f64::INFINITY,
        random_write_gb_per_s: f64::INFINITY,
        persist_ns: 0.0,
        internal_line_bytes: LINE_BYTES,
        cache_bytes: 0,
        plain_overlap: 1,
        everywhere: false,
    };

    /// Intel Optane DC persistent memory of the same socket.
    ///
    /// Reads, line-fill buffers and cache: Psaropoulos et al., "Bridging the Latency Gap between NVM and
    /// DRAM for Latency-bound Operations" (DaMoN 2019), tables 1 and 2. Writes: the thesis "Replication in
    /// Hybrid Memory Databases", section 2.2: in order a fifth of reading in order, at random 42 % of
    /// reading at random, internal lines of 256 bytes; one thread writes about as fast as to DRAM, so a
    /// persist waits for bandwidth alone.
    pub const OPTANE: FarMemory = FarMemory {
        latency_ns: 300.0,
        sequential_read_gb_per_s: 36.0,
        random_read_gb_per_s: 10.0,
        sequential_write_gb_per_s: 7.2,
        random_write_gb_per_s: 4.2,
        internal_line_bytes: 256,
        cache_bytes: CASCADE_LAKE_CACHE_BYTES,
        ..FarMemory::UNLIMITED
    };

    /// Optane of another socket: latency 20 % above, bandwidth hardly less (the thesis, section 2.2.2).
    pub const REMOTE_OPTANE: FarMemory = FarMemory {
        latency_ns: 360.0,
        ..FarMemory::OPTANE
    };

    /// DRAM of another socket: latency 60 % above that of the own (the thesis, section 2.2.2), which is
    /// 73 ns, and its bandwidth, 110 GB/s in order and 100 at random (DaMoN 2019, table 1); writes three
    /// quarters of reads (the thesis, section 2.2.1). The sources give no figure for the link between the
    /// sockets, so none is modelled. [`FarMemory::remote_socket`] starts from a measured latency.
    pub const REMOTE_SOCKET: FarMemory = FarMemory {
        latency_ns: 116.8,
        sequential_read_gb_per_s: 110.0,
        random_read_gb_per_s: 100.0,
        sequential_write_gb_per_s: 82.5,
        random_write_gb_per_s: 75.0,
        cache_bytes: CASCADE_LAKE_CACHE_BYTES,
        ..FarMemory::UNLIMITED
    };

    /// Memory behind CXL: 250 ns, what Tierra's experiments assume of a first expander, and 32 GB/s in each
    /// direction, the raw rate of eight PCIe 5.0 lanes.
    pub const CXL: FarMemory = FarMemory {
        latency_ns: 250.0,
        sequential_read_gb_per_s: 32.0,
        random_read_gb_per_s: 32.0,
        sequential_write_gb_per_s: 32.0,
        random_write_gb_per_s: 32.0,
        cache_bytes: CASCADE_LAKE_CACHE_BYTES,
        ..FarMemory::UNLIMITED
    };

    /// The presets by name, as texts and `tierra.emulate` know them.
    pub const PRESETS: [(&'static str, FarMemory); 4] = [
        ("optane", FarMemory::OPTANE),
        ("remote-optane", FarMemory::REMOTE_OPTANE),
        ("remote-socket", FarMemory::REMOTE_SOCKET),
        ("cxl", FarMemory::CXL),
    ];

    /// The DRAM of another socket, where that of the own has this latency
    /// ([`measure::region`](crate::measure::region) measures it).
    pub fn remote_socket(near_latency_ns: f64) -> FarMemory {
        FarMemory {
            latency_ns: near_latency_ns * 1.6,
            ..FarMemory::REMOTE_SOCKET
        }
    }

    /// The same with plain execution's lower bound instead of its upper.
    pub fn plain_lower_bound(self) -> FarMemory {
        FarMemory {
            plain_overlap: self.misses_in_flight,
            ..self
        }
    }

    /// Most misses in flight.
    pub const MAX_MISSES: usize = 64;
    /// Largest last-level cache.
    pub const MAX_CACHE_BYTES: usize = 256 << 20;

    /// Whether it can be emulated.
    ///
    /// # Errors
    /// [`EmulationError::Senseless`] names the first field that cannot.
    pub fn check(&self) -> Result<(), EmulationError> {
        const MAX_NS: f64 = 1e9;
        const MIN_GB_PER_S: f64 = 0.001;
        let senseless = |field, value: String, expected: &str| {
            Err(EmulationError::Senseless {
                field,
                value,
                expected: expected.into(),
            })
        };
        for (field, ns) in [("latency", self.latency_ns), ("persist", self.persist_ns)] {
            if !(0.0..=MAX_NS).contains(&ns) {
                return senseless(field, format!("{ns}ns"), "0 ns to 1 s");
            }
        }
        for (field, rate) in [
            ("sequential", self.sequential_read_gb_per_s),
            ("random", self.random_read_gb_per_s),
            ("sequential-write", self.sequential_write_gb_per_s),
            ("random-write", self.random_write_gb_per_s),
        ] {
            if rate.is_nan() || rate < MIN_GB_PER_S {
                let expected = "at least 0.001 GB/s, or unlimited";
                return senseless(field, format!("{rate}GB/s"), expected);
            }
        }
        for (field, rate, faster, than) in [
            (
                "random",
                self.random_read_gb_per_s,
                self.sequential_read_gb_per_s,
                "sequential",
            ),
            (
                "random-write",
                self.random_write_gb_per_s,
                self.sequential_write_gb_per_s,
                "sequential-write",
            ),
        ] {
            if rate > faster {
                let expected = format!("no more than {than}={faster}GB/s");
                return senseless(field, format!("{rate}GB/s"), &expected);
            }
        }
        let count = |field, value: usize, least: usize, most: usize| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                senseless(field, value.to_string(), &format!("{least} to {most}"))
            }
        };
        count("misses", self.misses_in_flight, 1, FarMemory::MAX_MISSES)?;
        count("overlap", self.plain_overlap, 1, self.misses_in_flight)?;
        count("cache", self.cache_bytes, 0, FarMemory::MAX_CACHE_BYTES)?;
        count("line", self.internal_line_bytes, LINE_BYTES, 4096)?;
        if !self.internal_line_bytes.is_power_of_two() {
            let value = self.internal_line_bytes.to_string();
            return senseless("line", value, "a power of two");
        }
        Ok(())
    }
}

/// 38.5 MiB: the last-level cache of the machine whose figures the presets take.
const CASCADE_LAKE_CACHE_BYTES: usize = 77 << 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_can_be_emulated_and_say_what_their_sources_say() {
        for (_, preset) in FarMemory::PRESETS {
            preset.check().unwrap();
            preset.plain_lower_bound().check().unwrap();
        }
        let optane = FarMemory::OPTANE;
        assert_eq!(
            optane.sequential_write_gb_per_s,
            optane.sequential_read_gb_per_s / 5.0
        );
        assert_eq!(
            optane.random_write_gb_per_s,
            optane.random_read_gb_per_s * 0.42
        );
        assert_eq!(FarMemory::REMOTE_OPTANE.latency_ns, optane.latency_ns * 1.2);
        let remote = FarMemory::remote_socket(73.0);
        assert!((remote.latency_ns - FarMemory::REMOTE_SOCKET.latency_ns).abs() < 1e-9);
        assert_eq!(optane.cache_bytes as f64, 38.5 * (1 << 20) as f64);
    }

    #[test]
    fn senseless_settings_are_named() {
        let with = |change: fn(&mut FarMemory)| {
            let mut far = FarMemory::OPTANE;
            change(&mut far);
            far.check().unwrap_err().to_string()
        };
        for (message, field) in [
            (with(|far| far.latency_ns = -1.0), "latency=-1ns"),
            (with(|far| far.latency_ns = 1.000_001e9), "latency="),
            (with(|far| far.latency_ns = f64::NAN), "latency=NaN"),
            (with(|far| far.persist_ns = f64::INFINITY), "persist=inf"),
            (with(|far| far.random_read_gb_per_s = 0.0), "random=0GB/s"),
            (with(|far| far.random_read_gb_per_s = 36.1), "random=36.1"),
            (
                with(|far| far.sequential_write_gb_per_s = -5.0),
                "sequential-write=-5",
            ),
            (
                with(|far| far.random_write_gb_per_s = f64::NAN),
                "random-write=NaN",
            ),
            (with(|far| far.misses_in_flight = 0), "misses=0"),
            (with(|far| far.misses_in_flight = 65), "misses=65"),
            (with(|far| far.plain_overlap = 0), "overlap=0"),
            (with(|far| far.plain_overlap = 11), "overlap=11"),
            (with(|far| far.cache_bytes = (256 << 20) + 1), "cache="),
            (with(|far| far.internal_line_bytes = 32), "line=32"),
            (with(|far| far.internal_line_bytes = 192), "line=192"),
        ] {
            assert!(message.contains(field), "{message}: {field}");
        }
        let boundary = FarMemory {
            latency_ns: 1e9,
            misses_in_flight: 64,
            plain_overlap: 64,
            cache_bytes: 256 << 20,
            internal_line_bytes: 4096,
            ..FarMemory::OPTANE
        };
        boundary.check().unwrap();
    }
}
