//! What a commit does: rows that go and rows that come, of any number of tables, all of them or none.
//!
//! Few rows take the way through the tables' logs, on the thread that asks ([`Requests::commit`]) or together with those of other
//! commits that wait.
//! Many become segments at once, and one manifest commits them with the bitmaps of the deleted rows ([`Request::Bulk`]).
//!
//! Invariant: everything slow is done here, on the caller's thread: rows are checked, encoded and written before the writer is
//! asked.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::deleted::row_ids::RowIds;
use crate::error::{CommitError, InputError};
use crate::slice_bytes::slice_bytes;
use crate::table::Table;
use crate::table::requests::{
    BulkChange, BulkCommit, Request, Requests, SeenRows, TableChange, TailRows,
};
use crate::table::snapshot::Snapshot;
use crate::tail::Record;

/// Larger sets of deleted rows are stored as bitmaps at once.
const LOGGED_DELETED_BYTES_MOST: usize = 1 << 20;

/// A commit of more rows or bytes is not prepared where it must not block.
const PROMPT_ROWS_MOST: usize = 1_000;
const PROMPT_BYTES_MOST: usize = 64 << 10;

/// What a commit does to one table. An UPDATE deletes rows and appends others.
#[derive(Clone, Debug)]
pub struct Change {
    /// In which the deleted rows were seen. Its table is the one that changes.
    pub snapshot: Snapshot,
    /// Rows of the snapshot that go.
    pub deleted: RowIds,
    /// Rows that come, as [`Table::append`] takes them.
    pub appended: Vec<RecordBatch>,
}

/// A commit that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Its number. Later commits have greater ones; commits that waited at the same time share one. 0 if there was nothing to do.
    pub number: u64,
    /// Rows deleted, in all tables.
    pub deleted: u64,
    /// Rows appended, in all tables.
    pub appended: u64,
}

/// What became of a commit that was asked for.
#[derive(Debug)]
#[must_use]
pub enum Submitted {
    /// It is durable and visible.
    Done(Committed),
    /// It is not made yet.
    Waiting(Waiting),
}

/// A commit that takes longer. If it is dropped, nothing is changed.
#[must_use]
pub struct Waiting(Box<dyn FnOnce() -> Result<Committed, CommitError> + Send>);

impl Waiting {
    fn of(outcome: impl FnOnce() -> Result<Committed, CommitError> + Send + 'static) -> Submitted {
        Submitted::Waiting(Self(Box::new(outcome)))
    }

    /// Makes the commit. Blocks: it is made on this thread, or by the writer's.
    ///
    /// # Errors
    /// [`CommitError`]; nothing is changed.
    pub fn wait(self) -> Result<Committed, CommitError> {
        (self.0)()
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Waiting").finish_non_exhaustive()
    }
}

/// A change whose rows were checked.
struct Accepted {
    table: Arc<Table>,
    deleted: SeenRows,
    batches: Vec<RecordBatch>,
    /// The batches as one for the tail; `None` if they are too many.
    tail: Option<RecordBatch>,
}

impl Accepted {
    fn of(change: Change) -> Result<Self, CommitError> {
        let Change {
            snapshot,
            deleted,
            appended,
        } = change;
        let table = snapshot.table().clone();
        if let Some(row) = snapshot.version().first_missing(&deleted) {
            return Err(CommitError::UnknownRow {
                table: table.spec().name.clone(),
                row: row.get(),
            });
        }
        let batches = appended.iter().map(|batch| table.input().accept(batch));
        let batches = batches.collect::<Result<Vec<_>, InputError>>()?;
        let tail = table.as_tail_batch(&batches)?;
        Ok(Self {
            tail,
            table,
            deleted: SeenRows {
                numbering: (!deleted.is_empty()).then(|| snapshot.version().numbering.clone()),
                ids: deleted,
            },
            batches,
        })
    }

    fn rows(&self) -> u64 {
        self.batches
            .iter()
            .map(|batch| batch.num_rows() as u64)
            .sum()
    }

    fn bytes(&self) -> u64 {
        let columns = self.batches.iter().flat_map(RecordBatch::columns);
        columns.map(|values| slice_bytes(values) as u64).sum()
    }

    fn is_small(&self) -> bool {
        self.tail.is_some() && self.deleted.ids.stored_bytes() <= LOGGED_DELETED_BYTES_MOST
    }

    fn for_log(self) -> Result<TableChange, CommitError> {
        let rows = self.tail.filter(|batch| batch.num_rows() > 0);
        TableChange::new(self.table, self.deleted, rows)
    }

    /// Encodes the rows as segments.
    fn for_manifest(self) -> Result<BulkChange, CommitError> {
        let mut loader = self.table.loader();
        for batch in self.batches {
            loader.push(batch)?;
        }
        let has_rows = loader.rows() > 0;
        let load = has_rows.then(|| loader.into_load()).transpose()?;
        Ok(BulkChange {
            table: self.table,
            deleted: self.deleted,
            load,
        })
    }
}

impl TableChange {
    /// A change with its log record. `rows` share no memory with others.
    pub(crate) fn new(
        table: Arc<Table>,
        deleted: SeenRows,
        rows: Option<RecordBatch>,
    ) -> Result<Self, CommitError> {
        let record = encoded(&table, &deleted.ids, rows.as_ref())?;
        let rows = rows.map(|batch| TailRows {
            keys: table.key().map(|key| key.normalize_batch(&batch)),
            batch,
        });
        Ok(Self {
            table,
            deleted,
            rows,
            record,
        })
    }

    /// Finds the rows that go again where compaction has put them. Called by the writer, which alone moves rows.
    ///
    /// # Errors
    /// [`CommitError::Conflict`]: one was deleted before.
    pub(crate) fn follow(&mut self) -> Result<(), CommitError> {
        if self.deleted.follow(&self.table)? {
            let rows = self.rows.as_ref().map(|rows| &rows.batch);
            self.record = encoded(&self.table, &self.deleted.ids, rows)?;
        }
        Ok(())
    }
}

impl SeenRows {
    /// Takes the numbers that the rows of `table` have now. Returns whether any has another one than before.
    ///
    /// # Errors
    /// [`CommitError::Conflict`]: one was deleted before it could be moved.
    pub(crate) fn follow(&mut self, table: &Table) -> Result<bool, CommitError> {
        let Some(numbering) = &self.numbering else {
            return Ok(false);
        };
        let followed = numbering.follow(&self.ids);
        let followed = followed.map_err(|row| CommitError::Conflict {
            table: table.spec().name.clone(),
            row: row.get(),
        })?;
        let Some((ids, numbering)) = followed else {
            return Ok(false);
        };
        *self = SeenRows {
            ids,
            numbering: Some(numbering),
        };
        Ok(true)
    }
}

/// The log record of a change.
fn encoded(
    table: &Table,
    deleted: &RowIds,
    rows: Option<&RecordBatch>,
) -> Result<Record, CommitError> {
    let record = Record::of(deleted, rows);
    Ok(record.map_err(|source| InputError::Arrow {
        table: table.spec().name.clone(),
        source,
    })?)
}

/// Commits changes of different tables: all of them or none. Blocks.
pub(crate) fn commit(requests: &Requests, changes: Vec<Change>) -> Result<Committed, CommitError> {
    match Prepared::of(changes)? {
        Some(prepared) => prepared.commit(requests),
        None => Ok(Committed::default()),
    }
}

/// Commits changes of different tables where that takes microseconds, or returns what is to be waited for.
pub(crate) fn submit(requests: &Requests, changes: Vec<Change>) -> Result<Submitted, CommitError> {
    if !are_few(&changes) {
        let requests = requests.clone();
        return Ok(Waiting::of(move || commit(&requests, changes)));
    }
    let Some(Prepared { work, effect }) = Prepared::of(changes)? else {
        return Ok(Submitted::Done(Committed::default()));
    };
    let work = match work {
        Work::Log(changes) => match requests.try_commit(changes) {
            Ok(number) => return Ok(Submitted::Done(effect.made(number?))),
            Err(changes) => Work::Log(changes),
        },
        manifest => manifest,
    };
    let requests = requests.clone();
    let prepared = Prepared { work, effect };
    Ok(Waiting::of(move || prepared.commit(&requests)))
}

/// Whether the changes are prepared in microseconds.
fn are_few(changes: &[Change]) -> bool {
    let bytes = |batch: &RecordBatch| batch.columns().iter().map(slice_bytes).sum::<usize>();
    let rows = |change: &Change| {
        let appended = change.appended.iter().map(RecordBatch::num_rows);
        appended.sum::<usize>() + change.deleted.len() as usize
    };
    changes.iter().map(rows).sum::<usize>() <= PROMPT_ROWS_MOST && {
        let appended = changes.iter().flat_map(|change| &change.appended);
        appended.map(bytes).sum::<usize>() <= PROMPT_BYTES_MOST
    }
}

/// A commit whose rows are checked and encoded.
struct Prepared {
    work: Work,
    effect: Effect,
}

/// What the writer is asked for.
enum Work {
    Log(Vec<TableChange>),
    Manifest(BulkCommit),
}

/// What a commit changes.
struct Effect {
    /// Without its number.
    committed: Committed,
    /// One of those that change.
    table: Arc<Table>,
    taken_bytes: u64,
}

impl Prepared {
    /// `None` if there is nothing to do.
    fn of(changes: Vec<Change>) -> Result<Option<Self>, CommitError> {
        let accepted = changes.into_iter().map(Accepted::of);
        let mut accepted = accepted.collect::<Result<Vec<_>, _>>()?;
        accepted.sort_by_key(|change| change.table.id());
        let mut pairs = accepted.windows(2);
        if let Some(pair) = pairs.find(|pair| pair[0].table.id() == pair[1].table.id()) {
            let table = pair[0].table.spec().name.clone();
            return Err(CommitError::TableTwice { table });
        }
        accepted.retain(|change| !change.deleted.ids.is_empty() || change.rows() > 0);
        let Some(first) = accepted.first() else {
            return Ok(None);
        };
        let effect = Effect {
            committed: Committed {
                number: 0,
                deleted: accepted.iter().map(|change| change.deleted.ids.len()).sum(),
                appended: accepted.iter().map(Accepted::rows).sum(),
            },
            table: first.table.clone(),
            taken_bytes: accepted.iter().map(Accepted::bytes).sum(),
        };
        let work = if accepted.iter().all(Accepted::is_small) {
            let changes = accepted.into_iter().map(Accepted::for_log);
            Work::Log(changes.collect::<Result<_, _>>()?)
        } else {
            let changes = accepted.into_iter().map(Accepted::for_manifest);
            Work::Manifest(BulkCommit {
                changes: changes.collect::<Result<_, _>>()?,
            })
        };
        Ok(Some(Self { work, effect }))
    }

    /// Blocks.
    fn commit(self, requests: &Requests) -> Result<Committed, CommitError> {
        let number = match self.work {
            Work::Log(changes) => requests.commit(changes)?,
            Work::Manifest(commit) => requests.ask(|reply| Request::Bulk { commit, reply })??,
        };
        Ok(self.effect.made(number))
    }
}

impl Effect {
    /// The commit, which was made.
    fn made(&self, number: u64) -> Committed {
        self.table.storage().note_taken(self.taken_bytes);
        Committed {
            number,
            ..self.committed
        }
    }
}
