//! The one writer of a database: a thread that appends, persists, seals and merges, one request
//! after the other.
//!
//! Invariant: everything durable changes here and only here, so there is always exactly one newest
//! manifest, and whatever an answered request did is in it, or in a log that it names.

mod append;
mod background;
mod commit;
mod go_back;
mod index;
mod losses;
mod merge;
mod near;
mod publish;
mod replicas;
mod rest;
mod runs;
mod standing;
mod tables;
mod tiers;
mod unbuilt;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use arrow::array::RecordBatch;

use background::{Background, Task};
pub(crate) use commit::Load;
use index::Ended;
use losses::{PUBLISH_TRIES_MOST, is_lost};
pub(crate) use publish::Published;
pub(crate) use standing::Unsettled;

use crate::catalog::Catalog;
use crate::error::{AppendError, LoadError, Outcome, StorageError, TableError, TierError};
use crate::gate::MergePass;
use crate::manifest::lineage_mark;
use crate::manifest::{Manifest, TableEntry};
use crate::near::NearChange;
use crate::replicas::Replicas;
use crate::space::{ExtentCopy, OwnedExtent};
use crate::spec::TableSpec;
use crate::storage::Storage;
use crate::table::Table;
use crate::tail::{Record, TailLog};
use crate::version::TableVersion;
use unbuilt::Unbuilt;

/// Rows for the tail.
pub(crate) struct Append {
    pub(crate) table: Arc<Table>,
    pub(crate) batch: RecordBatch,
    /// The same rows, encoded.
    pub(crate) record: Record,
    /// Images of the rows' keys, where the table has one.
    pub(crate) keys: Option<Vec<u64>>,
    pub(crate) reply: SyncSender<Result<(), AppendError>>,
}

/// A table as the newest manifest has it, and its extents.
pub(crate) struct TableExtents {
    pub(crate) entry: Arc<TableEntry>,
    pub(crate) extents: Vec<Arc<OwnedExtent>>,
}

/// What the writer can be asked for. Each is answered once, unless the database closes first.
pub(crate) enum Request {
    Create {
        spec: TableSpec,
        replicas: Replicas,
        reply: SyncSender<Result<Arc<Table>, TableError>>,
    },
    /// As `Create`, but the table appears with its first rows.
    Begin {
        spec: TableSpec,
        replicas: Replicas,
        reply: SyncSender<Result<Arc<Table>, TableError>>,
    },
    Drop {
        names: Vec<String>,
        reply: SyncSender<Result<(), TableError>>,
    },
    Append(Append),
    Load {
        load: Load,
        reply: SyncSender<Result<(), LoadError>>,
    },
    Seal {
        table: Arc<Table>,
        reply: SyncSender<Result<(), StorageError>>,
    },
    Merge {
        table: Arc<Table>,
        pass: MergePass,
        reply: SyncSender<Result<(), StorageError>>,
    },
    AddTier {
        name: String,
        pool: PathBuf,
        reply: SyncSender<Result<(), TierError>>,
    },
    DropTier {
        name: String,
        reply: SyncSender<Result<(), TierError>>,
    },
    /// Other tiers for a table; answered when its copies are there.
    Place {
        table: Arc<Table>,
        replicas: Replicas,
        reply: SyncSender<Result<(), TableError>>,
    },
    /// Answered with all extents that the newest manifest names, and the tables they belong to.
    Extents {
        reply: SyncSender<Vec<TableExtents>>,
    },
    /// Answered with how many copies of what only the writer writes are damaged; these are put right, if asked for.
    CheckOwn {
        mend: bool,
        reply: SyncSender<Result<u64, StorageError>>,
    },
    /// Answered when a table has the copies that it should have.
    Repair {
        table: Arc<Table>,
        reply: SyncSender<Result<(), StorageError>>,
    },
    /// Answered when something may be written.
    BeginWriting {
        reply: SyncSender<Result<(), StorageError>>,
    },
    /// Not answered: makes copies that are missing, in the background.
    Heal {
        table: Arc<Table>,
    },
    /// Not answered: indexes are a convenience. Built in the background.
    Index {
        table: Arc<Table>,
    },
    /// Not answered: the index of a version's keys is built in the background, while lookups scan.
    IndexKeys {
        table: Arc<Table>,
        version: Arc<TableVersion>,
    },
    /// Not answered: near copies are a convenience.
    CopyNear {
        table: Arc<Table>,
        segment: u32,
    },
    /// Answered when objects of a table are read from these near copies, or where they are stored.
    PlaceNear {
        table: Arc<Table>,
        changes: Vec<NearChange>,
        reply: SyncSender<()>,
    },
    /// Not answered: indexes' near copies, once columns that wish for one have theirs.
    CopyIndexesNear {
        table: Arc<Table>,
    },
    /// Answered when everything asked for before has been done.
    Wait {
        reply: SyncSender<()>,
    },
    /// Not answered: the last holder of a table that was dropped is gone.
    GiveBack,
    /// Not answered: pages were lost. What only the writer writes is written anew: logs' rows, manifests.
    Losses,
    /// Of the writer to itself: background work is over.
    Ended(Ended),
    /// Not answered: the thread ends.
    Close,
}

/// The state of the thread.
pub(crate) struct Writer {
    storage: Arc<Storage>,
    catalog: Arc<Catalog>,
    published: Published,
    /// Where each table's next record goes, by table id. Tables that nobody sees yet have none.
    logs: HashMap<u64, TailLog>,
    /// Number of the last commit, whatever table it changed.
    commit: u64,
    /// When logs are to be marked as acknowledged to their ends; `None` where they are.
    rests_at: Option<Instant>,
    /// The manifest's is as large, or smaller while tables are begun.
    next_table_id: u64,
    unbuilt: Unbuilt,
    background: Background,
    /// What is free with the next publication.
    superseded: Vec<Arc<ExtentCopy>>,
    /// Whether somebody was told that the outcome of a write is unknown, for the last device failed.
    has_told_failure: bool,
}

impl Writer {
    pub(crate) fn new(
        storage: Arc<Storage>,
        catalog: Arc<Catalog>,
        published: Published,
        logs: HashMap<u64, TailLog>,
        commit: u64,
    ) -> Self {
        let mut writer = Self {
            next_table_id: published.manifest().next_table_id,
            storage,
            catalog,
            published,
            logs,
            commit,
            rests_at: None,
            unbuilt: Unbuilt::default(),
            background: Background::default(),
            superseded: Vec::new(),
            has_told_failure: false,
        };
        // A process that was killed has left its last records unmarked.
        if writer.logs.values().any(TailLog::has_unmarked) {
            writer.will_rest();
        }
        writer
    }

    /// Makes `next` the newest manifest, in every tier that is there. A tier whose device refuses is left
    /// behind, if there is another.
    fn publish(
        &mut self,
        mut next: Manifest,
        fresh: Vec<Arc<OwnedExtent>>,
    ) -> Result<(), StorageError> {
        next.commit = self.commit + 1;
        self.note_reached(&mut next);
        let tiers = self.storage.tiers();
        tiers.check_known(&fresh)?;
        let mut tries = 0;
        let error = loop {
            match self.published.publish(&tiers, next.clone(), fresh.clone()) {
                Ok(()) => {
                    self.commit += 1;
                    self.let_superseded_go();
                    return Ok(());
                }
                // Pages were lost that it was to be published from: they are written anew.
                Err(error) if is_lost(&error) && tries < PUBLISH_TRIES_MOST => {
                    tries += 1;
                    losses::restore(&self.storage, &fresh);
                }
                Err(error) => break error,
            }
        };
        if !self.lose_failed_tiers() {
            return Err(error.into());
        }
        next.lineage.push(lineage_mark());
        let tiers = self.storage.tiers();
        self.published.publish(&tiers, next, fresh)?;
        self.commit += 1;
        self.let_superseded_go();
        if let Err(error) = self.note_lineage() {
            tracing::error!(%error, "that a tier is behind is not written down in the directory");
        }
        self.leave_lost_tiers()
    }

    fn let_superseded_go(&mut self) {
        for copy in self.superseded.drain(..) {
            copy.release();
        }
    }

    /// Does what writes, unless nothing can be written.
    fn writing<T, E: Outcome>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin_writing()?;
        work(self).map_err(|error| match self.has_failed_device() {
            // Later writes are refused before anything is stored.
            true if !std::mem::replace(&mut self.has_told_failure, true) => error.unknown(),
            _ => error,
        })
    }

    /// Serves requests until asked to close, or until nobody is left who could ask.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) {
        // An asker that has gone away does not want the answer: failing to send one is no error.
        while let Some(request) = self.next_request(requests) {
            match request {
                Request::Create {
                    spec,
                    replicas,
                    reply,
                } => {
                    let _ = reply.send(self.writing(|this| this.create_table(spec, &replicas)));
                }
                Request::Begin {
                    spec,
                    replicas,
                    reply,
                } => {
                    let _ = reply.send(self.writing(|this| this.begin_table(spec, &replicas)));
                }
                Request::Drop { names, reply } => {
                    let _ = reply.send(self.writing(|this| this.drop_tables(&names)));
                }
                Request::Append(append) => {
                    let (table, reply) = (append.table.clone(), append.reply.clone());
                    let _ = reply.send(self.writing(|this| this.append(append)));
                    self.merge_if_due(&table);
                }
                Request::Load { load, reply } => {
                    let table = load.table.clone();
                    let _ = reply.send(self.writing(|this| this.commit_load(load)));
                    self.merge_if_due(&table);
                }
                Request::Seal { table, reply } => {
                    let _ = reply.send(self.writing(|this| this.seal(&table)));
                    self.merge_if_due(&table);
                }
                Request::Merge { table, pass, reply } => {
                    let merged = self.writing(|this| this.merge(&table));
                    // First, so that whoever waits for the answer can load at once.
                    drop(pass);
                    // Before it is answered: whoever asks to wait then waits for the indexes, too.
                    self.index_in_background(&table);
                    let _ = reply.send(merged);
                }
                Request::AddTier { name, pool, reply } => {
                    let _ = reply.send(self.writing(|this| this.add_tier(name, pool)));
                }
                Request::DropTier { name, reply } => {
                    let _ = reply.send(self.writing(|this| this.drop_tier(&name)));
                }
                Request::Place {
                    table,
                    replicas,
                    reply,
                } => {
                    let _ = reply.send(self.writing(|this| this.place(&table, &replicas)));
                }
                Request::Extents { reply } => {
                    let _ = reply.send(self.extents());
                }
                Request::CheckOwn { mend, reply } => {
                    let _ = reply.send(match mend {
                        true => self.writing(|this| this.check_own(true)),
                        false => self.check_own(false),
                    });
                }
                Request::Repair { table, reply } => {
                    let _ = reply.send(self.writing(|this| this.heal(&table)));
                }
                Request::BeginWriting { reply } => {
                    let _ = reply.send(self.begin_writing());
                }
                Request::Heal { table } => self.heal_in_background(&table),
                Request::Index { table } => self.background.push(Task::Index(table)),
                Request::IndexKeys { table, version } => {
                    self.background.push(Task::Keys(table, version));
                }
                Request::CopyNear { table, segment } => near::copy(&self.storage, &table, segment),
                Request::PlaceNear {
                    table,
                    changes,
                    reply,
                } => {
                    near::place(&self.storage, &table, changes);
                    let _ = reply.send(());
                }
                Request::CopyIndexesNear { table } => {
                    self.background.push(Task::CopyIndexes(table));
                }
                Request::Wait { reply } => self.background.push(Task::Answer(reply)),
                Request::GiveBack => self.give_back_space(),
                Request::Losses => self.see_to_losses(),
                Request::Ended(ended) => self.publish_job(ended),
                Request::Close => break,
            }
            self.go_on_in_background();
        }
        self.mark_logs();
        self.publish_reached();
    }
}
