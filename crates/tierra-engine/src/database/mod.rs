//! A database: a directory with a pool, opened by one process at a time.
//!
//! Invariant: opening changes nothing on disk before the whole directory has been checked, and an open database holds exactly
//! what was committed.

pub(crate) mod adopt;
pub(crate) mod copies;
pub(crate) mod open;
pub(crate) mod opening;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tierra_memory::{Counters, Durability, MediumKind, NearMemory, Pool, Speed, Topology, Written};

use self::copies::CopyInfo;
use crate::calibration::Calibration;
use crate::error::{CommitError, OpenError, TableError, TierError, UnavailableError};
use crate::read::batch::Batches;
use crate::scrub::background::{SCRUB_BYTES_PER_S, ScrubPace, ScrubProgress, Scrubber};
use crate::scrub::{self, ScrubOptions, ScrubReport};
use crate::spec::TableSpec;
use crate::spec::replicas::Replicas;
use crate::storage::Storage;
use crate::storage::access::Access;
use crate::storage::directory::DatabaseDirectory;
use crate::storage::faults::{Fault, FaultTotals};
use crate::storage::frames::Frames;
use crate::storage::lock::DirectoryLock;
use crate::storage::options::DatabaseOptions;
use crate::storage::read_checks::ReadChecks;
use crate::storage::tier::Tier;
use crate::storage::tiers::{NEAR_NAME, Tiers};
use crate::table::Table;
use crate::table::catalog::Catalog;
use crate::table::requests::{Request, Requests};
use crate::table::snapshot::Snapshot;
use crate::tiering::mover::{Moved, Mover};
use crate::tiering::objects::{self, ColumnPlacement};
use crate::write::change::{self, Change, Committed, Submitted};
use crate::write::writer::{Published, SharedWriter, Unsettled, Writer};

/// A kind of memory that a database uses.
#[derive(Clone, Debug, PartialEq)]
pub struct TierInfo {
    /// Unique in the database.
    pub name: String,
    /// Near or far.
    pub speed: Speed,
    /// The pool's medium; `None` for memory that is not durable.
    pub medium: Option<MediumKind>,
    /// How scans reach its blocks; `None` for near memory.
    pub access: Option<Access>,
    /// The failures that the content survives; `None`: none.
    pub durability: Option<Durability>,
    /// Capacity; for near memory, the limit of the copies of chunks and indexes ([`DatabaseOptions::near_memory_bytes`]).
    pub capacity_bytes: u64,
    /// Bytes in use; for near memory, by these copies.
    pub used_bytes: u64,
    /// Bytes of near memory besides the copies, without a limit: dictionaries, chunk headers, the near part of key indexes,
    /// and tails. `None` for a pool.
    pub always_near_bytes: Option<u64>,
    /// Size of the pages that back it; `None` if the sizes differ.
    pub page_size_bytes: Option<usize>,
    /// Bytes written to the pool by purpose, and faults found in it, since the database was opened.
    pub counters: Option<Counters>,
    /// Bytes written to the pool per byte of rows added since the open; `None` before the first rows.
    pub write_amplification: Option<f64>,
}

impl TierInfo {
    /// Totals of the bytes written to the pool since the database was opened.
    pub fn written(&self) -> Option<Written> {
        let counters = self.counters?;
        let causes = [
            counters.extents,
            counters.logs,
            counters.superblock,
            counters.repair,
        ];
        Some(Written {
            bytes: causes.iter().map(|cause| cause.bytes).sum(),
            lines: causes.iter().map(|cause| cause.lines).sum::<u64>() + counters.believed_lines,
        })
    }
}

/// An open database. Its tables and snapshots keep the directory locked even after it is dropped.
#[derive(Debug)]
pub struct Database {
    storage: Arc<Storage>,
    requests: Requests,
    catalog: Arc<Catalog>,
    writer: Mutex<Option<JoinHandle<()>>>,
    scrubber: Scrubber,
    /// `None` with a recorder.
    mover: Option<Mover>,
    given_up: Vec<(String, u64)>,
    batches: Batches,
}

impl Database {
    /// Starts the threads of an open database.
    pub(crate) fn start(options: &DatabaseOptions, opened: Opened) -> Result<Arc<Self>, OpenError> {
        let Opened {
            directory,
            mut lock,
            near,
            tiers,
            mut published,
            unsettled,
        } = opened;
        let dir = directory.dir();
        let threads = options
            .threads
            .or_else(|| std::thread::available_parallelism().ok());
        let threads = threads.unwrap_or(NonZeroUsize::MIN);
        let calibration = Arc::new(Calibration::of_database(dir));
        for tier in &tiers.open {
            tier.lines.set(calibration.line_times(&tier.name));
        }
        published.choose_copies();
        tiers
            .losses
            .checks
            .open_with(options.verify_reads.unwrap_or_default());
        for missing in &tiers.missing {
            tiers.losses.log.missing(missing.id, &missing.name);
        }
        let opened = open::read_tables(
            dir,
            &tiers,
            &published,
            &calibration,
            options.to_version.is_some(),
        )?;
        lock.sign();
        let shared = Arc::<SharedWriter>::default();
        let (requests, queue) = Requests::new(shared.clone());
        let next_extent_id = published.manifest().next_extent_id;
        let is_read_only = lock.read_only().is_some();
        let dir = dir.to_owned();
        let storage = Storage::new(
            directory,
            tiers,
            next_extent_id,
            near,
            threads,
            calibration,
            lock,
            options.clone(),
        );
        let commit = opened.commit;
        let mut logs = HashMap::new();
        let mut tables = Vec::new();
        for table in opened.tables {
            logs.insert(table.entry.id, table.log);
            let entry = table.entry;
            let opened = Table::new(
                entry.id,
                entry.spec.clone(),
                entry.placement.clone(),
                table.version,
                entry.next_segment_id,
                storage.clone(),
                requests.clone(),
            );
            if let Some(missing) = table.missing {
                opened.lacks(missing);
            }
            tables.push(opened);
        }
        // Near copies are made one segment at a time, between requests, so that opening stays fast.
        for table in tables
            .iter()
            .filter(|table| table.check_available().is_ok())
        {
            let current = table.current();
            table.ask_for_indexes();
            table.ask_for_near_copies(current.segments.iter().map(|segment| segment.id()));
        }
        tables.iter().for_each(|table| table.ask_for_index_copies());
        // Restores copies that a tier missed while it was missing, or that are damaged.
        tables
            .iter()
            .for_each(|table| table.ask_for_missing_copies());
        let catalog = Arc::new(Catalog::new(tables));
        storage.losses().log.know(&catalog);
        let told = requests.clone();
        storage.losses().listen(move || told.send(Request::Losses));
        // Handles pages that were lost during the open.
        storage.note_losses();
        let mut writer = Writer::new(
            storage.clone(),
            requests.clone(),
            catalog.clone(),
            published,
            logs,
            commit,
        );
        let goes_back = options.to_version.is_some();
        let given_up = if goes_back {
            writer.given_up()
        } else {
            Vec::new()
        };
        if options.to_version.is_some() && !is_read_only {
            writer.go_back(&dir)?;
        }
        writer.settle(unsettled)?;
        let thread = std::thread::Builder::new().name("tierra-writer".to_owned());
        let thread = thread.spawn(move || shared.run(writer, &queue));
        let thread = thread.map_err(|source| OpenError::Io { path: dir, source })?;
        // A recording contains only the database's own writes: the scrubber only restores what was lost.
        let pace = match options.recorder {
            None => options.scrub_bytes_per_s.unwrap_or(SCRUB_BYTES_PER_S),
            Some(_) => 0,
        };
        let pace = if is_read_only { 0 } else { pace };
        // A recording must not depend on when something was read: the mover is off.
        let is_recorded = options.recorder.is_some();
        let mover = (!is_recorded)
            .then(|| Mover::start(storage.clone(), requests.clone(), catalog.clone()));
        Ok(Arc::new(Self {
            scrubber: Scrubber::start(storage.clone(), requests.clone(), catalog.clone(), pace),
            mover,
            given_up,
            batches: Batches::default(),
            storage,
            requests,
            catalog,
            writer: Mutex::new(Some(thread)),
        }))
    }

    /// The names of all tables, sorted.
    pub fn tables(&self) -> Vec<String> {
        self.catalog.names()
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.catalog.table(name)
    }

    /// Creates a table; durable on return. Blocks.
    ///
    /// # Errors
    /// [`TableError`]: the name is taken, the description breaks a rule, the pool is full or
    /// failed.
    pub fn create_table(&self, spec: TableSpec) -> Result<Arc<Table>, TableError> {
        self.create_table_in(spec, Replicas::default())
    }

    /// As [`Database::create_table`], with copies in given tiers.
    ///
    /// # Errors
    /// As [`Database::create_table`], and [`TableError::Replicas`].
    pub fn create_table_in(
        &self,
        spec: TableSpec,
        replicas: Replicas,
    ) -> Result<Arc<Table>, TableError> {
        self.requests.ask(|reply| Request::Create {
            spec,
            replicas,
            reply,
        })?
    }

    /// Begins a table that appears with its first rows: [`Table::append`] or [`Loader::finish`](crate::Loader::finish) commits
    /// both in one manifest. Until then the table is invisible to others, and a failure or crash leaves nothing of it. Blocks.
    ///
    /// # Errors As [`Database::create_table`]. If the name is taken later, the commit fails with
    /// [`StorageError::Created`](crate::StorageError::Created).
    pub fn begin_table(&self, spec: TableSpec) -> Result<Arc<Table>, TableError> {
        self.begin_table_in(spec, Replicas::default())
    }

    /// As [`Database::begin_table`], with copies in given tiers.
    ///
    /// # Errors
    /// As [`Database::begin_table`], and [`TableError::Replicas`].
    pub fn begin_table_in(
        &self,
        spec: TableSpec,
        replicas: Replicas,
    ) -> Result<Arc<Table>, TableError> {
        self.requests.ask(|reply| Request::Begin {
            spec,
            replicas,
            reply,
        })?
    }

    /// Adds a tier with a new, empty pool; durable on return. Tables can then have copies in it ([`Table::set_replicas`]), and it
    /// holds a copy of the manifest. Blocks.
    ///
    /// # Errors
    /// [`TierError`]: the name is taken, or the pool cannot be made.
    pub fn add_tier(&self, name: &str, pool: &Path) -> Result<(), TierError> {
        self.add_tier_with(name, pool, Access::default())
    }

    /// [`Database::add_tier`], whose blocks scans reach by `access`, unless their [`Reading`](crate::Reading) says otherwise.
    ///
    /// # Errors
    /// As there, and [`TierError::Access`] if the pool cannot be read so: then there is no such tier.
    pub fn add_tier_with(&self, name: &str, pool: &Path, access: Access) -> Result<(), TierError> {
        let pool = std::path::absolute(pool).map_err(|source| TierError::Io {
            path: pool.to_owned(),
            source,
        })?;
        self.requests.ask(|reply| Request::AddTier {
            name: name.to_owned(),
            pool,
            access,
            reply,
        })?
    }

    /// Changes how scans that begin from now on reach a tier's blocks; durable on return. Blocks.
    ///
    /// # Errors
    /// [`TierError`]: there is no such tier, or it cannot be read so.
    pub fn set_access(&self, tier: &str, access: Access) -> Result<(), TierError> {
        self.requests.ask(|reply| Request::SetAccess {
            name: tier.to_owned(),
            access,
            reply,
        })?
    }

    /// Removes a tier, present or missing, in which no table is to have copies; durable on return. Its file stays. Blocks.
    ///
    /// # Errors
    /// [`TierError`].
    pub fn drop_tier(&self, name: &str) -> Result<(), TierError> {
        self.requests.ask(|reply| Request::DropTier {
            name: name.to_owned(),
            reply,
        })?
    }

    /// Drops a table; durable on return. Snapshots of it stay readable. Blocks.
    ///
    /// # Errors
    /// [`TableError`]: there is no such table, or the pool failed.
    pub fn drop_table(&self, name: &str) -> Result<(), TableError> {
        self.drop_tables(&[name])
    }

    /// Drops tables as [`Database::drop_table`] does, all of them or none. A table that is named twice is dropped once.
    ///
    /// # Errors
    /// [`TableError`]: a table does not exist, or the pool failed; no table is dropped then.
    pub fn drop_tables(&self, names: &[impl AsRef<str>]) -> Result<(), TableError> {
        let names = names.iter().map(|name| name.as_ref().to_owned());
        let names = names.collect();
        self.requests.ask(|reply| Request::Drop { names, reply })?
    }

    /// Commits changes of any number of tables: all of them or none, durable and visible on return. Of two commits that delete a
    /// row the first succeeds. Blocks.
    ///
    /// # Errors
    /// [`CommitError`]; nothing is changed.
    pub fn commit(&self, changes: Vec<Change>) -> Result<Committed, CommitError> {
        change::commit(&self.requests, changes)
    }

    /// As [`Database::commit`], but does not block. A small commit into logs in memory is made at once if no other is under way. Any
    /// other is returned, to be made where blocking is allowed.
    ///
    /// # Errors
    /// [`CommitError`]; nothing is changed.
    pub fn submit(&self, changes: Vec<Change>) -> Result<Submitted, CommitError> {
        change::submit(&self.requests, changes)
    }

    /// Snapshots of these tables as of one moment: each commit is in all of them or in none.
    pub fn snapshots(&self, tables: &[Arc<Table>]) -> Vec<Snapshot> {
        self.catalog.snapshots(tables)
    }

    /// Snapshots of all tables as of one moment, by name.
    pub fn all_snapshots(&self) -> Vec<Snapshot> {
        self.catalog.snapshots(&self.catalog.tables())
    }

    /// Removes all rows of these tables, of all or of none, and gives their space back; durable on return. Returns the number of
    /// rows. Snapshots keep theirs. Waits for loads to end. Blocks.
    ///
    /// # Errors
    /// [`TableError::Storage`]; no table is changed.
    pub fn truncate(&self, tables: &[Arc<Table>]) -> Result<u64, TableError> {
        let mut tables = tables.to_vec();
        // In one order, so that two calls never wait for each other.
        tables.sort_by_key(|table| table.id());
        tables.dedup_by_key(|table| table.id());
        let passes = tables
            .iter()
            .map(|table| table.load_merge_lock().enter_merge());
        let passes = passes.collect();
        self.requests.ask(|reply| Request::Truncate {
            tables,
            passes,
            reply,
        })?
    }

    /// Waits until the rows committed so far have their indexes, and their near copies as far as the budget goes. Both are made
    /// in the background after a load, a merge and an open; call this before a measurement.
    ///
    /// # Errors
    /// [`TableError::Storage`], if the writer has failed.
    pub fn wait_for_near_copies(&self) -> Result<(), TableError> {
        Ok(self.requests.ask(|reply| Request::Wait { reply })?)
    }

    /// For each column, where it is read and how much that matters, ordered by table name and column.
    pub fn placements(&self) -> Vec<ColumnPlacement> {
        let tables = self.catalog.tables();
        let of_table = |table: &Arc<Table>| objects::placements(table.spec(), &table.current());
        tables.iter().flat_map(of_table).collect()
    }

    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The channel to the writer.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Bytes of near memory in dictionaries, chunk headers, key indexes and tails.
    fn always_near_bytes(&self) -> u64 {
        let tables = self.catalog.tables();
        let near = tables
            .iter()
            .map(|table| table.current().always_near_bytes());
        near.sum()
    }

    /// Bytes of near memory in use: copies, and what is always near. Cheaper than [`Database::tiers`], which asks the kernel
    /// about every mapping.
    pub fn near_bytes(&self) -> u64 {
        self.storage.near.used() + self.always_near_bytes()
    }

    /// What was moved near, and back, because of how it is read.
    pub fn moved(&self) -> Moved {
        self.mover.as_ref().map(Mover::moved).unwrap_or_default()
    }

    /// The memory in use, near first.
    pub fn tiers(&self) -> Vec<TierInfo> {
        self.tier_infos(|pool| Some(pool.page_size_bytes()))
    }

    /// The same without the sizes of pages, for which the kernel looks at every mapping: this is cheap enough for every second.
    pub fn tiers_without_page_sizes(&self) -> Vec<TierInfo> {
        self.tier_infos(|_| None)
    }

    fn tier_infos(&self, page_size_bytes: impl Fn(&Pool) -> Option<usize>) -> Vec<TierInfo> {
        let copies = &self.storage.near;
        let near = TierInfo {
            name: NEAR_NAME.to_owned(),
            speed: Speed::Near,
            medium: None,
            access: None,
            durability: None,
            capacity_bytes: copies.limit(),
            used_bytes: copies.used(),
            always_near_bytes: Some(self.always_near_bytes()),
            page_size_bytes: None,
            counters: None,
            write_amplification: None,
        };
        let (tiers, taken) = (self.storage.tiers(), self.storage.taken_bytes());
        let pools = tiers.open.iter().map(|tier| {
            let Tier {
                name, pool, access, ..
            } = tier;
            let mut tier = TierInfo {
                name: name.to_string(),
                speed: pool.speed(),
                medium: Some(pool.medium()),
                access: Some(*access),
                durability: Some(pool.durability()),
                capacity_bytes: pool.capacity_bytes(),
                used_bytes: pool.used_bytes(),
                always_near_bytes: None,
                page_size_bytes: page_size_bytes(pool),
                counters: Some(pool.counters()),
                write_amplification: None,
            };
            let written = tier.written().filter(|_| taken > 0);
            tier.write_amplification = written.map(|all| all.bytes as f64 / taken as f64);
            tier
        });
        std::iter::once(near).chain(pools).collect()
    }

    /// Reads every copy of everything, compares it with its checksum, and repairs what is damaged from another copy, unless the
    /// options disable that. `progress` receives the bytes read so far, of [`Database::scrub_bytes`]. Queries and appends go on
    /// meanwhile. Blocks.
    ///
    /// # Errors
    /// [`TableError::Storage`], if the database is closed.
    pub fn scrub(
        &self,
        options: &ScrubOptions,
        progress: impl FnMut(u64),
    ) -> Result<ScrubReport, TableError> {
        scrub::scrub(
            &self.storage,
            &self.requests,
            &self.catalog,
            options,
            progress,
        )
    }

    /// The frames of scans that do not read in place; their size can be read and changed.
    pub fn frames(&self) -> &Frames {
        &self.storage.losses().frames
    }

    /// The batches that scans of its tables join.
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// How often reads are checked; can be read and changed.
    pub fn read_checks(&self) -> &ReadChecks {
        &self.storage.losses().checks
    }

    /// The copies of each table, by table name.
    ///
    /// # Errors
    /// [`TableError::Storage`], if the database is closed.
    pub fn copies(&self) -> Result<Vec<CopyInfo>, TableError> {
        Ok(copies::list(&self.storage, &self.requests, &self.catalog)?)
    }

    /// Tables and columns that cannot be read at present, each with the reason.
    pub fn unavailable(&self) -> Vec<UnavailableError> {
        let tables = self.catalog.tables();
        let lacking = tables
            .iter()
            .filter_map(|table| table.check_complete().err());
        lacking.collect()
    }

    /// Tables, and how many of their commits were given up, or would be, by going back to the version that was opened
    /// ([`DatabaseOptions::to_version`]). Tables that were created later are not listed: no record of them is left.
    pub fn given_up(&self) -> &[(String, u64)] {
        &self.given_up
    }

    /// Progress of the background scrubber.
    pub fn scrub_progress(&self) -> ScrubProgress {
        self.scrubber.progress()
    }

    /// The pace of the background scrubber; can be read and changed.
    pub fn scrub_pace(&self) -> &ScrubPace {
        self.scrubber.pace()
    }

    /// Bytes that [`Database::scrub`] will read.
    ///
    /// # Errors
    /// As [`Database::scrub`].
    pub fn scrub_bytes(&self) -> Result<u64, TableError> {
        scrub::total_bytes(&self.requests)
    }

    /// Faults found in stored bytes since the database was opened, the newest last, and their totals. The list keeps the last
    /// 1,000.
    pub fn faults(&self) -> (Vec<Fault>, FaultTotals) {
        self.storage.losses().log.read()
    }

    /// Makes all missing copies of tables, as far as the tiers are present. This also happens in the background after an open.
    /// Blocks.
    ///
    /// # Errors
    /// [`TableError::Storage`]: the copies made so far remain.
    pub fn make_copies(&self) -> Result<(), TableError> {
        for name in self.tables() {
            if let Some(table) = self.table(&name) {
                self.requests
                    .ask(|reply| Request::Repair { table, reply })??;
            }
        }
        Ok(())
    }

    /// Known tiers that are missing, each with what was found instead.
    pub fn missing_tiers(&self) -> Vec<(String, String)> {
        let tiers = self.storage.tiers();
        let missing = tiers.missing.iter();
        missing
            .map(|tier| (tier.name.to_string(), tier.why.to_string()))
            .collect()
    }

    /// Why the database is read-only; `None` if it can be written.
    pub fn read_only(&self) -> Option<&str> {
        self.storage.read_only()
    }

    /// The pools of the tiers that are present, the first tier's first.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let tiers = self.storage.tiers();
        let pools = tiers.open.iter().map(|tier| tier.pool.clone());
        pools.collect()
    }

    /// The calibration that the database was opened with: the gates of lookups start with it.
    pub fn calibration(&self) -> &Arc<Calibration> {
        &self.storage.calibration
    }

    /// The pool of the first tier that is present.
    pub(crate) fn first_pool(&self) -> Arc<Pool> {
        let tiers = self.storage.tiers();
        let first = tiers.open.first().expect("a database is read from a tier");
        first.pool.clone()
    }

    /// Whether this process is a fork of the one that opened the database. The fork has none of its threads, and must not use it.
    pub fn is_forked(&self) -> bool {
        self.storage.is_forked()
    }

    /// Answers the requests made so far and stops writing: later appends and loads fail. Committed rows are durable already.
    /// Dropping the database does the same.
    pub fn close(&self) {
        if self.is_forked() {
            // The threads are the parent's.
            return;
        }
        self.scrubber.close();
        self.mover.iter().for_each(Mover::close);
        // A panic cannot leave the option half taken.
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer {
            self.storage.begin_closing();
            self.requests.send(Request::Close);
            if writer.join().is_err() {
                tracing::error!(
                    "the writer thread panicked: nothing is written any more until the database is opened again; please report it"
                );
            }
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.close();
    }
}

/// The state of a database that is about to be opened.
pub(crate) struct Opened {
    pub(crate) directory: DatabaseDirectory,
    pub(crate) lock: DirectoryLock,
    pub(crate) near: NearMemory,
    pub(crate) tiers: Tiers,
    pub(crate) published: Published,
    pub(crate) unsettled: Unsettled,
}

pub(crate) fn near_memory(options: &DatabaseOptions) -> Result<NearMemory, OpenError> {
    let bytes = match options.near_memory_bytes {
        Some(bytes) => bytes,
        None => Topology::discover()?.usable_near_bytes() / 4,
    };
    Ok(NearMemory::new(bytes))
}
