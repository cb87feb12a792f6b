//! Faults found in stored bytes and their outcomes: one entry per fault, kept for later queries.
//!
//! Invariant: the newest [`ENTRIES_MOST`] entries are kept; the totals count all since the database was opened. Each fault is
//! logged once, when it is found.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::SystemTime;

use tierra_column::Dictionary;

use crate::manifest::ExtentId;
use crate::spec::replicas::TierId;
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::storage::verified::DamageFound;

/// Stands for the header of an extent, which is repaired only with the whole extent.
pub(crate) const HEADER: Range<usize> = usize::MAX..usize::MAX;

/// Entries kept.
const ENTRIES_MOST: usize = 1000;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Bytes that do not match their checksum.
    Checksum,
    /// A page that was lost while it was mapped, or that the file lost with its end.
    LostPage,
    /// The header of an extent, or the header or superblock of a tier.
    Header,
    /// A record of a table's log.
    LogRecord,
    /// A tier that was missing when the database was opened, or whose device failed a write.
    Missing,
    /// A tier's file that was truncated, whether or not something lay at its end.
    CutShort,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checksum => "checksum",
            Self::LostPage => "lost page",
            Self::Header => "header",
            Self::LogRecord => "log record",
            Self::Missing => "missing",
            Self::CutShort => "cut short",
        })
    }
}

/// The outcome of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// Not read or scrubbed since.
    Open,
    /// Written anew from this tier's copy, or, if `from` says so, from near memory or its own bytes.
    Repaired {
        /// The tier's name.
        from: String,
    },
    /// No copy has the data.
    Lost,
}

impl fmt::Display for FaultOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Repaired { from } => write!(f, "repaired from {from}"),
            Self::Lost => f.write_str("lost"),
        }
    }
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it was found.
    pub at: SystemTime,
    /// The tier's name.
    pub tier: String,
    /// The number of the extent; `None` if the fault concerns the whole tier.
    pub extent: Option<u64>,
    /// The table, if it is known.
    pub table: Option<String>,
    /// The column, if the fault concerns a single one.
    pub column: Option<String>,
    /// The segment's id, if the fault concerns rows of one.
    pub segment: Option<u32>,
    /// Rows of the segment.
    pub rows: Option<Range<u64>>,
    /// The kind.
    pub kind: FaultKind,
    /// The outcome.
    pub outcome: FaultOutcome,
}

/// Numbers of faults since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTotals {
    /// Found.
    pub found: u64,
    /// Written anew from other copies.
    pub repaired: u64,
    /// Not in any copy.
    pub lost: u64,
}

#[derive(Debug)]
struct LoggedFault {
    fault: Fault,
    tier: TierId,
    extent: Option<ExtentId>,
    range: Range<usize>,
}

#[derive(Debug, Default)]
struct Entries {
    kept: VecDeque<LoggedFault>,
    totals: FaultTotals,
}

/// The faults of one database.
#[derive(Debug, Default)]
pub(crate) struct FaultLog {
    /// Number of faults found, which invalidates earlier verifications.
    pub(crate) damage: DamageFound,
    entries: Mutex<Entries>,
    /// What the tables know of stored bytes.
    tables: OnceLock<Weak<dyn TableLookup>>,
}

/// The content of a range of an extent.
#[derive(Default)]
pub(crate) struct RangeContent {
    pub(crate) table: Option<String>,
    pub(crate) column: Option<String>,
    pub(crate) segment: Option<u32>,
    pub(crate) rows: Option<Range<u64>>,
}

/// Asks tables what they know of stored bytes.
pub(crate) trait TableLookup: Send + Sync {
    /// What the table of this id holds in a range of an extent; without an id, any table that has rows there.
    fn held(
        &self,
        table: Option<u64>,
        extent: ExtentId,
        range: &Range<usize>,
    ) -> Option<RangeContent>;

    /// The current dictionary of a column of the table of this id.
    fn dictionary(&self, table: u64, column: usize) -> Option<Arc<Dictionary>>;
}

impl FaultLog {
    /// From now on faults are reported with names; faults found while the tables were opened get theirs.
    pub(crate) fn know<T: TableLookup + 'static>(&self, tables: &Arc<T>) {
        // Once: a database has one catalog.
        let weak: Weak<T> = Arc::downgrade(tables);
        let _ = self.tables.set(weak);
        for LoggedFault {
            fault,
            extent,
            range,
            ..
        } in &mut self.lock().kept
        {
            let Some(extent) = extent.filter(|_| fault.table.is_none()) else {
                continue;
            };
            if let Some(held) = tables.held(None, extent, range) {
                (fault.table, fault.column) = (held.table, held.column);
                (fault.segment, fault.rows) = (held.segment, held.rows);
            }
        }
    }

    /// Reports a fault in a part of a copy, unless it is already open.
    pub(crate) fn found(
        &self,
        extent: &OwnedExtent,
        copy: &ExtentCopy,
        range: Range<usize>,
        kind: FaultKind,
    ) {
        let held = self.held_by(extent, &range);
        let mut entries = self.lock();
        let known = |entry: &LoggedFault| {
            entry.is_of(copy, extent.id(), &range)
                && entry.fault.kind == kind
                && !matches!(entry.fault.outcome, FaultOutcome::Repaired { .. })
        };
        if entries.kept.iter().any(known) {
            return;
        }
        let rows = held.rows.as_ref().map(|rows| format!("{rows:?}"));
        tracing::warn!(
            tier = &**copy.tier_name(),
            extent = extent.id().0,
            table = held.table,
            column = held.column,
            segment = held.segment,
            rows,
            kind = %kind,
            "damage was found"
        );
        self.damage.note();
        entries.push(LoggedFault {
            fault: Fault {
                at: SystemTime::now(),
                tier: copy.tier_name().to_string(),
                extent: Some(extent.id().0),
                table: held.table,
                column: held.column,
                segment: held.segment,
                rows: held.rows,
                kind,
                outcome: FaultOutcome::Open,
            },
            tier: copy.tier(),
            extent: Some(extent.id()),
            range,
        });
    }

    /// Reports a missing tier.
    pub(crate) fn missing(&self, tier: TierId, name: &str) {
        self.of_tier(tier, name, FaultKind::Missing, FaultOutcome::Open);
    }

    /// Reports that a tier's header or superblock was damaged and is rewritten.
    pub(crate) fn tier_header(&self, tier: TierId, name: &str) {
        let from = "near memory".to_owned();
        let outcome = FaultOutcome::Repaired { from };
        self.of_tier(tier, name, FaultKind::Header, outcome);
    }

    /// Reports a truncated file, and whether it was extended again. The lost data is reported separately.
    pub(crate) fn cut_short(&self, tier: TierId, name: &str, is_repaired: bool) {
        let from = "nothing: its end is zero".to_owned();
        let outcome = match is_repaired {
            true => FaultOutcome::Repaired { from },
            false => FaultOutcome::Open,
        };
        self.of_tier(tier, name, FaultKind::CutShort, outcome);
    }

    fn of_tier(&self, tier: TierId, name: &str, kind: FaultKind, outcome: FaultOutcome) {
        self.damage.note();
        let mut entries = self.lock();
        if let FaultOutcome::Repaired { .. } = outcome {
            entries.totals.repaired += 1;
        }
        entries.push(LoggedFault {
            fault: Fault {
                at: SystemTime::now(),
                tier: name.to_owned(),
                extent: None,
                table: None,
                column: None,
                segment: None,
                rows: None,
                kind,
                outcome,
            },
            tier,
            extent: None,
            range: 0..0,
        });
    }

    /// Reports that a range of a copy was rewritten, from a tier of this name.
    pub(crate) fn repaired(
        &self,
        extent: &OwnedExtent,
        copy: &ExtentCopy,
        range: &Range<usize>,
        from: &str,
    ) {
        let entries = &mut *self.lock();
        let repaired = entries.kept.iter_mut().filter(|entry| {
            let is_open = !matches!(entry.fault.outcome, FaultOutcome::Repaired { .. });
            is_open
                && entry.is_of(copy, extent.id(), range)
                && match entry.fault.kind {
                    // Restored piece by piece.
                    FaultKind::LostPage => !copy.is_lost(&entry.range),
                    _ => range.start <= entry.range.start && entry.range.end <= range.end,
                }
        });
        for entry in repaired {
            if entry.fault.outcome == FaultOutcome::Lost {
                entries.totals.lost -= 1;
            }
            entries.totals.repaired += 1;
            let (tier, extent) = (&entry.fault.tier, extent.id().0);
            tracing::info!(tier, extent, kind = %entry.fault.kind, from, "damage was repaired");
            let from = from.to_owned();
            entry.fault.outcome = FaultOutcome::Repaired { from };
        }
    }

    /// Reports that no copy has the data of a range.
    pub(crate) fn lost(&self, extent: &OwnedExtent, copy: &ExtentCopy, range: &Range<usize>) {
        let entries = &mut *self.lock();
        for entry in &mut entries.kept {
            let is_it = entry.is_of(copy, extent.id(), range);
            if is_it && entry.fault.outcome == FaultOutcome::Open {
                entry.fault.outcome = FaultOutcome::Lost;
                entries.totals.lost += 1;
            }
        }
    }

    /// The newest faults, the newest last, and the totals.
    pub(crate) fn read(&self) -> (Vec<Fault>, FaultTotals) {
        let entries = self.lock();
        let faults = entries.kept.iter().map(|entry| entry.fault.clone());
        (faults.collect(), entries.totals)
    }

    fn held_by(&self, extent: &OwnedExtent, range: &Range<usize>) -> RangeContent {
        let tables = self.tables.get().and_then(Weak::upgrade);
        let table = extent.owner().table();
        let held = tables.and_then(|tables| tables.held(Some(table?), extent.id(), range));
        held.unwrap_or_default()
    }

    /// The current dictionary of a column, to which the codes of a damaged block may belong.
    pub(crate) fn dictionary(&self, table: u64, column: usize) -> Option<Arc<Dictionary>> {
        self.tables.get()?.upgrade()?.dictionary(table, column)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Entries are complete before they are pushed.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoggedFault {
    fn is_of(&self, copy: &ExtentCopy, extent: ExtentId, range: &Range<usize>) -> bool {
        self.tier == copy.tier()
            && self.extent == Some(extent)
            && self.range.start <= range.end
            && range.start <= self.range.end
    }
}

impl Entries {
    fn push(&mut self, entry: LoggedFault) {
        if self.kept.len() == ENTRIES_MOST {
            self.kept.pop_front();
        }
        self.totals.found += 1;
        self.kept.push_back(entry);
    }
}
