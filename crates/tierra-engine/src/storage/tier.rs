//! A tier with an open pool.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tierra_memory::emulation::{self, FarDevice, FarMemory};
use tierra_memory::placement::LineTimes;
use tierra_memory::{CopyMethod, Pool};

use crate::spec::replicas::TierId;
use crate::storage::access::Access;

/// A tier with an open pool.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    pub(crate) id: TierId,
    pub(crate) name: Arc<str>,
    pub(crate) pool: Arc<Pool>,
    /// How scans reach its blocks, unless a session says otherwise.
    pub(crate) access: Access,
    /// What `auto` knows.
    auto: Arc<Mutex<Auto>>,
    /// How long reading its lines takes.
    pub(crate) lines: TierLines,
    /// The pool's fault epoch up to which all losses are noted ([`losses`](super::losses)).
    pub(crate) noted_epoch: Arc<AtomicU64>,
}

/// What `auto` knows of a tier.
#[derive(Debug, Default)]
struct Auto {
    measured: Option<Measured>,
    /// Bytes of scans that began without a measurement that counts.
    bytes: u64,
}

/// How blocks of a tier were reached the fastest.
#[derive(Clone, Copy, Debug)]
struct Measured {
    at: Instant,
    /// The far memory that was emulated.
    emulated: Option<FarMemory>,
    /// `None`: in place.
    method: Option<CopyMethod>,
}

/// How long a measurement counts: the page cache changes.
const MEASURED_FOR: Duration = Duration::from_secs(60);
/// Bytes that are scanned before the next measurement. It reads a hundredth of them, but waits for each alone: up to 3 ms on a
/// disk, where the scans take 100 ms or more.
const SCANNED_BEFORE: u64 = 128 << 20;

impl Auto {
    fn fastest(
        &mut self,
        emulated: Option<FarMemory>,
        bytes: impl FnOnce() -> u64,
        measure: impl FnOnce() -> Option<Option<CopyMethod>>,
    ) -> Option<CopyMethod> {
        let last = self.measured.filter(|last| last.emulated == emulated);
        if let Some(last) = last.filter(|last| last.at.elapsed() < MEASURED_FOR) {
            return last.method;
        }
        self.bytes = self.bytes.saturating_add(bytes());
        if self.bytes >= SCANNED_BEFORE
            && let Some(method) = measure()
        {
            let at = Instant::now();
            self.measured = Some(Measured {
                at,
                emulated,
                method,
            });
            self.bytes = 0;
            return method;
        }
        last?.method
    }
}

impl Tier {
    /// The method that was measured to be the fastest, for a scan of so many bytes; `None`: in place, also until there is something
    /// to `measure`.
    pub(crate) fn fastest(
        &self,
        bytes: impl FnOnce() -> u64,
        measure: impl FnOnce() -> Option<Option<CopyMethod>>,
    ) -> Option<CopyMethod> {
        // Others wait for a measurement that is under way. If it panics, the last one stays.
        let mut auto = self.auto.lock().unwrap_or_else(PoisonError::into_inner);
        auto.fastest(self.lines.emulated(), bytes, measure)
    }

    /// Whether pages were lost that are not noted yet.
    #[inline]
    pub(crate) fn has_losses(&self) -> bool {
        // In this order, because the pool's epoch is never behind.
        self.noted_epoch.load(Ordering::Acquire) != self.pool.fault_epoch()
    }

    /// A tier without losses since its pool was opened.
    pub(crate) fn new(
        id: TierId,
        name: impl Into<Arc<str>>,
        pool: Arc<Pool>,
        access: Access,
    ) -> Tier {
        Tier {
            id,
            name: name.into(),
            lines: TierLines::of(pool.far_device()),
            pool,
            access,
            auto: Arc::default(),
            noted_epoch: Arc::default(),
        }
    }
}

/// How many read a tier now: cursors with a morsel, and groups of lookups. Written twice for each of them, by all cores, so that it has
/// a line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Readers(AtomicUsize);

/// A reader of a tier, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a TierLines);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.end_reading();
    }
}

/// How long reading a tier's lines takes, as [`Database::calibrate_tiers`](crate::Database::calibrate_tiers) measured it. Clones share
/// it.
#[derive(Clone, Debug)]
pub(crate) struct TierLines {
    measured: Arc<Mutex<Option<LineTimes>>>,
    /// The far memory that it is taken for while far memory is emulated; `None`: that which is emulated then.
    device: Option<FarDevice>,
    readers: Arc<Readers>,
    /// That share emulated bandwidth. Asking the system takes too long for every scan.
    threads: usize,
}

impl TierLines {
    /// Of a tier that is taken for this far memory, or for the one that is emulated.
    fn of(device: Option<&FarDevice>) -> Self {
        TierLines {
            measured: Arc::default(),
            device: device.cloned(),
            readers: Arc::default(),
            threads: thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The far memory that it is taken for now.
    pub(crate) fn emulated(&self) -> Option<FarMemory> {
        self.taken_for(emulation::current())
    }

    /// The far memory that it is taken for while this one is emulated.
    fn taken_for(&self, usual: Option<FarMemory>) -> Option<FarMemory> {
        let own = self.device.as_ref().map(|device| *device.far());
        usual.map(|usual| own.unwrap_or(usual))
    }

    /// For a thread while one on each core reads.
    pub(crate) fn times(&self) -> LineTimes {
        self.times_alone().loaded(self.threads)
    }

    /// As measured, or [`LineTimes::USUAL`]; at least as slow as the far memory that is emulated, for a thread while no other reads.
    fn times_alone(&self) -> LineTimes {
        let measured = *self.lock();
        let times = measured.unwrap_or(LineTimes::USUAL);
        let emulated = self.emulated();
        emulated.map_or(times, |far| times.emulated(&far))
    }

    /// For a thread while no other reads; `None` if they are not known.
    pub(crate) fn known_alone(&self) -> Option<LineTimes> {
        self.is_known().then(|| self.times_alone())
    }

    /// How many read it now.
    pub(crate) fn readers(&self) -> usize {
        // Relaxed, here and below: it is out of date at once, and only the speed depends on it.
        self.readers.0.load(Ordering::Relaxed)
    }

    /// One more reads it, until [`Self::end_reading`].
    pub(crate) fn begin_reading(&self) {
        self.readers.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_reading(&self) {
        self.readers.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// One more reads it as long as this lives.
    pub(crate) fn reading(&self) -> Reader<'_> {
        self.begin_reading();
        Reader(self)
    }

    /// Whether they are known: measured, or those of a far memory of its own.
    pub(crate) fn is_known(&self) -> bool {
        let is_described = || self.device.is_some() && emulation::current().is_some();
        self.lock().is_some() || is_described()
    }

    /// `None`: they are not measured.
    pub(crate) fn set(&self, times: Option<LineTimes>) {
        *self.lock() = times;
    }

    fn lock(&self) -> MutexGuard<'_, Option<LineTimes>> {
        let measured = self.measured.lock();
        measured.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_counted_by_all_clones_and_no_longer_than_they_read() {
        let lines = TierLines::of(None);
        let clone = lines.clone();
        let first = lines.reading();
        {
            let _second = clone.reading();
            assert_eq!(lines.readers(), 2);
        }
        assert_eq!(clone.readers(), 1);
        drop(first);
        assert_eq!(lines.readers(), 0);
    }

    #[test]
    fn a_tier_is_taken_for_its_own_far_memory_while_any_is_emulated() {
        let device = FarDevice::new(FarMemory::CXL).unwrap();
        let (own, usual) = (TierLines::of(Some(&device)), TierLines::of(None));
        let all = [None, Some(FarMemory::OPTANE)];
        assert_eq!(all.map(|it| usual.taken_for(it)), all);
        assert_eq!(
            all.map(|it| own.taken_for(it)),
            [None, Some(FarMemory::CXL)]
        );
    }

    #[test]
    fn auto_measures_when_enough_was_scanned_and_not_again_for_a_minute() {
        let mut auto = Auto::default();
        let buffered = Some(CopyMethod::Buffered);
        let too_early = || panic!("too little was scanned");
        assert_eq!(auto.fastest(None, || SCANNED_BEFORE - 1, too_early), None);
        // What has too few blocks is read in place, and the next scan measures.
        assert_eq!(auto.fastest(None, || 1, || None), None);
        assert_eq!(auto.fastest(None, || 1, || Some(buffered)), buffered);
        let uncounted = || panic!("nothing is counted while a measurement counts");
        assert_eq!(auto.fastest(None, uncounted, too_early), buffered);
        // A measurement of other memory says nothing, one that is old counts until the next.
        let far = Some(FarMemory::OPTANE);
        assert_eq!(auto.fastest(far, || 1, too_early), None);
        let Some(measured) = &mut auto.measured else {
            panic!("it was measured");
        };
        measured.at = measured.at.checked_sub(MEASURED_FOR).unwrap();
        assert_eq!(auto.fastest(None, || 1, too_early), buffered);
        assert_eq!(auto.fastest(None, || SCANNED_BEFORE, || Some(None)), None);
    }
}
