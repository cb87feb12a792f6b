//! What was found wrong with stored bytes, and what became of it: one entry a fault, kept to be asked for later.
//!
//! Invariant: at most [`ENTRIES_MOST`] entries are kept, the newest; the totals count all since the database was opened. Each fault
//! is logged once, when it is found.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::SystemTime;

use crate::manifest::ExtentId;
use crate::spec::replicas::TierId;
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::storage::verified::DamageFound;

/// Stands for the header of an extent, which is repaired with everything only.
pub(crate) const HEADER: Range<usize> = usize::MAX..usize::MAX;

/// Entries kept.
const ENTRIES_MOST: usize = 1000;

/// What kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Bytes that do not have their checksum.
    Checksum,
    /// A page that was lost while it was mapped, or that the file lost with its end.
    LostPage,
    /// The header of an extent, or of a tier: its header or its superblock.
    Header,
    /// A record of a table's log.
    LogRecord,
    /// A tier that was not there when the database was opened, or whose device refused a write.
    Missing,
    /// The file of a tier that was shorter than it had been, whether something lay at its end or not.
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

/// What became of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// Nobody has read it, or walked over it, since.
    Open,
    /// Written anew, from what this tier has; from near memory, or from its own bytes, where it says so.
    Repaired {
        /// The tier's name.
        from: String,
    },
    /// No copy has it.
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

/// Something that was found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it was found.
    pub at: SystemTime,
    /// The tier's name.
    pub tier: String,
    /// The number of the extent; `None` where it is the whole tier.
    pub extent: Option<u64>,
    /// The table, where it is known.
    pub table: Option<String>,
    /// The column, where it is one column's.
    pub column: Option<String>,
    /// Id of the segment, where it is rows of one that are concerned.
    pub segment: Option<u32>,
    /// Rows of the segment.
    pub rows: Option<Range<u64>>,
    /// What it is.
    pub kind: FaultKind,
    /// What became of it.
    pub outcome: FaultOutcome,
}

/// Faults since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTotals {
    /// Found.
    pub found: u64,
    /// Written anew from other copies.
    pub repaired: u64,
    /// Of which no copy has what was there.
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

/// Of one database.
#[derive(Debug, Default)]
pub(crate) struct FaultLog {
    /// How much was found, for those who verified something before.
    pub(crate) damage: DamageFound,
    entries: Mutex<Entries>,
    /// To say whose rows an extent holds.
    naming: OnceLock<Weak<dyn Naming>>,
}

/// What lies in a range of an extent.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) table: Option<String>,
    pub(crate) column: Option<String>,
    pub(crate) segment: Option<u32>,
    pub(crate) rows: Option<Range<u64>>,
}

/// Tells whose rows lie where.
pub(crate) trait Naming: Send + Sync {
    /// What the table of this id has in a range of an extent; where none is given, the table that has rows there.
    fn held(&self, table: Option<u64>, extent: ExtentId, range: &Range<usize>) -> Option<Held>;
}

impl FaultLog {
    /// From now on faults are told with names, and those are named that were found while the tables were opened.
    pub(crate) fn know<N: Naming + 'static>(&self, naming: &Arc<N>) {
        // Once: a database has one.
        let weak: Weak<N> = Arc::downgrade(naming);
        let _ = self.naming.set(weak);
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
            if let Some(held) = naming.held(None, extent, range) {
                (fault.table, fault.column) = (held.table, held.column);
                (fault.segment, fault.rows) = (held.segment, held.rows);
            }
        }
    }

    /// Something is wrong with a part of a copy. Told once: what is open already is not told again.
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

    /// A tier is not there.
    pub(crate) fn missing(&self, tier: TierId, name: &str) {
        self.of_tier(tier, name, FaultKind::Missing, FaultOutcome::Open);
    }

    /// A tier's header or superblock was damaged, and is written anew.
    pub(crate) fn tier_header(&self, tier: TierId, name: &str) {
        let from = "near memory".to_owned();
        let outcome = FaultOutcome::Repaired { from };
        self.of_tier(tier, name, FaultKind::Header, outcome);
    }

    /// A tier's file was cut short, and has its end again, or has not. What lay there is told by itself.
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

    /// A range of a copy was written anew, from what lies in a tier of this name.
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
                    // Piece by piece.
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

    /// No copy has what was in a range.
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

    /// The newest faults, the newest last, and how many there were.
    pub(crate) fn read(&self) -> (Vec<Fault>, FaultTotals) {
        let entries = self.lock();
        let faults = entries.kept.iter().map(|entry| entry.fault.clone());
        (faults.collect(), entries.totals)
    }

    fn held_by(&self, extent: &OwnedExtent, range: &Range<usize>) -> Held {
        let naming = self.naming.get().and_then(Weak::upgrade);
        let table = extent.owner().table();
        let held = naming.and_then(|naming| naming.held(Some(table?), extent.id(), range));
        held.unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Entries are whole before they are pushed.
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
