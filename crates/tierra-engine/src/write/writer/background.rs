//! Background work of the writer, done by another thread so that appends do not wait for it.
//!
//! Tasks are done in the order of the requests: indexes are built, then copied near, and a caller that waits is answered once all
//! earlier tasks are done. A *job* is the slow part of a task: it reads immutable data and writes what no manifest names yet. The
//! writer publishes its result, or drops it if the table has changed too much meanwhile.
//!
//! Invariant: at most one job runs, and none outlives the writer.

use std::collections::VecDeque;
use std::mem::discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use super::jobs::{Ended, Job, Made};
use crate::storage::Storage;
use crate::table::Table;
use crate::table::requests::{Request, Requests};
use crate::table::version::TableVersion;

/// A background task.
pub(super) enum BackgroundTask {
    /// Builds the missing parts of a table's indexes.
    Index(Arc<Table>),
    /// Copies the parts of a table's indexes near.
    CopyIndexes(Arc<Table>),
    /// Copies a segment's chunks near, some of which have to be encoded for it. Last: nothing else waits for it.
    CopyChunks(Arc<Table>, u32),
    /// Builds a version's key index.
    Keys(Arc<Table>, Arc<TableVersion>),
    /// Compacts segments of a table.
    Compact(Arc<Table>),
    /// Signals that all earlier tasks are done.
    Answer(SyncSender<()>),
}

impl BackgroundTask {
    fn table(&self) -> Option<&Arc<Table>> {
        match self {
            BackgroundTask::Index(table)
            | BackgroundTask::CopyIndexes(table)
            | BackgroundTask::CopyChunks(table, _)
            | BackgroundTask::Keys(table, _)
            | BackgroundTask::Compact(table) => Some(table),
            BackgroundTask::Answer(_) => None,
        }
    }

    /// Whether the two tasks may run in either order.
    fn is_independent_of(&self, other: &BackgroundTask) -> bool {
        match (self.table(), other.table()) {
            (Some(_), Some(_)) if self.is_last() || other.is_last() => true,
            (Some(a), Some(b)) => !Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Whether it is done before another one that was asked for earlier.
    fn is_before(&self, other: &BackgroundTask) -> bool {
        self.table().is_some() && !self.is_last() && other.is_last()
    }

    fn is_last(&self) -> bool {
        matches!(self, BackgroundTask::CopyChunks(..))
    }
}

/// A writer's tasks.
#[derive(Default)]
pub(super) struct Background {
    /// The first one is in progress if a job runs.
    tasks: VecDeque<BackgroundTask>,
    job: Option<JoinHandle<Ended>>,
}

impl Background {
    /// Adds a task, unless the same one is queued and not begun.
    pub(super) fn push(&mut self, task: BackgroundTask) {
        let waiting = self.tasks.iter().skip(1).rev();
        let mut dependent = waiting.skip_while(|other| task.is_independent_of(other));
        let is_asked_for = dependent
            .next()
            .is_some_and(|last| discriminant(last) == discriminant(&task));
        if task.table().is_some() && is_asked_for {
            return;
        }
        let mut waiting = self.tasks.iter().enumerate().skip(1);
        let overtaken = waiting.find(|(_, other)| task.is_before(other));
        let at = overtaken.map_or(self.tasks.len(), |(at, _)| at);
        self.tasks.insert(at, task);
    }

    /// Adds a task to be done next.
    pub(super) fn push_front(&mut self, task: BackgroundTask) {
        self.tasks.push_front(task);
    }

    /// The task to begin or to continue; `None` while a job runs.
    pub(super) fn next(&self) -> Option<&BackgroundTask> {
        self.tasks.front().filter(|_| self.job.is_none())
    }

    /// Removes the first task, which is done.
    pub(super) fn pop(&mut self) -> Option<BackgroundTask> {
        self.tasks.pop_front()
    }

    /// Runs `job` on another thread, which tells the writer when the job is over. Returns the result if no thread can be started.
    pub(super) fn start(
        &mut self,
        storage: &Arc<Storage>,
        requests: &Requests,
        job: Job,
    ) -> Result<(), Ended> {
        let (storage, requests, job) = (storage.clone(), requests.clone(), Arc::new(job));
        let run = job.clone();
        let thread = std::thread::Builder::new().name("tierra-index".to_owned());
        let spawned = thread.spawn(move || {
            // A panic is a bug, and must not keep callers waiting for the job.
            let made = catch_unwind(AssertUnwindSafe(|| run.run(&storage)));
            let made = made.unwrap_or_else(|_| Made::Nothing {
                why: "one panicked".to_owned(),
            });
            requests.send(Request::JobEnded);
            Ended { job: run, made }
        });
        match spawned {
            Ok(thread) => {
                self.job = Some(thread);
                Ok(())
            }
            Err(error) => Err(Ended {
                job,
                made: Made::Nothing {
                    why: error.to_string(),
                },
            }),
        }
    }

    /// The result of the job that has ended.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        // The thread has reported its end, and catches its panics.
        self.job.take()?.join().ok()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnSpec, Database, DatabaseOptions, IndexKind, TableSpec};
    use arrow::array::{Int32Array, RecordBatch};
    use tierra_column::LogicalType;

    fn table(database: &Database, name: &str) -> Arc<Table> {
        let column = ColumnSpec {
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new("number", LogicalType::Integer)
        };
        let spec = TableSpec {
            name: name.to_owned(),
            columns: vec![column],
            primary_key: Vec::new(),
        };
        database.create_table(spec).unwrap()
    }

    fn rows(table: &Table, numbers: std::ops::Range<i32>) -> RecordBatch {
        let numbers = Int32Array::from_iter_values(numbers);
        RecordBatch::try_new(table.schema(), vec![Arc::new(numbers)]).unwrap()
    }

    fn create(dir: &tempfile::TempDir) -> Arc<Database> {
        let options = DatabaseOptions {
            threads: std::num::NonZeroUsize::new(1),
            near_memory_bytes: Some(1 << 20),
            ..DatabaseOptions::default()
        };
        Database::create(&dir.path().join("db"), &options).unwrap()
    }

    /// Loads one more segment.
    fn load(table: &Arc<Table>, numbers: std::ops::Range<i32>) {
        table.append(&[rows(table, numbers)]).unwrap();
        table.seal().unwrap();
    }

    #[test]
    fn chunks_are_copied_after_what_others_wait_for() {
        let dir = tempfile::tempdir().unwrap();
        let database = create(&dir);
        let (table, mut background) = (table(&database, "t"), Background::default());
        let (reply, _answer) = std::sync::mpsc::sync_channel(1);
        for segment in [1, 2] {
            background.push(BackgroundTask::CopyChunks(table.clone(), segment));
        }
        let of_indexes = [BackgroundTask::Index, BackgroundTask::CopyIndexes];
        for task in of_indexes.iter().flat_map(|task| [task, task]) {
            background.push(task(table.clone()));
        }
        background.push(BackgroundTask::Answer(reply));
        background.push(BackgroundTask::CopyChunks(table.clone(), 3));
        let order = background.tasks.iter().map(|task| match task {
            BackgroundTask::CopyChunks(_, segment) => segment.to_string(),
            BackgroundTask::Index(_) => "index".to_owned(),
            BackgroundTask::CopyIndexes(_) => "indexes near".to_owned(),
            BackgroundTask::Answer(_) => "answer".to_owned(),
            _ => unreachable!("it was not pushed"),
        });
        // The first may have begun.
        let expected = ["1", "index", "indexes near", "2", "answer", "3"];
        assert_eq!(order.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn writes_are_answered_while_an_index_is_built() {
        let dir = tempfile::tempdir().unwrap();
        let database = create(&dir);
        let table = table(&database, "t");
        let held = table.storage().held_by_test.lock().unwrap();
        load(&table, 0..5000);
        table.append(&[rows(&table, 5000..5010)]).unwrap();
        table.seal().unwrap();
        table.append(&[rows(&table, 5010..5020)]).unwrap();
        let snapshot = table.snapshot();
        assert_eq!((snapshot.rows(), snapshot.indexed_rows(0)), (5020, 0));
        drop(held);
        database.wait_for_near_copies().unwrap();
        let snapshot = table.snapshot();
        assert_eq!((snapshot.rows(), snapshot.indexed_rows(0)), (5020, 5010));
    }

    /// As after a kill right after a commit: the next open builds what is missing.
    #[test]
    fn what_was_to_be_built_is_built_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("db"), dir.path().join("killed"));
        let database = create(&dir);
        let column = ColumnSpec {
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new("number", LogicalType::Integer).not_null()
        };
        let spec = TableSpec {
            name: "t".to_owned(),
            columns: vec![column],
            primary_key: vec![0],
        };
        let table = database.create_table(spec).unwrap();
        let held = table.storage().held_by_test.lock().unwrap();
        // Not in key order, so that the segment brings no run of its own.
        let numbers = Int32Array::from_iter_values((0..5000).rev());
        let batch = RecordBatch::try_new(table.schema(), vec![Arc::new(numbers)]).unwrap();
        table.append(&[batch]).unwrap();
        table.seal().unwrap();
        let built = |table: &Arc<Table>| {
            let snapshot = table.snapshot();
            (snapshot.key_index().listed_rows, snapshot.indexed_rows(0))
        };
        assert_eq!(built(&table), (0, 0));
        std::fs::create_dir(&to).unwrap();
        for file in std::fs::read_dir(&from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        drop(held);
        let killed = Database::open(&to, &DatabaseOptions::default()).unwrap();
        killed.wait_for_near_copies().unwrap();
        assert_eq!(built(&killed.table("t").unwrap()), (5000, 5000));
    }

    #[test]
    fn a_part_in_codes_of_before_a_merge_is_never_named() {
        let dir = tempfile::tempdir().unwrap();
        let database = create(&dir);
        let table = table(&database, "t");
        let held = table.storage().held_by_test.lock().unwrap();
        load(&table, 5000..10_000);
        // A job that has read these codes may be waiting by now.
        load(&table, 0..5000);
        table.merge_dictionaries().unwrap();
        assert_eq!(table.snapshot().indexed_rows(0), 0);
        drop(held);
        database.wait_for_near_copies().unwrap();
        let snapshot = table.snapshot();
        assert_eq!(snapshot.indexed_rows(0), 10_000);
        let generation = snapshot.coded_dictionary(0).unwrap().generation();
        let parts = table.current().indexes.clone();
        assert!(
            parts
                .iter()
                .all(|part| part.entry().generation == generation)
        );
    }

    #[test]
    fn a_table_goes_while_its_index_is_built_and_so_does_the_database() {
        let dir = tempfile::tempdir().unwrap();
        let database = create(&dir);
        let (first, second) = (table(&database, "a"), table(&database, "b"));
        let held = first.storage().held_by_test.lock().unwrap();
        load(&first, 0..3000);
        load(&second, 0..3000);
        database.drop_table("a").unwrap();
        drop(held);
        database.wait_for_near_copies().unwrap();
        let indexed = |table: &Arc<Table>| table.snapshot().indexed_rows(0);
        assert_eq!((indexed(&first), indexed(&second)), (0, 3000));
        load(&second, 3000..6000);
        drop((first, second, database));
        let database = Database::open(&dir.path().join("db"), &DatabaseOptions::default());
        let database = database.unwrap();
        database.wait_for_near_copies().unwrap();
        assert_eq!(indexed(&database.table("b").unwrap()), 6000);
    }

    #[test]
    fn tasks_that_wait_are_asked_for_once() {
        let dir = tempfile::tempdir().unwrap();
        let database = create(&dir);
        let (a, b) = (table(&database, "a"), table(&database, "b"));
        let mut background = Background::default();
        let (index, copy) = (BackgroundTask::Index, BackgroundTask::CopyIndexes);
        for (task, tasks) in [
            (index(a.clone()), 1),
            // The first task may be in progress.
            (index(a.clone()), 2),
            (index(a.clone()), 2),
            (index(b.clone()), 3),
            (index(a.clone()), 3),
            (copy(a.clone()), 4),
            // An earlier copy task would miss what this task builds.
            (index(a.clone()), 5),
            (copy(b.clone()), 6),
            (copy(a), 7),
            (copy(b), 7),
        ] {
            background.push(task);
            assert_eq!(background.tasks.len(), tasks);
        }
    }
}
