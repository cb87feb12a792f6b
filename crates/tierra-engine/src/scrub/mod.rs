//! Scrub passes: every copy of everything is read and compared with its checksum. Damage is found before the data is needed, and
//! repaired while another copy is right.
//!
//! The writer checks manifests, superblocks and records of logs when a pass begins. Then as many threads as loads use read one
//! extent each at a time; one thread if the pass has a pace.
//!
//! Invariant: a pass changes only wrong bytes, and queries go on meanwhile.

pub(crate) mod background;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tierra_column::bits::BLOCK_LEN;
use tierra_memory::PoolError;
use tierra_memory::faults::{ScrubPass, Stop};

use crate::error::TableError;
use crate::integrity::repair;
use crate::manifest::TableEntry;
use crate::segment::Segment;
use crate::storage::Storage;
use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::table::catalog::Catalog;
use crate::table::requests::{Request, Requests, TableExtents};

/// Options of a scrub pass.
#[derive(Clone, Debug, Default)]
pub struct ScrubOptions {
    /// The most bytes read per second; `None`: no limit.
    pub bytes_per_s: Option<u64>,
    /// Reports damage without repairing it.
    pub only_verify: bool,
    /// Ends the pass early.
    pub stop: Stop,
}

/// The findings of a scrub pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Extents whose copies were read.
    pub extents: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Copies of extents that failed their checksums.
    pub damaged_copies: u64,
    /// Those of them that were repaired.
    pub repaired_copies: u64,
    /// Data that no copy has any more.
    pub lost: Vec<LostRows>,
    /// Whether the pass was stopped before its end.
    pub stopped: bool,
}

/// Rows that no copy has any more; the rest of the table can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRows {
    /// The table.
    pub table: String,
    /// The column; `None` if no rows are lost, but a part of an index, which is rebuilt, or a dictionary's piece, whose values
    /// are in near memory until the database is closed.
    pub column: Option<String>,
    /// The segment's id.
    pub segment: u32,
    /// Rows of the segment.
    pub rows: std::ops::Range<usize>,
}

/// Bytes of all copies that a pass over the database reads.
pub(crate) fn total_bytes(requests: &Requests) -> Result<u64, TableError> {
    let tables = requests.ask(|reply| Request::Extents { reply })?;
    let extents = tables.iter().flat_map(|table| &table.extents);
    let bytes = extents.map(|extent| extent.len_bytes() * extent.copies().len() as u64);
    Ok(bytes.sum())
}

/// Scrubs everything. `progress` receives the bytes read so far. If pages are lost meanwhile, the pass is repeated until none is:
/// only then is everything known to be whole.
pub(crate) fn scrub(
    storage: &Storage,
    requests: &Requests,
    catalog: &Catalog,
    options: &ScrubOptions,
    mut progress: impl FnMut(u64),
) -> Result<ScrubReport, TableError> {
    /// Rounds before a medium that loses pages faster than they are restored is given up.
    const ROUNDS_MOST: usize = 8;
    let mut report = ScrubReport::default();
    let repair = !options.only_verify;
    if repair {
        storage.check_writable()?;
    }
    let own = requests.ask(|reply| Request::CheckOwn { repair, reply })??;
    report.damaged_copies += own;
    report.repaired_copies += if repair { own } else { 0 };
    for _ in 0..ROUNDS_MOST {
        storage.check_files();
        storage.note_losses();
        let seen = storage.losses().begin_read();
        let lost_before = report.lost.len();
        scrub_all(
            storage,
            requests,
            catalog,
            options,
            &mut report,
            &mut progress,
        )?;
        if report.stopped || options.only_verify || storage.validate(seen) {
            break;
        }
        // The next pass reports it again.
        report.lost.truncate(lost_before);
    }
    Ok(report)
}

/// One scrub pass over all copies.
fn scrub_all(
    storage: &Storage,
    requests: &Requests,
    catalog: &Catalog,
    options: &ScrubOptions,
    report: &mut ScrubReport,
    progress: &mut impl FnMut(u64),
) -> Result<(), TableError> {
    let tables = requests.ask(|reply| Request::Extents { reply })?;
    let extents = tables.iter().flat_map(|TableExtents { entry, extents }| {
        let entry = &**entry;
        extents.iter().map(move |extent| (entry, &**extent))
    });
    let extents: Vec<(&TableEntry, &OwnedExtent)> = extents.collect();
    // The pace is that of one thread.
    let threads = match options.bytes_per_s {
        None => storage.threads.get().min(extents.len()),
        Some(_) => 1,
    };
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(report.bytes));
    let scrub = |progress: &mut dyn FnMut(u64)| {
        let mut found = ScrubReport::default();
        // Relaxed: only the counters are shared.
        while let Some((entry, extent)) = extents.get(next.fetch_add(1, Ordering::Relaxed)) {
            let before = found.bytes;
            scrub_extent(catalog, options, entry, extent, &mut found);
            if found.stopped {
                break;
            }
            let read = found.bytes - before;
            progress(bytes.fetch_add(read, Ordering::Relaxed) + read);
        }
        found
    };
    let found = std::thread::scope(|scope| {
        let others = (1..threads).map(|_| scope.spawn(|| scrub(&mut |_| {})));
        let others: Vec<_> = others.collect();
        let own = scrub(progress);
        let others = others.into_iter().map(|other| match other.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        others.fold(own, ScrubReport::and)
    });
    *report = std::mem::take(report).and(found);
    if !report.stopped {
        progress(report.bytes);
    }
    Ok(())
}

impl ScrubReport {
    /// The sum of two passes over different extents.
    fn and(mut self, other: ScrubReport) -> ScrubReport {
        self.extents += other.extents;
        self.bytes += other.bytes;
        self.damaged_copies += other.damaged_copies;
        self.repaired_copies += other.repaired_copies;
        self.stopped |= other.stopped;
        self.lost.extend(other.lost);
        let place = |lost: &LostRows| (lost.table.clone(), lost.segment, lost.rows.start);
        self.lost.sort_by_cached_key(place);
        self
    }
}

/// Reads all copies of an extent, and repairs what another copy has.
pub(crate) fn scrub_extent(
    catalog: &Catalog,
    options: &ScrubOptions,
    entry: &TableEntry,
    extent: &OwnedExtent,
    report: &mut ScrubReport,
) {
    let copies = extent.copies().iter();
    let checked: Vec<_> = copies.map(|copy| (copy, check(copy, options))).collect();
    if options.stop.is_stopped() {
        report.stopped = true;
        return;
    }
    // Logs belong to the writer, which abandons those that lost pages.
    let is_log = matches!(extent.owner(), Owner::Log(_));
    if !options.only_verify && !is_log {
        // Lost parts that still match their checksum are rewritten.
        for (copy, _) in checked.iter().filter(|(_, checked)| checked.is_ok()) {
            restore_lost(extent, copy);
        }
    }
    let is_valid = |copy: &ExtentCopy| is_log || !copy.has_losses();
    let (right, wrong): (Vec<_>, Vec<_>) = checked
        .into_iter()
        .partition(|(copy, checked)| checked.is_ok() && is_valid(copy));
    report.extents += 1;
    report.bytes += extent.len_bytes() * extent.copies().len() as u64;
    if wrong.is_empty() {
        return;
    }
    report.damaged_copies += wrong.len() as u64;
    // Also without repair: readers check again.
    extent.all_losses().log.damage.note();
    let right = right.first().map(|(copy, _)| (*copy).clone());
    let right = right.or_else(|| without_whole_copy(catalog, options, entry, extent, report));
    let Some(right) = right.filter(|_| !options.only_verify) else {
        return;
    };
    let copies = extent.copies().iter();
    for copy in copies.filter(|copy| !Arc::ptr_eq(copy, &right)) {
        // A reader or the background scrubber may have repaired it first.
        let was_wrong = wrong.iter().any(|(wrong, _)| Arc::ptr_eq(wrong, copy));
        match repair::copy(extent, copy, &right) {
            Ok(_) => report.repaired_copies += u64::from(was_wrong),
            Err(error) => tracing::error!(
                tier = &**copy.tier_name(),
                extent = extent.id().0,
                %error,
                "a damaged copy could not be restored"
            ),
        }
    }
}

/// Repairs a copy block by block from all copies, and reports what none has. Returns the copy if it is whole then.
fn without_whole_copy(
    catalog: &Catalog,
    options: &ScrubOptions,
    entry: &TableEntry,
    extent: &OwnedExtent,
    report: &mut ScrubReport,
) -> Option<Arc<ExtentCopy>> {
    let Some((segment, slots)) = segment_of(catalog, entry, extent) else {
        report.lost.push(LostRows {
            table: entry.spec.name.clone(),
            column: None,
            segment: 0,
            rows: 0..0,
        });
        return None;
    };
    if !segment.entry().extents.contains(&extent.id()) {
        // Only older snapshots read it, and the current segment does not say how it is used.
        return None;
    }
    if options.only_verify {
        let lost = lost_blocks(entry, &segment, &slots, extent);
        report.lost.extend(lost);
        return None;
    }
    put_together(entry, extent, &segment, &slots, report)
}

/// Checks a copy against its header and checksum.
fn check(copy: &ExtentCopy, options: &ScrubOptions) -> Result<(), PoolError> {
    let mut pass = ScrubPass::new(vec![copy.extent()]);
    if let Some(pace) = options.bytes_per_s {
        pass = pass.paced(pace);
    }
    let mut found = Ok(());
    pass.verify(copy.pool(), &options.stop, |_, error| found = Err(error));
    found
}

/// The segment whose chunks lie in an extent, in the current version, and the slots of these.
fn segment_of(
    catalog: &Catalog,
    entry: &TableEntry,
    extent: &OwnedExtent,
) -> Option<(Arc<Segment>, Vec<usize>)> {
    let named =
        |segment: &&Arc<crate::manifest::SegmentEntry>| segment.extents.contains(&extent.id());
    let named = entry.segments.iter().find(named)?;
    let table = catalog.table(&entry.spec.name)?;
    let current = table.current();
    let segment = current.segments.get(named.id)?;
    let slots = segment.slots_in(extent.id());
    Some((segment.clone(), slots))
}

/// Without a whole copy, repairs the copy that is read block by block, each from any copy that has it, or of another replica.
/// Returns the copy if it is whole then.
fn put_together(
    entry: &TableEntry,
    extent: &OwnedExtent,
    segment: &Segment,
    slots: &[usize],
    report: &mut ScrubReport,
) -> Option<Arc<ExtentCopy>> {
    let read = extent.read();
    for slot in slots {
        segment.repair_header(*slot, extent);
        for block in 0..segment.blocks() {
            // A block that was just repaired, and one whose rows another replica has, is not lost.
            if !segment.repair_stored(*slot, block, extent) && !segment.is_in_another(*slot, block)
            {
                report.lost.push(lost(entry, segment, *slot, block));
            }
        }
    }
    for padding in segment.padding(extent) {
        if let Err(error) = repair::padding(extent, read, padding) {
            tracing::error!(extent = extent.id().0, %error, "damaged padding could not be rewritten");
        }
    }
    let is_intact = read.pool().verify_extent(read.extent()).is_ok();
    if is_intact {
        restore_lost(extent, read);
        report.repaired_copies += 1;
    }
    is_intact.then(|| read.clone())
}

/// Rewrites what a copy has lost; it matches its checksum.
fn restore_lost(extent: &OwnedExtent, copy: &Arc<ExtentCopy>) {
    if copy.has_losses()
        && let Err(error) = repair::rewrite_lost(extent, copy)
    {
        tracing::error!(
            tier = &**copy.tier_name(),
            extent = extent.id().0,
            %error,
            "a lost page could not be rewritten"
        );
    }
}

/// The blocks that no copy and no other replica has.
fn lost_blocks(
    entry: &TableEntry,
    segment: &Segment,
    slots: &[usize],
    extent: &OwnedExtent,
) -> Vec<LostRows> {
    let mut all = Vec::new();
    for slot in slots {
        for block in 0..segment.blocks() {
            if !segment.is_stored(*slot, block, extent) && !segment.is_in_another(*slot, block) {
                all.push(lost(entry, segment, *slot, block));
            }
        }
    }
    all
}

fn lost(entry: &TableEntry, segment: &Segment, slot: usize, block: usize) -> LostRows {
    let (start, column) = (block * BLOCK_LEN, segment.slot_column(slot));
    LostRows {
        table: entry.spec.name.clone(),
        column: Some(entry.spec.columns[column].name.clone()),
        segment: segment.id(),
        rows: start..start + segment.block_rows(block),
    }
}
