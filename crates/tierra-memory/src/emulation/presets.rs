//! Presets: far memories as they were measured, each with its source.
//!
//! | short | source |
//! |---|---|
//! | DaMoN | Psaropoulos et al., "Bridging the Latency Gap between NVM and DRAM for Latency-bound Operations" (DaMoN 2019), tables 1 and 2: one socket, 28 cores |
//! | thesis | "Replication in Hybrid Memory Databases", section 2.2: two sockets of 24 cores |
//! | CZ120 | Micron's figure for its CXL 2.0 expander of eight PCIe 5.0 lanes: 36 GB/s, two reads to a write |

use super::description::{FarMemory, Scale};
use crate::topology::SocketId;

impl FarMemory {
    /// Intel Optane DC persistent memory of the same socket.
    ///
    /// DaMoN: latency, reads, line-fill buffers, cache, cores. Thesis: writes in order at a fifth of reading in
    /// order, at random at 42 % of reading at random; internal lines of 256 bytes; from another socket latency 20 %
    /// above, and hardly less bandwidth, as the link's is about that of the modules; near and far together never
    /// above near alone (DaMoN's 110 GB/s). `persist` is fitted to figure 2.13: one thread that updates 4 bytes at random
    /// and flushes each takes about 24 % longer than on DRAM.
    pub const OPTANE: FarMemory = FarMemory {
        latency_ns: 300.0,
        remote_latency_ns: 360.0,
        sequential_read_gb_per_s: 36.0,
        random_read_gb_per_s: 10.0,
        sequential_write_gb_per_s: 7.2,
        random_write_gb_per_s: 4.2,
        link_gb_per_s: 36.0,
        channels_gb_per_s: 110.0,
        cores: 28,
        scale: Scale::Share,
        persist_ns: 90.0,
        internal_line_bytes: 256,
        cache_bytes: CASCADE_LAKE_CACHE_BYTES,
        ..FarMemory::UNLIMITED
    };

    /// [`FarMemory::OPTANE`] of another socket than that on which threads run by default.
    pub const REMOTE_OPTANE: FarMemory = FarMemory {
        socket: SocketId(1),
        ..FarMemory::OPTANE
    };

    /// DRAM of another socket than that on which threads run by default.
    ///
    /// DaMoN: latency and bandwidth of the own. Thesis: latency from another socket 60 % above; reading in order bound
    /// by the link, whose bandwidth is about that of reading Optane in order; writes three quarters of reads.
    /// [`FarMemory::remote_socket`] starts from a measured latency.
    pub const REMOTE_SOCKET: FarMemory = FarMemory {
        latency_ns: 73.0,
        remote_latency_ns: 116.8,
        sequential_read_gb_per_s: 110.0,
        random_read_gb_per_s: 100.0,
        sequential_write_gb_per_s: 82.5,
        random_write_gb_per_s: 75.0,
        link_gb_per_s: 36.0,
        cores: 28,
        scale: Scale::Share,
        cache_bytes: CASCADE_LAKE_CACHE_BYTES,
        socket: SocketId(1),
        ..FarMemory::UNLIMITED
    };

    /// A memory expander behind CXL 2.0.
    ///
    /// CZ120: bandwidth. Assumed, as its source names neither: 250 ns, which is about what remote DRAM and a
    /// controller take, and the 32 cores of a socket to reach the bandwidth.
    pub const CXL: FarMemory = FarMemory {
        latency_ns: 250.0,
        remote_latency_ns: 293.8,
        sequential_read_gb_per_s: 36.0,
        random_read_gb_per_s: 36.0,
        sequential_write_gb_per_s: 36.0,
        random_write_gb_per_s: 36.0,
        link_gb_per_s: 36.0,
        cores: 32,
        scale: Scale::Share,
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
            latency_ns: near_latency_ns,
            remote_latency_ns: near_latency_ns * 1.6,
            ..FarMemory::REMOTE_SOCKET
        }
    }
}

/// 38.5 MiB: the last-level cache of the machine whose figures the presets take (DaMoN).
const CASCADE_LAKE_CACHE_BYTES: usize = 77 << 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_can_be_emulated_and_say_what_their_sources_say() {
        for (_, preset) in FarMemory::PRESETS {
            preset.check().unwrap();
            preset.plain_lower_bound().check().unwrap();
            assert!(preset.cores > 0 && preset.scale == Scale::Share);
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
        assert_eq!(optane.remote_latency_ns, optane.latency_ns * 1.2);
        assert!(optane.persist_ns > 0.0);
        let remote = FarMemory::remote_socket(73.0);
        let preset = FarMemory::REMOTE_SOCKET;
        assert!((remote.remote_latency_ns - preset.remote_latency_ns).abs() < 1e-9);
        assert_eq!(optane.cache_bytes as f64, 38.5 * (1 << 20) as f64);
        // From socket 0, which is where threads are by default, the remote ones are remote.
        let felt = FarMemory::REMOTE_OPTANE.whole().as_seen_from(SocketId(0));
        assert_eq!(
            (felt.latency_ns, felt.sequential_read_gb_per_s),
            (360.0, 36.0)
        );
        let felt = preset.whole().as_seen_from(SocketId(0));
        assert_eq!(
            (felt.latency_ns, felt.sequential_read_gb_per_s),
            (116.8, 36.0)
        );
        let felt = preset.whole().as_seen_from(SocketId(1));
        assert_eq!(
            (felt.latency_ns, felt.sequential_read_gb_per_s),
            (73.0, 110.0)
        );
    }
}
