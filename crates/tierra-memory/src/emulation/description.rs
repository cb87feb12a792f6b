//! What far memory is like.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use super::EmulationError;
use super::numbers::MAX_SOCKETS;
use crate::LINE_BYTES;
use crate::topology::SocketId;

/// Far memory as lookups, scans and writes feel it.
///
/// Made from a preset or from text (`"optane"`, `"cxl,cache=0B"`, `"latency=500ns,random=4GB/s"`); the text
/// form names each field as shown below. Bandwidths are of the whole memory, shared by all threads;
/// infinite ones limit nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarMemory {
    /// `latency`: nanoseconds from a load's issue to its line, for threads of the same socket.
    pub latency_ns: f64,
    /// `remote-latency`: the same for threads of other sockets.
    pub remote_latency_ns: f64,
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
    /// `link`: GB/s of the link between sockets in each direction, for threads of other sockets.
    pub link_gb_per_s: f64,
    /// `channels`: GB/s of the memory channels that this memory shares with near memory of its socket. All that is
    /// read or written of both together takes no more. While it is finite, near blocks are charged as well.
    pub channels_gb_per_s: f64,
    /// `cores`: cores that reached these bandwidths together; 0 if they are not known to need more than one.
    pub cores: usize,
    /// `scale`: how much of the bandwidths this process has.
    pub scale: Scale,
    /// `persist`: nanoseconds from a line's flush until a fence may pass it.
    pub persist_ns: f64,
    /// `line`: bytes that the memory moves at a time inside. A line of the same or the following internal
    /// line as the one before it costs sequential bandwidth, any other random bandwidth.
    pub internal_line_bytes: usize,
    /// `cache`: bytes of the last-level cache, shared by all threads and all far memories. A far line that was loaded by
    /// a lookup, or stored to, and not yet displaced by others costs nothing again. The cache is as large as that of
    /// the far memory that was described to [`set`](super::set).
    pub cache_bytes: usize,
    /// `overlap`: plain loads that are taken to overlap. 1 is the upper bound of plain execution,
    /// `misses_in_flight` the lower.
    pub plain_overlap: usize,
    /// `socket`: the socket that it belongs to.
    pub socket: SocketId,
    /// `far=everything` instead of `far=registered`: whether all memory counts as far, and not only far
    /// pools and what was registered with [`count_as_far`](super::count_as_far).
    pub everywhere: bool,
}

/// How much of a memory's bandwidth this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// `share`: as much as its cores have of the cores that the bandwidth was measured with. Two of 24 cores have a
    /// twelfth. For figures that use all cores of the modelled machine.
    Share,
    /// `whole`: all. For figures of one thread, which the other cores leave the memory to.
    Whole,
}

impl FarMemory {
    /// As fast as what lies below: no latency, no limit but ten misses in flight.
    pub const UNLIMITED: FarMemory = FarMemory {
        latency_ns: 0.0,
        remote_latency_ns: 0.0,
        misses_in_flight: 10,
        sequential_read_gb_per_s: f64::INFINITY,
        random_read_gb_per_s: f64::INFINITY,
        sequential_write_gb_per_s: f64::INFINITY,
        random_write_gb_per_s: f64::INFINITY,
        link_gb_per_s: f64::INFINITY,
        channels_gb_per_s: f64::INFINITY,
        cores: 0,
        scale: Scale::Whole,
        persist_ns: 0.0,
        internal_line_bytes: LINE_BYTES,
        cache_bytes: 0,
        plain_overlap: 1,
        socket: SocketId(0),
        everywhere: false,
    };

    /// The same with plain execution's lower bound instead of its upper.
    pub fn plain_lower_bound(self) -> FarMemory {
        FarMemory {
            plain_overlap: self.misses_in_flight,
            ..self
        }
    }

    /// The same with all its bandwidth for this process.
    pub const fn whole(self) -> FarMemory {
        FarMemory {
            scale: Scale::Whole,
            ..self
        }
    }

    /// What threads of a socket feel: latency and bandwidths without a share, a link or a socket left to be
    /// taken into account.
    pub fn as_seen_from(&self, socket: SocketId) -> FarMemory {
        let share = self.share();
        let is_remote = socket != self.socket;
        let link = if is_remote {
            self.link_gb_per_s
        } else {
            f64::INFINITY
        };
        let limit = self.channels_gb_per_s.min(link);
        let rate = |gb_per_s: f64| gb_per_s.min(limit) * share;
        FarMemory {
            latency_ns: self.latency_from(socket),
            sequential_read_gb_per_s: rate(self.sequential_read_gb_per_s),
            random_read_gb_per_s: rate(self.random_read_gb_per_s),
            sequential_write_gb_per_s: rate(self.sequential_write_gb_per_s),
            random_write_gb_per_s: rate(self.random_write_gb_per_s),
            link_gb_per_s: f64::INFINITY,
            channels_gb_per_s: f64::INFINITY,
            scale: Scale::Whole,
            ..*self
        }
    }

    /// Nanoseconds from a load's issue to its line for threads of a socket.
    pub(super) fn latency_from(&self, socket: SocketId) -> f64 {
        if socket == self.socket {
            self.latency_ns
        } else {
            self.remote_latency_ns
        }
    }

    /// The share of the bandwidths that this process has, over 0 to 1.
    pub(super) fn share(&self) -> f64 {
        if self.scale == Scale::Whole || self.cores == 0 {
            return 1.0;
        }
        (cores() as f64 / self.cores as f64).min(1.0)
    }

    /// Most misses in flight.
    pub const MAX_MISSES: usize = 64;
    /// Most cores that a bandwidth is shared among.
    pub const MAX_CORES: usize = 4096;
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
        for (field, ns) in [
            ("latency", self.latency_ns),
            ("remote-latency", self.remote_latency_ns),
            ("persist", self.persist_ns),
        ] {
            if !(0.0..=MAX_NS).contains(&ns) {
                return senseless(field, format!("{ns}ns"), "0 ns to 1 s");
            }
        }
        for (field, rate) in [
            ("sequential", self.sequential_read_gb_per_s),
            ("random", self.random_read_gb_per_s),
            ("sequential-write", self.sequential_write_gb_per_s),
            ("random-write", self.random_write_gb_per_s),
            ("link", self.link_gb_per_s),
            ("channels", self.channels_gb_per_s),
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
        count("cores", self.cores, 0, FarMemory::MAX_CORES)?;
        count("socket", usize::from(self.socket.0), 0, MAX_SOCKETS - 1)?;
        if !self.internal_line_bytes.is_power_of_two() {
            let value = self.internal_line_bytes.to_string();
            return senseless("line", value, "a power of two");
        }
        Ok(())
    }
}

/// Cores that the process may use, counted once. A thread that is bound to one of them later has its share of all.
pub(super) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    fn threads_bound_to_a_core_share_what_the_process_has() {
        let far = FarMemory {
            cores: cores() * 10,
            ..FarMemory::OPTANE
        };
        // On a thread of its own: the mask would stay with the test runner's.
        let bound = std::thread::spawn(move || {
            let allowed = sched_getaffinity(None).unwrap();
            let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
            let mut one = CpuSet::new();
            one.set(cpus.next().unwrap());
            sched_setaffinity(None, &one).unwrap();
            far.share()
        });
        assert_eq!(bound.join().unwrap(), 0.1);
    }

    #[test]
    fn a_process_has_the_share_of_its_cores() {
        let far = FarMemory {
            cores: cores() * 10,
            scale: Scale::Share,
            ..FarMemory::OPTANE
        };
        let felt = far.as_seen_from(far.socket);
        assert!((felt.sequential_read_gb_per_s - 3.6).abs() < 1e-9);
        assert!((felt.random_write_gb_per_s - 0.42).abs() < 1e-9);
        assert_eq!(
            far.whole().as_seen_from(far.socket).random_read_gb_per_s,
            10.0
        );
        let fewer = FarMemory { cores: 1, ..far };
        assert_eq!(fewer.as_seen_from(far.socket).random_read_gb_per_s, 10.0);
        assert_eq!(FarMemory { cores: 0, ..far }.share(), 1.0);
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
