//! One table: loaded, prepared, read by every contender in turn. Every returned row is compared with its source.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::Int32Type;
use tempfile::TempDir;
use tierra_engine::{Projection, RowId, Snapshot};
use tierra_interleave::{Lookups, MAX_LANES, Scheduling};
use tierra_memory::measure::{LoadTrace, record};
use tierra_sql::{Outcome, Session};

use super::shape::Shape;
use super::{AUTO, INTERLEAVED, PLAIN, What};
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::memory::Memory;
use crate::progress;
use crate::random::Random;
use crate::row::Row;
use crate::turns::turns;

const TABLE: &str = "tbl";
/// Cells that one sample reads: what runs between two replays of a contender evicts its lines.
const CELLS: u32 = 80_000;
/// The number of samples' rows that fill the modelled cache after another setting has emptied it.
const CACHE_FILLS: usize = 8;

/// One table, and the sessions that read it.
pub(in crate::experiments) struct Bench {
    shape: Shape,
    name: String,
    tierra: Tierra,
    sessions: [(Scheduling, Session); 3],
    projection: Projection,
    load_ns: u64,
    /// The folder of the database, removed with it.
    _folder: TempDir,
}

/// The rows of one sample: their keys, and where they are.
struct Wanted {
    rows: Vec<u32>,
    keys: Vec<i32>,
    ids: Vec<RowId>,
}

impl Bench {
    /// Loads the table and prepares the statement.
    pub(in crate::experiments) fn new(
        lab: &Lab,
        name: &str,
        shape: Shape,
    ) -> Result<Bench, LabError> {
        let doing = || format!("loading the table {name}");
        let folder = lab.passing_folder()?;
        let tierra = Tierra::create(&folder.path().join("database"), None)?;
        let table = tierra.database().create_table(shape.spec(TABLE));
        let table = table.by(Tierra::ENGINE, doing())?;
        // The key is read twice: also for its index.
        let progress = progress::bar("columns", shape.columns() as usize + 1);
        progress.set_message(name.to_owned());
        let start = Instant::now();
        let mut loader = table.loader();
        loader
            .push_columns(&shape.source(&progress))
            .by(Tierra::ENGINE, doing())?;
        loader.finish().by(Tierra::ENGINE, doing())?;
        let load_ns = elapsed_ns(start);
        progress.finish_and_clear();
        // Few rows would stay in the tail, unpacked; this measures chunks.
        table.seal().by(Tierra::ENGINE, doing())?;
        tierra.settle()?;
        let session = |scheduling| Ok((scheduling, tierra.another_session(scheduling)?));
        let sessions = [session(PLAIN)?, session(INTERLEAVED)?, session(AUTO)?];
        for (_, session) in &sessions {
            let prepare = format!("PREPARE by_key AS SELECT * FROM {TABLE} WHERE c0 = $1");
            let prepared = lab.runtime().block_on(session.execute(&prepare));
            prepared.by(Tierra::ENGINE, "preparing")?;
        }
        let every: Vec<usize> = (0..shape.columns() as usize).collect();
        let projection = table.projection(&every);
        Ok(Bench {
            shape,
            name: name.to_owned(),
            tierra,
            sessions,
            projection,
            load_ns,
            _folder: folder,
        })
    }

    /// Lets every contender read in turn: a row for each, and the derived rows.
    pub(in crate::experiments) fn measure(
        &self,
        lab: &Lab,
        rounds: usize,
    ) -> Result<Vec<Row>, LabError> {
        let mut random = Random::new(SEED);
        let mut rows = vec![self.describe(&mut random)?];
        for contenders in What::turns() {
            if let [(memory @ Memory::OptaneOverlapping, _), ..] = contenders[..] {
                for _ in 0..CACHE_FILLS {
                    let wanted = self.draw(&mut random)?;
                    memory.during(|| self.gather(&wanted, INTERLEAVED))?;
                }
            }
            let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
            // The lines of the previous round's rows; they have left the caches.
            let mut traces = vec![LoadTrace::default(); contenders.len()];
            for turn in turns(contenders.len(), rounds) {
                let (memory, what) = contenders[turn.contender];
                let wanted = self.draw(&mut random)?;
                let time_ns = match what {
                    What::Replay => {
                        let trace = &mut traces[turn.contender];
                        let time = memory.during(|| Ok(trace.replay(MAX_LANES)))?;
                        let (read, recorded) = record(|| self.gather(&wanted, INTERLEAVED));
                        read?;
                        *trace = recorded;
                        time.as_nanos() as u64
                    }
                    What::Statement(scheduling) => {
                        let session = self.session(scheduling);
                        let run = || lab.runtime().block_on(self.execute(session, &wanted));
                        memory.during(run)?
                    }
                    What::Reconstruction(scheduling) => {
                        memory.during(|| self.reconstruct(&wanted, scheduling))?
                    }
                    What::Gathering(scheduling) => {
                        memory.during(|| self.gather(&wanted, scheduling))?
                    }
                };
                if !turn.is_warm_up() {
                    samples[turn.contender].push(time_ns);
                }
            }
            let measured = contenders.iter().zip(samples);
            rows.extend(measured.map(|(&(memory, what), samples)| {
                Row::new()
                    .text("table", &self.name)
                    .text("memory", memory.name())
                    .text(what.series(memory), what.name(memory))
                    .count("rows", self.sample_rows() as u64)
                    .samples("time", "ns", samples)
            }));
        }
        rows.extend(super::ratios(&rows, &self.name));
        Ok(rows)
    }

    /// The loaded data, and the position of its cells.
    fn describe(&self, random: &mut Random) -> Result<Row, LabError> {
        let (snapshot, wanted) = (self.snapshot()?, self.draw(random)?);
        let cells = snapshot.cells_by_tier(&wanted.ids, self.projection.columns());
        let (read, trace) = record(|| self.gather(&wanted, INTERLEAVED));
        read?;
        let per_row = |count: usize| count as f64 / wanted.rows.len() as f64;
        Ok(Row::new()
            .text("table", &self.name)
            .count("columns", self.shape.columns().into())
            .count("table_rows", self.shape.rows().into())
            .count("stored_bytes", self.tierra.stored_bytes())
            .count("load_ns", self.load_ns)
            .number("lines_per_row", per_row(trace.distinct_lines()))
            .flag("all_cells_near", cells.far == 0))
    }

    fn sample_rows(&self) -> usize {
        (CELLS / self.shape.columns()).clamp(1, self.shape.rows()) as usize
    }

    fn session(&self, scheduling: Scheduling) -> &Session {
        let found = self.sessions.iter().find(|(own, _)| *own == scheduling);
        &found.expect("there is a session for every scheduling").1
    }

    fn snapshot(&self) -> Result<Snapshot, LabError> {
        let table = self.tierra.database().table(TABLE);
        Ok(table
            .ok_or("the table is gone")
            .by(Tierra::ENGINE, "taking a snapshot")?
            .snapshot())
    }

    fn draw(&self, random: &mut Random) -> Result<Wanted, LabError> {
        let rows: Vec<u32> = (0..self.sample_rows())
            .map(|_| random.below(self.shape.rows().into()) as u32)
            .collect();
        let keys: Vec<i32> = rows.iter().map(|&row| self.shape.key(row)).collect();
        let values: ArrayRef = Arc::new(Int32Array::from(keys.clone()));
        let found = self
            .snapshot()?
            .rows_by_key(&[values], &mut Lookups::default());
        let ids = found.by(Tierra::ENGINE, "finding rows")?;
        let ids: Option<Vec<RowId>> = ids.into_iter().collect();
        let ids = ids.ok_or("a key is missing");
        let ids = ids.by(Tierra::ENGINE, "finding rows")?;
        Ok(Wanted { rows, keys, ids })
    }

    /// The time of the statements; each row is compared before the next statement.
    async fn execute(&self, session: &Session, wanted: &Wanted) -> Result<u64, LabError> {
        let mut time_ns = 0;
        for (&row, key) in wanted.rows.iter().zip(&wanted.keys) {
            let text = format!("EXECUTE by_key({key})");
            let mut batches = Vec::new();
            let start = Instant::now();
            if let Outcome::Rows(mut rows) =
                session.sql(&text).await.by(Tierra::ENGINE, "executing")?
            {
                batches = rows.collect().await.by(Tierra::ENGINE, "executing")?;
            }
            time_ns += elapsed_ns(start);
            self.check(&batches, row)?;
        }
        Ok(time_ns)
    }

    /// The time to build the rows as batches.
    fn reconstruct(&self, wanted: &Wanted, scheduling: Scheduling) -> Result<u64, LabError> {
        let snapshot = self.snapshot()?;
        let mut time_ns = 0;
        for (&row, id) in wanted.rows.iter().zip(&wanted.ids) {
            let lookups = &mut Lookups::new(scheduling);
            let start = Instant::now();
            let batch = snapshot.reconstruct(from_ref(id), &self.projection, lookups);
            time_ns += elapsed_ns(start);
            self.check(&[batch.by(Tierra::ENGINE, "reconstructing")?], row)?;
        }
        Ok(time_ns)
    }

    /// The time to gather their values, before they become arrays.
    fn gather(&self, wanted: &Wanted, scheduling: Scheduling) -> Result<u64, LabError> {
        let snapshot = self.snapshot()?;
        let mut time_ns = 0;
        for (&row, id) in wanted.rows.iter().zip(&wanted.ids) {
            let lookups = &mut Lookups::new(scheduling);
            let start = Instant::now();
            let gathered = snapshot.gather(from_ref(id), &self.projection, lookups);
            time_ns += elapsed_ns(start);
            let gathered = gathered.by(Tierra::ENGINE, "gathering")?;
            let batch = gathered.into_batch();
            self.check(&[batch.by(Tierra::ENGINE, "making arrays")?], row)?;
        }
        Ok(time_ns)
    }

    /// Checks that the result is the requested row.
    fn check(&self, batches: &[RecordBatch], row: u32) -> Result<(), LabError> {
        let detail = match batches {
            [batch] if batch.num_rows() == 1 && self.shape.is_row(batch, 0, row) => return Ok(()),
            [batch] if batch.num_rows() == 1 => {
                let found = batch.columns().first();
                let found = found
                    .and_then(|keys| keys.as_primitive_opt::<Int32Type>())
                    .and_then(|keys| self.shape.row_of(keys.value(0)));
                format!("row {row} was asked for, the key that came back is that of {found:?}")
            }
            batches => {
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                format!("{rows} rows for the key of row {row}")
            }
        };
        Err(LabError::AnswersDiffer {
            what: format!("SELECT * by key, {}", self.name),
            left: Tierra::ENGINE.to_owned(),
            right: "the generator".to_owned(),
            detail,
        })
    }
}

fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
