//! A database of SSB on the disk, in which rows are committed while something else is done with it, and which is checked after it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use arrow::util::display::array_value_to_string;
use tierra_engine::{Backup, BackupOptions, Database, DatabaseOptions, RestoreOptions, Table};
use tierra_interleave::Execution;
use tierra_sql::{Session, SessionOptions};

use super::library::InProcessWriter;
use super::writes::{Statement, TABLE};
use crate::contender::Tierra;
use crate::dataset::TableFile;
use crate::error::{At, Context, LabError};
use crate::histogram::Histogram;
use crate::lab::Lab;

/// Rows of the fact table that a transaction adds.
const PIECE_ROWS: u64 = 1_000;
/// How long a compaction may take.
const COMPACTED: Duration = Duration::from_secs(120);
/// Of ten rows of the fact table so many are deleted, without any order, so that each of its segments is compacted.
const DELETED: &str =
    "(CAST(lo_orderkey AS BIGINT) * 7919 + lo_linenumber * 104729) % 10007 % 10 < 3";
/// What tells whether a backup is of one moment.
const STATE: &str = "SELECT (SELECT count(*) FROM lineorder), (SELECT sum(lo_revenue) FROM lineorder), \
     (SELECT count(*) FROM appended), (SELECT coalesce(max(number), 0) FROM appended), \
     (SELECT count(*) FROM account), (SELECT coalesce(max(id), -1) FROM account)";

/// What a DELETE and a compaction leave of the fact table.
const FACT: &str = "SELECT count(*), sum(lo_revenue) FROM lineorder";

/// When something is done beside the commits that are measured: odd meanwhile.
#[derive(Default)]
pub(super) struct Phase(AtomicU64);

impl Phase {
    /// Does something; commits are measured meanwhile.
    pub(super) fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::SeqCst);
        let done = work();
        self.0.fetch_add(1, Ordering::SeqCst);
        done
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether something was done in a time that began then and ends now.
    fn was_since(&self, then: u64) -> bool {
        then % 2 == 1 || self.now() != then
    }
}

/// SSB's tables, and others for what is committed beside it.
pub(super) struct Ours<'a> {
    lab: &'a Lab,
    place: &'a Path,
    fact: &'a TableFile,
    tierra: Tierra,
    /// The next key of `account`.
    next: AtomicU64,
    /// The transactions that were acknowledged.
    appended: AtomicU64,
    /// Rows of the fact table and the sum of their revenues, and that of a piece.
    loaded: [i64; 2],
    piece_revenue: i64,
}

impl<'a> Ours<'a> {
    pub(super) fn create(
        lab: &'a Lab,
        place: &'a Path,
        files: &'a [TableFile],
    ) -> Result<Self, LabError> {
        let tierra = Tierra::create(&place.join("db"), None)?;
        for file in files {
            tierra.load(file)?;
        }
        let fact = files.iter().find(|file| file.table == "lineorder");
        let fact = fact
            .ok_or("it has no table `lineorder`")
            .by("SSB", "choosing a table")?;
        let mut ours = Ours {
            lab,
            place,
            fact,
            tierra,
            next: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            loaded: [0; 2],
            piece_revenue: 0,
        };
        ours.execute(&format!(
            "{TABLE}; CREATE TABLE appended (number BIGINT PRIMARY KEY);
             CREATE TABLE piece AS SELECT * FROM lineorder LIMIT {PIECE_ROWS}"
        ))?;
        let loaded = numbers(lab, ours.tierra.session(), STATE)?;
        ours.loaded = [loaded[0], loaded[1]];
        let piece = numbers(
            lab,
            ours.tierra.session(),
            "SELECT sum(lo_revenue) FROM piece",
        )?;
        ours.piece_revenue = piece[0];
        ours.tierra.settle()?;
        Ok(ours)
    }

    /// Runs statements.
    pub(super) fn execute(&self, sql: &str) -> Result<(), LabError> {
        let run = self.tierra.session().execute(sql);
        let ran = self.lab.runtime().block_on(run);
        ran.by(Tierra::ENGINE, format!("running {sql}")).map(drop)
    }

    /// The table of that name.
    pub(super) fn table(&self, name: &str) -> Result<Arc<Table>, LabError> {
        let table = self.tierra.database().table(name).ok_or("it is gone");
        table.by(Tierra::ENGINE, format!("looking for the table `{name}`"))
    }

    /// Waits for background work.
    pub(super) fn settle(&self) -> Result<(), LabError> {
        self.tierra.settle()
    }

    /// The fact table as it was.
    pub(super) fn load_again(&self) -> Result<(), LabError> {
        self.execute("DROP TABLE lineorder")?;
        self.tierra.load(self.fact)?;
        self.settle()
    }

    /// Does something while a session commits a row at a time, and perhaps another adds rows of the fact table. Of the commits those
    /// count that ran in a phase that is measured. Returns its result and how many transactions of the other session were acknowledged
    /// before it began and after it ended.
    pub(super) fn beside<T>(
        &self,
        latencies: &mut Histogram,
        appending: bool,
        work: impl FnOnce(&Phase) -> Result<T, LabError>,
    ) -> Result<(T, [u64; 2]), LabError> {
        let (stop, phase) = (AtomicBool::new(false), Phase::default());
        let session = || self.tierra.another_session(Execution::Interleaved);
        let writer = InProcessWriter::new(session()?, self.lab.runtime().handle().clone())?;
        let appender = session()?;
        std::thread::scope(|scope| {
            let committing = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let id = self.next.fetch_add(1, Ordering::Relaxed) as i64;
                    let (then, start) = (phase.now(), Instant::now());
                    writer.write_one(Statement::Insert, id)?;
                    let time_ns = start.elapsed().as_nanos() as u64;
                    if phase.was_since(then) {
                        latencies.add(time_ns, 1);
                    }
                }
                Ok::<(), LabError>(())
            });
            let appending = appending.then(|| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        self.append(&appender)?;
                    }
                    Ok::<(), LabError>(())
                })
            });
            let before = self.appended.load(Ordering::Acquire);
            let done = work(&phase);
            let after = self.appended.load(Ordering::Acquire);
            stop.store(true, Ordering::Relaxed);
            for thread in std::iter::once(committing).chain(appending) {
                thread.join().expect("it returns its errors")?;
            }
            Ok((done?, [before, after]))
        })
    }

    /// A transaction: a number, and a piece of the fact table.
    fn append(&self, session: &Session) -> Result<(), LabError> {
        let number = self.appended.load(Ordering::Acquire) + 1;
        let sql = format!(
            "BEGIN; INSERT INTO lineorder SELECT * FROM piece; INSERT INTO appended VALUES ({number}); COMMIT"
        );
        let ran = self.lab.runtime().block_on(session.execute(&sql));
        ran.by(Tierra::ENGINE, "adding rows of the fact table")?;
        self.appended.store(number, Ordering::Release);
        Ok(())
    }

    /// Deletes rows of all segments, and measures commits while these are compacted.
    pub(super) fn compact(&self, latencies: &mut Histogram) -> Result<(), LabError> {
        let table = self.table("lineorder")?;
        let session = self.tierra.session();
        let left = numbers(self.lab, session, &format!("{FACT} WHERE NOT {DELETED}"))?;
        // The session commits before: a compaction may take no longer than another session takes to begin.
        self.beside(latencies, false, |phase| {
            self.execute(&format!("DELETE FROM lineorder WHERE {DELETED}"))?;
            phase.measure(|| {
                let start = Instant::now();
                while table.snapshot().deleted_rows() > 0 {
                    if start.elapsed() > COMPACTED {
                        let rows = table.snapshot().deleted_rows();
                        return Err(format!("{rows} deleted rows are left"))
                            .by(Tierra::ENGINE, "compacting `lineorder`");
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            })
        })?;
        let compacted = numbers(self.lab, session, FACT)?;
        differ("a compaction", &compacted, &left)
    }

    /// Writes a backup while rows are appended; returns its bytes and time, and how many transactions were acknowledged before and after
    /// it.
    pub(super) fn write_backup(
        &self,
        file: &Path,
        latencies: &mut Histogram,
    ) -> Result<((u64, Duration), [u64; 2]), LabError> {
        self.beside(latencies, true, |phase| {
            let (database, options) = (self.tierra.database(), BackupOptions::default());
            let start = Instant::now();
            let summary = phase.measure(|| database.backup(file, &options, |_| {}));
            let summary = summary.by(Tierra::ENGINE, "writing a backup")?;
            Ok((summary.file_bytes, start.elapsed()))
        })
    }

    /// Takes a backup while rows are appended, restores and checks it; returns its bytes, and how many it wrote in a second.
    pub(super) fn back_up(
        &self,
        file: &Path,
        latencies: &mut Histogram,
    ) -> Result<(u64, u64), LabError> {
        let who = Tierra::ENGINE;
        // All of them were acknowledged: their session has ended.
        let accounts_before = self.next.load(Ordering::Acquire) as i64;
        let ((bytes, elapsed), [before, after]) = self.write_backup(file, latencies)?;
        let copy = self.place.join("copy");
        let options = DatabaseOptions::default();
        let backup = Backup::open(file).by(who, "opening a backup")?;
        let restored = backup.restore(&copy, &options, &RestoreOptions::default(), |_| {});
        restored.by(who, "restoring a backup")?;
        let found = {
            let database = Database::open(&copy, &options);
            let database = database.by(who, "opening a restored database")?;
            let session = Session::new(database, &SessionOptions::default());
            let session = session.by(who, "opening a restored database")?;
            numbers(self.lab, &session, STATE)?
        };
        std::fs::remove_dir_all(&copy).at(&copy)?;
        let [rows, revenue, transactions, last, accounts, newest] = found[..] else {
            unreachable!("STATE has six columns");
        };
        // Each table has the transactions up to one, the same in both, and the rows of the other session up to one.
        let expected = [
            self.loaded[0] + transactions * PIECE_ROWS as i64,
            self.loaded[1] + transactions * self.piece_revenue,
            last,
            newest + 1,
        ];
        differ(
            "a backup while rows are appended",
            &[rows, revenue, transactions, accounts],
            &expected,
        )?;
        // One may have been committed and not yet acknowledged.
        if !(before..=after + 1).contains(&(last as u64)) || accounts < accounts_before {
            let what = format!(
                "a backup has {last} transactions, which was begun after {before} and ended after {after}, and {accounts} rows of \
                 {accounts_before} before it"
            );
            return Err(LabError::WrongAnswer {
                who: who.to_owned(),
                what,
            });
        }
        let per_s = bytes as f64 / elapsed.as_secs_f64();
        Ok((bytes, per_s as u64))
    }
}

/// Fails if numbers are not those that were expected.
fn differ(what: &str, found: &[i64], expected: &[i64]) -> Result<(), LabError> {
    if found == expected {
        return Ok(());
    }
    Err(LabError::AnswersDiffer {
        what: what.to_owned(),
        left: "what it has".to_owned(),
        right: "what was acknowledged".to_owned(),
        detail: format!("{found:?} against {expected:?}"),
    })
}

/// The numbers of a row.
fn numbers(lab: &Lab, session: &Session, sql: &str) -> Result<Vec<i64>, LabError> {
    let doing = || format!("running {sql}");
    let batches = lab.runtime().block_on(session.query(sql));
    let batches = batches.by(Tierra::ENGINE, doing())?;
    let columns = batches.iter().flat_map(|batch| batch.columns());
    let number = |column: &ArrayRef| {
        let text = array_value_to_string(column, 0).by(Tierra::ENGINE, doing())?;
        text.parse().by(Tierra::ENGINE, doing())
    };
    columns.map(number).collect()
}
