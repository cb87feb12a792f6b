//! `GET /api/state`: what the memory holds and what runs, now.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tierra_engine::{
    ColumnPlacement, CopyInfo, Database, Fault, FaultTotals, ScrubProgress, TierInfo,
};
use tierra_memory::Written;
use tierra_sql::{Monitor, StatementActivity};

use crate::shared::Shared;

/// Faults that are listed, the newest.
const FAULTS_MOST: usize = 20;
/// Slow statements that are listed, the newest.
const SLOW_MOST: usize = 50;

/// The state of a database.
#[derive(Serialize)]
pub(crate) struct State {
    now_ms: u64,
    /// Why the database can only be read.
    read_only: Option<String>,
    tiers: Vec<Tier>,
    missing_tiers: Vec<MissingTier>,
    columns: Vec<Column>,
    /// `None` until the writer has told for the first time.
    copies: Option<Vec<StoredCopy>>,
    faults: Faults,
    scrub: Scrub,
    moved_near_bytes: u64,
    moved_far_bytes: u64,
    sessions: u64,
    running: Vec<Statement>,
    slow: Vec<Statement>,
}

#[derive(Serialize)]
struct Tier {
    name: String,
    speed: String,
    medium: Option<String>,
    durability: Option<String>,
    capacity_bytes: u64,
    used_bytes: u64,
    always_near_bytes: Option<u64>,
    written: Option<WrittenBy>,
    write_amplification: Option<f64>,
    failed_checks: u64,
    lost_pages: u64,
}

/// What was written to a tier since the open, by cause.
#[derive(Serialize)]
struct WrittenBy {
    extents: Amount,
    logs: Amount,
    superblock: Amount,
    repair: Amount,
}

#[derive(Serialize)]
struct Amount {
    bytes: u64,
    lines: u64,
}

#[derive(Serialize)]
struct MissingTier {
    name: String,
    why: String,
}

#[derive(Serialize)]
struct Column {
    table: String,
    column: String,
    bytes: u64,
    near_bytes: u64,
    index_bytes: u64,
    index_near_bytes: u64,
    heat_ms: f64,
}

#[derive(Serialize)]
struct StoredCopy {
    table: String,
    column: Option<String>,
    number: u64,
    tier: String,
    missing: bool,
    complete: bool,
    bytes: u64,
}

#[derive(Serialize)]
struct Faults {
    found: u64,
    repaired: u64,
    lost: u64,
    newest: Vec<FoundFault>,
}

#[derive(Serialize)]
struct FoundFault {
    found_ms: u64,
    tier: String,
    table: Option<String>,
    column: Option<String>,
    kind: String,
    outcome: String,
}

#[derive(Serialize)]
struct Scrub {
    bytes_per_s: u64,
    running: bool,
    pass_began_ms: Option<u64>,
    pass_bytes: u64,
    pass_total_bytes: u64,
    passes: u64,
    damaged_copies: u64,
    repaired_copies: u64,
}

#[derive(Serialize)]
struct Statement {
    id: u64,
    session: u64,
    user: String,
    application: String,
    began_ms: u64,
    elapsed_ms: f64,
    state: String,
    rows: u64,
    bytes_near: u64,
    bytes_far: u64,
    error: Option<String>,
    text: String,
}

impl State {
    /// Reads it.
    pub(crate) fn read(shared: &Shared) -> Self {
        let (database, monitor): (&Database, &Monitor) = (&shared.database, &shared.monitor);
        let (faults, totals) = database.faults();
        let newest = faults.into_iter().rev().take(FAULTS_MOST);
        let moved = database.moved();
        let copies = shared.copies.known();
        let missing = database.missing_tiers().into_iter();
        Self {
            now_ms: shared.samples.now_ms(),
            read_only: database.read_only().map(str::to_owned),
            tiers: database
                .tiers_without_page_sizes()
                .into_iter()
                .map(Tier::from)
                .collect(),
            missing_tiers: missing
                .map(|(name, why)| MissingTier { name, why })
                .collect(),
            columns: database
                .placements()
                .into_iter()
                .map(Column::from)
                .collect(),
            copies: copies.map(|copies| copies.iter().map(StoredCopy::from).collect()),
            faults: Faults::new(totals, newest.map(FoundFault::from).collect()),
            scrub: database.scrub_progress().into(),
            moved_near_bytes: moved.near_bytes,
            moved_far_bytes: moved.far_bytes,
            sessions: monitor.totals().sessions,
            running: monitor.running().into_iter().map(Statement::from).collect(),
            slow: monitor
                .slow()
                .into_iter()
                .take(SLOW_MOST)
                .map(Statement::from)
                .collect(),
        }
    }
}

impl From<TierInfo> for Tier {
    fn from(tier: TierInfo) -> Self {
        let counters = tier.counters;
        Self {
            name: tier.name,
            speed: tier.speed.to_string(),
            medium: tier.medium.map(|medium| medium.to_string()),
            durability: tier.durability.map(|durability| durability.to_string()),
            capacity_bytes: tier.capacity_bytes,
            used_bytes: tier.used_bytes,
            always_near_bytes: tier.always_near_bytes,
            written: counters.map(|counters| WrittenBy {
                extents: counters.extents.into(),
                logs: counters.logs.into(),
                superblock: counters.superblock.into(),
                repair: counters.repair.into(),
            }),
            write_amplification: tier.write_amplification,
            failed_checks: counters.map_or(0, |counters| counters.failed_checks),
            lost_pages: counters.map_or(0, |counters| counters.lost_pages),
        }
    }
}

impl From<Written> for Amount {
    fn from(written: Written) -> Self {
        Self {
            bytes: written.bytes,
            lines: written.lines,
        }
    }
}

impl From<ColumnPlacement> for Column {
    fn from(column: ColumnPlacement) -> Self {
        Self {
            table: column.table,
            column: column.column,
            bytes: column.stored_bytes,
            near_bytes: column.near_bytes,
            index_bytes: column.index_bytes,
            index_near_bytes: column.index_near_bytes,
            heat_ms: column.heat.as_secs_f64() * 1e3,
        }
    }
}

impl From<&CopyInfo> for StoredCopy {
    fn from(copy: &CopyInfo) -> Self {
        Self {
            table: copy.table.clone(),
            column: copy.column.clone(),
            number: copy.number,
            tier: copy.tier.clone(),
            missing: copy.is_missing,
            complete: copy.is_complete,
            bytes: copy.bytes,
        }
    }
}

impl Faults {
    fn new(totals: FaultTotals, newest: Vec<FoundFault>) -> Self {
        Self {
            found: totals.found,
            repaired: totals.repaired,
            lost: totals.lost,
            newest,
        }
    }
}

impl From<Fault> for FoundFault {
    fn from(fault: Fault) -> Self {
        Self {
            found_ms: milliseconds(fault.at),
            tier: fault.tier,
            table: fault.table,
            column: fault.column,
            kind: fault.kind.to_string(),
            outcome: fault.outcome.to_string(),
        }
    }
}

impl From<ScrubProgress> for Scrub {
    fn from(progress: ScrubProgress) -> Self {
        Self {
            bytes_per_s: progress.bytes_per_s,
            running: progress.is_running,
            pass_began_ms: progress.pass_began.map(milliseconds),
            pass_bytes: progress.pass_bytes,
            pass_total_bytes: progress.pass_total_bytes,
            passes: progress.passes,
            damaged_copies: progress.damaged_copies,
            repaired_copies: progress.repaired_copies,
        }
    }
}

impl From<StatementActivity> for Statement {
    fn from(one: StatementActivity) -> Self {
        Self {
            id: one.id,
            session: one.session,
            user: one.user,
            application: one.application,
            began_ms: milliseconds(one.began),
            elapsed_ms: one.elapsed.as_secs_f64() * 1e3,
            state: one.state,
            rows: one.rows,
            bytes_near: one.work.bytes_near,
            bytes_far: one.work.bytes_far,
            error: one.error,
            text: one.text.to_string(),
        }
    }
}

/// Since 1970.
fn milliseconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
