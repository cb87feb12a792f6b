//! One core of the modelled machine: what it has under way, of every far memory.
//!
//! Everything is computed from the times given in, so that tests need no clock.
//!
//! # Stores
//! A store to a far line that the modelled cache lacks asks for the line, as a load does, and is done when it has
//! arrived; a streaming store does not, but the memory itself reads a line that is written in part. A line that
//! follows the one stored before was prefetched: it costs bandwidth and no latency. What is stored is written back
//! when it is flushed, or at once if no flush follows; the core waits for that only if more is on its way than
//! a memory controller's queue holds. A flush also takes the line out of the cache, as both instructions do on the machines
//! that the presets come from. The line of the first store behind a fence is asked for while the core still waits for the
//! fence, from its flush on, because stores that do not depend on each other fit into one reorder window.

use super::cache;
use super::channel::Route;
use super::costs::TickCosts;
use super::far;
use super::lines::Lines;
use super::misses::Misses;
use super::numbers::{DEFAULT, MAX_DEVICES, NEAR};
use super::prefetched::Prefetched;
use super::streams::Streams;
use crate::LINE_BYTES;

/// How bytes reach memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Stored into the cache, and written back when the cache likes.
    Cached,
    /// Stored into the cache, and flushed.
    Flushed,
    /// Streamed past the cache.
    Streamed,
    /// Written in order by something that prefetches and writes back by itself: a bulk copy.
    InBulk,
}

/// What one core has under way.
pub(super) struct Core {
    devices: [Device; MAX_DEVICES],
    streams: Streams,
    prefetched: Prefetched,
    /// Whether memory outside all counted ranges belongs to the default far memory.
    everywhere: bool,
    cache_sets: usize,
    /// The memory of the load issued last.
    loaded: usize,
    /// The line stored last.
    stored_last: u64,
    /// When it last flushed.
    flushed: u64,
    /// When it flushed before its last fence, and when it went on behind that.
    fence: [u64; 2],
    /// When the writes since the last fence will be durable.
    durable_at: u64,
}

/// One far memory, as this core feels it.
struct Device {
    costs: TickCosts,
    route: Route,
    misses: Misses,
    /// The internal line written last.
    written: u64,
}

impl Device {
    const fn new(costs: TickCosts) -> Device {
        Device {
            costs,
            route: Route::of(NEAR, 0),
            misses: Misses::new(),
            written: u64::MAX - 1,
        }
    }
}

impl Core {
    pub(super) const fn new() -> Core {
        Core {
            devices: [const { Device::new(TickCosts::NONE) }; MAX_DEVICES],
            streams: Streams::new(),
            prefetched: Prefetched::new(),
            everywhere: false,
            cache_sets: 0,
            loaded: DEFAULT,
            stored_last: u64::MAX - 1,
            flushed: 0,
            fence: [0; 2],
            durable_at: 0,
        }
    }

    /// The same core at other costs, with nothing under way.
    pub(super) fn restart(
        &mut self,
        costs: &[TickCosts; MAX_DEVICES],
        everywhere: bool,
        cache_sets: usize,
    ) {
        *self = Core::new();
        for (number, (device, costs)) in self.devices.iter_mut().zip(costs).enumerate() {
            device.costs = *costs;
            device.route = Route::of(number, costs.socket);
        }
        self.everywhere = everywhere;
        self.cache_sets = cache_sets;
    }

    /// Whether a cache is modelled.
    pub(super) fn has_cache(&self) -> bool {
        self.cache_sets > 0
    }

    /// The number of the memory that an address belongs to.
    #[inline]
    fn device_of(&self, address: usize) -> usize {
        match far::device(address) {
            NEAR if self.everywhere => DEFAULT,
            device => device,
        }
    }

    /// A load issued; returns when the last of its lines arrives, 0 if all are near.
    #[inline]
    pub(super) fn load(
        &mut self,
        address: usize,
        len_bytes: usize,
        clock: impl Fn() -> u64,
    ) -> u64 {
        let number = self.device_of(address);
        let Device {
            costs,
            route,
            misses,
            ..
        } = &mut self.devices[number];
        if costs.free_loads || number == NEAR {
            return 0;
        }
        self.loaded = number;
        let sets = &cache::SETS[..self.cache_sets];
        let (mut now, mut arrives) = (None, 0);
        cache::touch(sets, Lines::of(address, len_bytes), |lines| {
            let now = *now.get_or_insert_with(&clock);
            arrives = misses.issue(costs, *route, lines, now, costs.latency);
        });
        arrives
    }

    /// When the load arrives that a plain load waits for: the last, or an earlier one where several are taken to overlap.
    pub(super) fn held_up_until(&self) -> u64 {
        let device = &self.devices[self.loaded];
        device.misses.held_up_until(&device.costs)
    }

    /// What the model will need to know of an object is fetched.
    pub(super) fn prepare(&self, address: usize, len_bytes: usize) {
        cache::prepare(
            &cache::SETS[..self.cache_sets],
            Lines::of(address, len_bytes),
        );
    }

    /// The beginning of a block that will be read in order is asked for: it is on its way from now on.
    pub(super) fn prefetch(&mut self, address: usize, len_bytes: usize, clock: impl Fn() -> u64) {
        if self.prefetched.has(address) {
            return;
        }
        let arrives = self.transfer(address, len_bytes, clock);
        if arrives != 0 {
            self.prefetched.note(address, address + len_bytes, arrives);
        }
    }

    /// A block read in order; returns when it has been transferred, 0 if nothing limits it.
    pub(super) fn read(
        &mut self,
        address: usize,
        len_bytes: usize,
        clock: impl Fn() -> u64,
    ) -> u64 {
        let Some((prefetched_until, arrives)) = self.prefetched.take(address) else {
            return self.transfer(address, len_bytes, clock);
        };
        let rest_bytes = (address + len_bytes).saturating_sub(prefetched_until);
        if rest_bytes == 0 {
            return arrives;
        }
        let rest = self.transfer(prefetched_until, rest_bytes, clock);
        arrives.max(rest)
    }

    fn transfer(&mut self, address: usize, len_bytes: usize, clock: impl Fn() -> u64) -> u64 {
        let number = self.device_of(address);
        let Device { costs, route, .. } = &self.devices[number];
        if costs.free_loads && !costs.passes_others {
            return 0;
        }
        let continues = self.streams.continues(address, address + len_bytes);
        let sets = &cache::SETS[..self.cache_sets];
        let bytes = match cache::has_fetched() {
            false => len_bytes as u64,
            true => {
                let missing = cache::missing(sets, Lines::of(address, len_bytes));
                (missing * LINE_BYTES as u64).min(len_bytes as u64)
            }
        };
        if bytes == 0 {
            return 0;
        }
        let now = clock();
        let passed = [
            (&route.device.reads, costs.reads.sequential),
            (&route.link.reads, costs.link),
            (route.shared, costs.channels),
        ];
        let through = passed.map(|(channel, rate)| channel.pass(now, rate.ticks(bytes)));
        let latency = if continues { 0 } else { costs.latency };
        through.into_iter().max().unwrap_or(now) + latency
    }

    /// Leaves a block, which has arrived, in the cache for other cores' reads.
    pub(super) fn leave_cached(&self, address: usize, len_bytes: usize) {
        let sets = &cache::SETS[..self.cache_sets];
        cache::touch(sets, Lines::of(address, len_bytes), |_| {});
        cache::note_fetched();
    }

    /// Bytes stored; returns until when the core waits for them: for what is flushed, streamed or in bulk, until they are
    /// durable.
    pub(super) fn store(
        &mut self,
        address: usize,
        len_bytes: usize,
        how: Stored,
        clock: impl Fn() -> u64,
    ) -> u64 {
        let number = self.device_of(address);
        if number == NEAR && !self.devices[NEAR].costs.passes_others {
            return 0;
        }
        let now = clock();
        let lines = Lines::of(address, len_bytes);
        let follows = lines.first.wrapping_sub(self.stored_last) <= 1;
        self.stored_last = lines.last();
        let sets = &cache::SETS[..self.cache_sets];
        let Device {
            costs,
            route,
            misses,
            written,
        } = &mut self.devices[number];
        let (mut owned, mut missed) = (now, 0);
        match how {
            Stored::Cached | Stored::Flushed if number != NEAR => {
                let asked = match self.fence {
                    [flushed, ended] if now.saturating_sub(ended) <= costs.ahead => {
                        flushed.min(now)
                    }
                    _ => now,
                };
                let latency = if follows { 0 } else { costs.latency };
                cache::touch(sets, lines, |lines| {
                    let arrives = misses.issue(costs, *route, lines, asked, latency);
                    owned = owned.max(arrives);
                    missed += lines.count;
                });
            }
            Stored::Streamed => {
                let is_cut = !(address | (address + len_bytes)).is_multiple_of(LINE_BYTES);
                if is_cut && !follows {
                    owned += costs.latency;
                }
            }
            _ => {}
        }
        if matches!(how, Stored::Flushed | Stored::Streamed) {
            cache::remove(sets, lines);
            self.flushed = now;
        }
        // A line that was owned already is written back once more only if it is flushed.
        let count = if how == Stored::Cached && number != NEAR {
            missed
        } else {
            lines.count
        };
        if count == 0 {
            return owned;
        }
        let line_bytes = LINE_BYTES as u64;
        let in_order = (lines.first >> costs.internal_shift).wrapping_sub(*written) <= 1;
        *written = lines.last() >> costs.internal_shift;
        let ticks = if in_order {
            costs.writes.sequential.ticks(count * line_bytes)
        } else {
            costs.writes.random.ticks(line_bytes)
                + costs.writes.sequential.ticks((count - 1) * line_bytes)
        };
        let bytes = count * line_bytes;
        let through = [
            route.device.writes.pass(owned, ticks),
            route.link.writes.pass(owned, costs.link.ticks(bytes)),
            route.shared.pass(owned, costs.channels.ticks(bytes)),
        ];
        let done = through.into_iter().max().unwrap_or(owned);
        if how == Stored::Cached {
            return owned.max(done.saturating_sub(costs.write_queue));
        }
        let durable = done + costs.persist;
        self.durable_at = self.durable_at.max(durable);
        durable
    }

    /// Until when a fence waits.
    pub(super) fn durable_at(&mut self) -> u64 {
        std::mem::take(&mut self.durable_at)
    }

    /// A fence was over.
    pub(super) fn fenced(&mut self, ended: u64) {
        self.fence = [self.flushed, ended];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1 << 20;

    /// A core on a clock of a gigahertz, whose usual far memory is all memory, and shares nothing with other tests.
    fn core(far: &str) -> Core {
        let mut costs = [TickCosts::NONE; MAX_DEVICES];
        costs[DEFAULT] = TickCosts::in_ns(far);
        let mut core = Core::new();
        core.restart(&costs, true, 0);
        for device in &mut core.devices {
            device.route = Route::alone();
        }
        core
    }

    fn line(at: usize) -> usize {
        (1 << 30) + at * LINE_BYTES
    }

    #[test]
    fn a_scan_takes_its_bandwidth_and_one_latency() {
        let mut core = core("latency=300,sequential=8GB/s,random=8GB/s");
        let mut now = NOW;
        for block in 0..100 {
            now = core.read((1 << 30) + block * 2048, 2048, || now);
        }
        assert_eq!(now, NOW + 300 + 100 * 2048 / 8);
    }

    #[test]
    fn what_was_prefetched_is_on_its_way_meanwhile() {
        let mut core = core("latency=300,sequential=8GB/s,random=8GB/s");
        let block = |at: usize| (1 << 30) + at * 2048;
        let read = NOW + 300 + 256;
        assert_eq!(core.read(block(0), 2048, || NOW), read);
        core.prefetch(block(1), 512, || read);
        core.prefetch(block(1), 512, || read);
        // A quarter of it has arrived.
        let later = NOW + 1000;
        assert_eq!(core.read(block(1), 2048, || later), later + 192);
        // All of it is on its way, and is waited for.
        let never = || -> u64 { unreachable!("nothing is left to read") };
        core.prefetch(block(2), 2048, || later + 192);
        assert_eq!(core.read(block(2), 2048, never), later + 192 + 256);
        // Once.
        let again = NOW + 5000;
        assert_eq!(core.read(block(2), 2048, || again), again + 300 + 256);
    }

    #[test]
    fn scans_of_two_threads_share_the_bandwidth() {
        let setting = "sequential=8GB/s,random=8GB/s";
        let (mut one, mut other) = (core(setting), core(setting));
        other.devices[DEFAULT].route = one.devices[DEFAULT].route;
        let (mut now_one, mut now_other) = (NOW, NOW);
        for block in 0..100 {
            now_one = one.read((1 << 30) + block * 2048, 2048, || now_one);
            now_other = other.read((1 << 31) + block * 2048, 2048, || now_other);
        }
        assert_eq!(now_one.max(now_other), NOW + 200 * 2048 / 8);
    }

    #[test]
    fn what_comes_from_another_socket_passes_the_link() {
        // 8 GB/s of the memory, 2 GB/s of the link: a block of 2,048 bytes takes 1,024 ns instead of 256.
        let setting = "latency=100,remote-latency=160,sequential=8GB/s,random=8GB/s,link=2GB/s";
        let mut local = core(setting);
        assert_eq!(local.read(1 << 30, 2048, || NOW), NOW + 256 + 100);
        assert_eq!(local.load(1 << 31, 8, || NOW * 2), NOW * 2 + 100);
        let mut remote = core(&format!("{setting},socket=1"));
        assert_eq!(remote.read(1 << 30, 2048, || NOW), NOW + 1024 + 160);
        assert_eq!(remote.load(1 << 31, 8, || NOW * 2), NOW * 2 + 160);
        // 1,000 lines, ten at a time: the link's 32 ns a line are more than a tenth of the latency.
        let arrived = (0..1000)
            .map(|at| remote.load(line(at * 100), 8, || NOW * 3))
            .last();
        let each = (arrived.unwrap() - NOW * 3) as f64 / 1000.0;
        assert!((31.9..32.3).contains(&each), "{each}");
    }

    #[test]
    fn near_and_far_share_their_channels() {
        let far = "sequential=4GB/s,random=4GB/s,channels=8GB/s";
        let mut core = core(far);
        core.everywhere = false;
        core.devices[NEAR].costs = TickCosts {
            channels: core.devices[DEFAULT].costs.channels,
            passes_others: true,
            ..TickCosts::NONE
        };
        // Near alone: the channels' rate.
        let alone = core.read(1 << 30, 8192, || NOW);
        assert_eq!(alone, NOW + 1024);
        // Far reads take half of it, and near ones what is left.
        core.devices[DEFAULT].route.shared = core.devices[NEAR].route.shared;
        core.everywhere = true;
        let mut now = [NOW * 2; 2];
        for _ in 0..100 {
            core.everywhere = false;
            now[0] = core.read(1 << 30, 4096, || now[0]);
            core.everywhere = true;
            now[1] = core.read(1 << 31, 4096, || now[1]);
        }
        let (took, bytes) = (now[0].max(now[1]) - NOW * 2, 2 * 100 * 4096);
        let gb_per_s = bytes as f64 / took as f64;
        assert!((7.0..=8.0).contains(&gb_per_s), "{gb_per_s}");
    }

    #[test]
    fn flushes_cost_by_their_order_and_persist_once() {
        let setting = "sequential-write=4GB/s,random-write=1GB/s,line=256,persist=100";
        let mut core = core(setting);
        let mut flush = |at: usize, bytes: usize, now: u64| {
            core.store(line(at), bytes, Stored::Flushed, || now) - now
        };
        // A line by itself: 64 ticks, and the persist.
        assert_eq!(flush(0, 4, NOW), 164);
        // Its neighbour, in the same internal line: 16.
        assert_eq!(flush(1, 64, NOW + 1000), 116);
        // Far away, 64 again; the rest of a long run is in order.
        assert_eq!(flush(1000, 64 * 101, NOW + 2000), 1764);
        // Continuing that run.
        assert_eq!(flush(1101, 64 * 100, NOW + 9000), 1700);
        // Two flushes before one fence overlap but for the bandwidth.
        assert_eq!(flush(5000, 64, NOW + 20_000), 164);
        assert_eq!(flush(9000, 64, NOW + 20_000), 228);
        assert_eq!(core.durable_at(), NOW + 20_228);
        assert_eq!(core.durable_at(), 0);
    }

    #[test]
    fn a_store_waits_for_its_lines_unless_it_is_streamed() {
        let mut core = core("latency=300,misses=2,persist=50");
        let mut store =
            |at: usize, bytes: usize, how, now: u64| core.store(line(at), bytes, how, || now) - now;
        assert_eq!(store(0, 8, Stored::Cached, NOW), 300);
        assert_eq!(store(100, 8, Stored::Flushed, NOW + 1000), 350);
        // Three lines, two at a time.
        assert_eq!(store(200, 192, Stored::Cached, NOW + 2000), 600);
        // The line behind the one stored last was prefetched.
        assert_eq!(store(203, 8, Stored::Flushed, NOW + 4000), 50);
        assert_eq!(store(300, 64, Stored::Streamed, NOW + 5000), 50);
        assert_eq!(
            store(400, 4, Stored::Streamed, NOW + 6000),
            350,
            "the memory merges it"
        );
        assert_eq!(store(500, 64, Stored::InBulk, NOW + 7000), 50);
    }

    #[test]
    fn a_store_behind_a_fence_was_asked_for_during_it() {
        let mut core = core("latency=300,persist=50");
        let flush =
            |core: &mut Core, at: usize, now: u64| core.store(line(at), 8, Stored::Flushed, || now);
        assert_eq!(flush(&mut core, 0, NOW), NOW + 350);
        core.fenced(NOW + 350);
        assert_eq!(flush(&mut core, 100, NOW + 360), NOW + 360 + 50);
        core.fenced(NOW + 370);
        let late = NOW + 370 + 101;
        assert_eq!(flush(&mut core, 200, late), late + 350);
    }

    #[test]
    fn what_is_stored_and_not_flushed_is_written_back() {
        // 64 ns a line, and 64 lines of queue: the first stores do not wait.
        let mut core = core("random-write=1GB/s,sequential-write=1GB/s");
        let mut waited = 0;
        for at in 0..1000 {
            waited = core.store(line(at * 100), 8, Stored::Cached, || NOW) - NOW;
            assert_eq!(waited > 0, at >= 64, "{at}: {waited}");
        }
        assert_eq!(waited, (1000 - 64) * 64);
        assert_eq!(core.durable_at(), 0, "nobody asked for it");
    }

    #[test]
    fn a_load_of_several_lines_waits_for_the_last() {
        let mut core = core("latency=300,misses=2");
        assert_eq!(core.load(60, 4, || 1000), 1300, "one line");
        assert_eq!(core.load(60, 5, || 5000), 5300, "two lines in flight");
        assert_eq!(core.load(0, 192, || 9000), 9600, "the third has to queue");
    }

    #[test]
    fn near_and_free_loads_do_not_read_the_clock() {
        let never = || -> u64 { unreachable!("nothing to wait for") };
        let mut near = core("latency=300");
        near.everywhere = false;
        assert_eq!(near.load(1 << 20, 64, never), 0);
        assert_eq!(near.read(1 << 20, 64, never), 0);
        assert_eq!(near.store(1 << 20, 64, Stored::Flushed, never), 0);
        assert_eq!(core("misses=3").load(1 << 20, 64, never), 0);
    }
}
