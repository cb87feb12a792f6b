//! Several memories at once: each with its own speed, those of another socket, and channels that near and far memory share.

use std::cell::RefCell;

use tierra_interleave::Execution;
use tierra_memory::emulation::{FarDevice, FarMemory, run_on};
use tierra_memory::measure::Chase;
use tierra_memory::topology::SocketId;
use tierra_memory::{LINE_BYTES, Region};

use super::bench::{Bench, at_once, chased};
use super::blocks::{LONG_BYTES, scanned};
use super::{CHANNELS, PLACES, SOCKETS, WHO};
use crate::error::{Context, LabError};

/// Bytes of each memory.
const PLACE_BYTES: usize = 64 << 20;
/// Bytes scanned at a time.
const SCAN_BYTES: usize = 256 << 10;

impl Bench {
    pub(super) fn places(&mut self, region: &mut Region) -> Result<(), LabError> {
        let bytes = PLACE_BYTES.min(region.len() / 4);
        let (first, rest) = region.split_at_mut(bytes);
        let (second, near) = rest.split_at_mut(bytes);
        self.two_memories(first, second)?;
        self.another_socket(first)?;
        self.shared_channels(first, &mut near[..bytes])
    }

    /// Each has its own latency, and its own misses in flight.
    fn two_memories(&mut self, first: &mut [u8], second: &mut [u8]) -> Result<(), LabError> {
        let slow = |latency_ns: f64, misses_in_flight: usize| FarMemory {
            latency_ns,
            remote_latency_ns: latency_ns,
            misses_in_flight,
            ..FarMemory::UNLIMITED
        };
        for (part, name, far) in [
            (&mut *first, "one", slow(250.0, 5)),
            (&mut *second, "the other", slow(800.0, 16)),
        ] {
            // The other one lives as well, and does not matter.
            let other = FarDevice::new(slow(5000.0, 1)).by(WHO, "describing a memory")?;
            let device = FarDevice::new(far).by(WHO, "describing a memory")?;
            let range = device.count(part).by(WHO, "counting memory")?;
            let chase = RefCell::new(Chase::new(part));
            for (execution, loads, asked_ns) in [
                (Execution::Plain, 1, far.latency_ns),
                (
                    Execution::Interleaved,
                    64,
                    far.latency_ns / far.misses_in_flight as f64,
                ),
            ] {
                let sides = chased(&chase, execution, loads);
                let setting = format!("{name}, {execution}");
                let on = FarMemory::UNLIMITED;
                self.compare(PLACES, &setting, asked_ns, on, [&sides.0, &sides.1])?;
            }
            drop((range, device, other));
        }
        Ok(())
    }

    /// From another socket there is another latency, and the link's bandwidth.
    fn another_socket(&mut self, part: &mut [u8]) -> Result<(), LabError> {
        let far = FarMemory {
            latency_ns: 250.0,
            remote_latency_ns: 400.0,
            sequential_read_gb_per_s: 4.0,
            random_read_gb_per_s: 4.0,
            link_gb_per_s: 1.0,
            socket: SocketId(1),
            ..FarMemory::UNLIMITED
        };
        let device = FarDevice::new(far).by(WHO, "describing a memory")?;
        let range = device.count(part).by(WHO, "counting memory")?;
        let chase = RefCell::new(Chase::new(part));
        for (socket, name, latency_ns, rate) in
            [(0, "remote", 400.0, 1.0), (1, "local", 250.0, 4.0)]
        {
            let before = run_on(SocketId(socket));
            let on = FarMemory::UNLIMITED;
            let sides = chased(&chase, Execution::Plain, 1);
            let setting = format!("{name} chase");
            self.compare(SOCKETS, &setting, latency_ns, on, [&sides.0, &sides.1])?;
            let sides = chased(&chase, Execution::Interleaved, 64);
            let asked_ns = (LINE_BYTES as f64 / rate).max(latency_ns / far.misses_in_flight as f64);
            let setting = format!("{name} loads, 64 interleaved");
            self.compare(SOCKETS, &setting, asked_ns, on, [&sides.0, &sides.1])?;
            run_on(before);
        }
        drop(range);
        Ok(())
    }

    /// Near and far memory together move no more than their channels.
    fn shared_channels(&mut self, first: &mut [u8], near: &mut [u8]) -> Result<(), LabError> {
        let far = FarMemory {
            sequential_read_gb_per_s: 1.5,
            random_read_gb_per_s: 1.5,
            channels_gb_per_s: 2.0,
            ..FarMemory::UNLIMITED
        };
        let range = tierra_memory::emulation::count_as_far(first);
        let near_alone = || scanned(&near[..SCAN_BYTES]);
        let far_alone = || scanned(&first[..SCAN_BYTES]);
        let both = || {
            let (_, ns) = at_once([&mut || scanned(&first[..LONG_BYTES]), &mut || {
                scanned(&near[..LONG_BYTES])
            }]);
            ns / (2 * LONG_BYTES) as f64
        };
        self.compare(
            CHANNELS,
            "near alone, 2 GB/s",
            1.0 / 2.0,
            far,
            [&near_alone, &near_alone],
        )?;
        self.compare(
            CHANNELS,
            "far alone, 1.5 GB/s",
            1.0 / 1.5,
            far,
            [&far_alone, &far_alone],
        )?;
        self.compare(
            CHANNELS,
            "both, 2 GB/s together",
            1.0 / 2.0,
            far,
            [&both, &both],
        )?;
        drop(range);
        Ok(())
    }
}
