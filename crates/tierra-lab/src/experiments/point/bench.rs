//! One table of the point experiment: filled, prepared, read by every contender in turn. Every returned row is compared with
//! the generator's.
//!
//! The bytes of a load are bounded, so a table of many columns has several segments.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::Int32Type;
use tierra_column::{Cell, Dictionary, Encoding, LogicalType};
use tierra_data::Part;
use tierra_data::wide::Wide;
use tierra_engine::{ColumnSpec, RowId, Segment, Snapshot, TableSpec};
use tierra_interleave::{Cx, Execution, GroupSize, Lookups, for_each, in_mode};
use tierra_sql::{Outcome, Session};

use super::{Layout, Who, identity, per_key_ns};
use crate::contender::Tierra;
use crate::dataset::write_parquet;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::datafusion::InMemory;
use crate::peers::duckdb::{DuckDbError, Library, TimedRows};
use crate::random::Random;
use crate::row::Row;
use crate::turns::turns;

/// Rows in a batch of the in-memory table.
const BATCH_ROWS: usize = 8_192;
const TABLE: &str = "wide";

/// One table in Tierra and, in the default layout, also in the other engines.
pub(super) struct Bench {
    wide: Wide,
    layout: Layout,
    tierra: Tierra,
    plain: Session,
    datafusion: Option<InMemory>,
    duckdb: Option<Library>,
    projection: Vec<usize>,
}

/// The keys of one sample, and their rows.
struct Keys {
    rows: Vec<u32>,
    values: Vec<i32>,
    ids: Vec<RowId>,
}

impl Bench {
    /// Fills the table, in the default layout also in the other engines, and prepares the statements.
    pub(super) fn new(lab: &Lab, wide: Wide, layout: Layout) -> Result<Bench, LabError> {
        let wide = layout.shape(wide);
        let name = layout.of(&wide.columns().to_string());
        let tierra = Tierra::create(
            &lab.folder(&format!("point-{}", name.replace(", ", "-")))?,
            None,
        )?;
        let encoding = (layout == Layout::Dictionary).then_some(Encoding::Dictionary);
        let column = |number| ColumnSpec {
            encoding,
            ..ColumnSpec::new(Wide::column_name(number), LogicalType::Integer).not_null()
        };
        let spec = TableSpec {
            name: TABLE.to_owned(),
            columns: (0..wide.columns()).map(column).collect(),
            primary_key: vec![0],
        };
        let doing = || format!("filling a table of {} columns", wide.columns());
        let table = tierra
            .database()
            .create_table(spec)
            .by(Tierra::ENGINE, doing())?;
        let mut loader = table.loader();
        let mut batches = Vec::new();
        for batch in wide.generate(Part::WHOLE, BATCH_ROWS) {
            loader.push(batch.clone()).by(Tierra::ENGINE, doing())?;
            batches.push(batch);
        }
        loader.finish().by(Tierra::ENGINE, doing())?;
        // Few rows would stay in the tail, unpacked; this measures chunks.
        table.seal().by(Tierra::ENGINE, doing())?;
        tierra.settle()?;
        let plain = tierra.another_session(Execution::Plain)?;
        let datafusion = match layout {
            Layout::Default => Some(InMemory::of(TABLE, batches).by("DataFusion", doing())?),
            Layout::Dictionary => None,
        };
        let duckdb = match layout {
            Layout::Default => filled_duckdb(lab, wide)?,
            Layout::Dictionary => None,
        };
        let bench = Bench {
            wide,
            layout,
            tierra,
            plain,
            datafusion,
            duckdb,
            projection: (0..wide.columns() as usize).collect(),
        };
        lab.runtime().block_on(bench.prepare())?;
        Ok(bench)
    }

    async fn prepare(&self) -> Result<(), LabError> {
        let prepare = "PREPARE by_key AS SELECT * FROM wide WHERE c0 = $1";
        for session in [self.tierra.session(), &self.plain] {
            session
                .execute(prepare)
                .await
                .by(Tierra::ENGINE, "preparing")?;
            session
                .execute("PREPARE by_keys AS SELECT * FROM wide WHERE c0 IN ($1)")
                .await
                .by(Tierra::ENGINE, "preparing")?;
        }
        if let Some(datafusion) = &self.datafusion {
            datafusion
                .query("PREPARE by_key(INT) AS SELECT * FROM wide WHERE c0 = $1")
                .await
                .by("DataFusion", "preparing")?;
        }
        Ok(())
    }

    fn contenders(&self) -> Vec<Who> {
        let both = [Execution::Interleaved, Execution::Plain];
        let kinds: [fn(Execution) -> Who; 5] = [
            Who::Sql,
            Who::Library,
            Who::Reconstruct,
            Who::Cells,
            Who::Many,
        ];
        let ours = kinds
            .into_iter()
            .flat_map(|kind| both.into_iter().map(kind));
        let theirs = self
            .datafusion
            .iter()
            .flat_map(|_| [Who::DataFusion, Who::DataFusionPrepared]);
        let duckdb = self
            .duckdb
            .iter()
            .flat_map(|_| [Who::DuckDb, Who::DuckDbPrepared, Who::DuckDbCalls]);
        ours.chain(theirs).chain(duckdb).collect()
    }

    /// Lets every contender read in turn: a row for each, and the derived rows.
    pub(super) fn measure(&mut self, lab: &Lab, rounds: usize) -> Result<Vec<Row>, LabError> {
        let mut random = Random::new(SEED);
        let contenders = self.contenders();
        let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
        let keys_of = |who: Who| match who {
            Who::DataFusion | Who::DataFusionPrepared => 1,
            Who::DuckDb | Who::DuckDbPrepared => lab.size(2, 10),
            Who::Many(_) => lab.size(100, 1_000),
            _ => lab.size(10, 100),
        };
        for turn in turns(contenders.len(), rounds) {
            let who = contenders[turn.contender];
            let keys = self.draw(&mut random, keys_of(who))?;
            let (time_ns, batches) = self.read(lab, who, &keys)?;
            self.check(who, &keys, &batches)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(time_ns);
            }
        }
        let table = (self.wide.columns(), self.layout);
        let mut rows: Vec<Row> = contenders
            .iter()
            .zip(samples)
            .map(|(who, samples)| {
                let cells = identity(table, *who).into_iter();
                let row = cells.fold(Row::new(), |row, (key, text)| row.text(&key, text));
                row.count("keys", keys_of(*who) as u64)
                    .samples("time", "ns", samples)
            })
            .collect();
        rows.extend(self.derived(&rows));
        Ok(rows)
    }

    /// The rows derived from medians: the parts of a key's time, and the gain of interleaving.
    fn derived(&self, rows: &[Row]) -> Vec<Row> {
        let table = (self.wide.columns(), self.layout);
        let of = |who: Who| per_key_ns(rows, table, who).unwrap_or(f64::NAN);
        let columns = self.wide.columns().to_string();
        let execution = Execution::Interleaved;
        let (all, engine, cells) = (
            of(Who::Sql(execution)),
            of(Who::Reconstruct(execution)),
            of(Who::Cells(execution)),
        );
        let part = |part: &str, ns| {
            Row::new()
                .text("columns", &columns)
                .text("part", self.layout.of(part))
                .number("part_ns", ns)
        };
        let gain = of(Who::Sql(Execution::Plain)) / all;
        vec![
            part("cells", cells),
            part("building the result", engine - cells),
            part("the rest", all - engine),
            Row::new()
                .text("columns", &columns)
                .text("comparison", self.layout.of(Tierra::ENGINE))
                .number("plain_over_interleaved", gain),
        ]
    }

    fn draw(&self, random: &mut Random, count: usize) -> Result<Keys, LabError> {
        let rows: Vec<u32> = (0..count)
            .map(|_| random.below(self.wide.rows().into()) as u32)
            .collect();
        let values: Vec<i32> = rows.iter().map(|&row| self.wide.cell(row, 0)).collect();
        let keys: ArrayRef = Arc::new(Int32Array::from(values.clone()));
        let found = self
            .snapshot()?
            .rows_by_key(&[keys], &mut Lookups::default())
            .by(Tierra::ENGINE, "finding rows")?;
        let ids: Option<Vec<RowId>> = found.into_iter().collect();
        let ids = ids
            .ok_or("a key is missing")
            .by(Tierra::ENGINE, "finding rows")?;
        Ok(Keys { rows, values, ids })
    }

    fn snapshot(&self) -> Result<Snapshot, LabError> {
        let table = self.tierra.database().table(TABLE);
        Ok(table
            .ok_or("the table is gone")
            .by(Tierra::ENGINE, "taking a snapshot")?
            .snapshot())
    }

    /// Reads the rows of `keys` and returns the time, and the batches if there are any.
    fn read(
        &mut self,
        lab: &Lab,
        who: Who,
        keys: &Keys,
    ) -> Result<(u64, Vec<RecordBatch>), LabError> {
        match who {
            Who::Library(execution) => self.execute_one_by_one(self.session(execution), keys),
            Who::Sql(execution) => lab
                .runtime()
                .block_on(self.execute(self.session(execution), keys)),
            Who::Reconstruct(execution) => self.reconstruct(keys, execution),
            Who::Cells(execution) => Ok((self.cells(keys, execution)?, Vec::new())),
            Who::Many(execution) => {
                let values: ArrayRef = Arc::new(Int32Array::from(keys.values.clone()));
                let session = self.session(execution);
                let start = Instant::now();
                let batch = session
                    .execute_prepared("by_keys", &[values])
                    .by(Tierra::ENGINE, "executing")?;
                Ok((elapsed_ns(start), vec![batch]))
            }
            Who::DataFusion => self.ask_datafusion(lab, keys, |key| {
                format!("SELECT * FROM wide WHERE c0 = {key}")
            }),
            Who::DataFusionPrepared => {
                self.ask_datafusion(lab, keys, |key| format!("EXECUTE by_key({key})"))
            }
            Who::DuckDb | Who::DuckDbPrepared | Who::DuckDbCalls => {
                let duckdb = self.duckdb.as_mut().expect("named only where it runs");
                let (time_ns, rows) =
                    ask_duckdb(duckdb, who, keys).by(Library::ENGINE, "answering")?;
                let rows = rows_of_texts(&rows).by(Library::ENGINE, "answering")?;
                Ok((time_ns, rows.into_iter().collect()))
            }
        }
    }

    fn session(&self, execution: Execution) -> &Session {
        match execution {
            Execution::Interleaved => self.tierra.session(),
            Execution::Plain => &self.plain,
        }
    }

    async fn execute(
        &self,
        session: &Session,
        keys: &Keys,
    ) -> Result<(u64, Vec<RecordBatch>), LabError> {
        let texts: Vec<String> = keys
            .values
            .iter()
            .map(|key| format!("EXECUTE by_key({key})"))
            .collect();
        let mut batches = Vec::with_capacity(texts.len());
        let start = Instant::now();
        for text in &texts {
            if let Outcome::Rows(mut rows) =
                session.sql(text).await.by(Tierra::ENGINE, "executing")?
            {
                batches.extend(rows.collect().await.by(Tierra::ENGINE, "executing")?);
            }
        }
        Ok((elapsed_ns(start), batches))
    }

    /// The prepared statement with one key after the other, each an arrow value.
    fn execute_one_by_one(
        &self,
        session: &Session,
        keys: &Keys,
    ) -> Result<(u64, Vec<RecordBatch>), LabError> {
        let mut batches = Vec::with_capacity(keys.values.len());
        let start = Instant::now();
        for &key in &keys.values {
            let key: ArrayRef = Arc::new(Int32Array::from_value(key, 1));
            let batch = session.execute_prepared("by_key", &[key]);
            batches.push(batch.by(Tierra::ENGINE, "executing")?);
        }
        Ok((elapsed_ns(start), batches))
    }

    fn reconstruct(
        &self,
        keys: &Keys,
        execution: Execution,
    ) -> Result<(u64, Vec<RecordBatch>), LabError> {
        let snapshot = self.snapshot()?;
        let projection = snapshot.table().projection(&self.projection);
        let mut batches = Vec::with_capacity(keys.ids.len());
        let start = Instant::now();
        for row in &keys.ids {
            let batch = snapshot.reconstruct(
                std::slice::from_ref(row),
                &projection,
                &mut Lookups::new(execution),
            );
            batches.push(batch.by(Tierra::ENGINE, "reconstructing")?);
        }
        Ok((elapsed_ns(start), batches))
    }

    /// Looks up every cell of each row, one row at a time, through the column's own lookup.
    fn cells(&self, keys: &Keys, execution: Execution) -> Result<u64, LabError> {
        let snapshot = self.snapshot()?;
        let segments = snapshot.segments();
        let dictionaries: Vec<_> = self
            .projection
            .iter()
            .map(|&column| snapshot.coded_dictionary(column))
            .collect();
        let decoders: Vec<_> = dictionaries
            .iter()
            .map(|dictionary| dictionary.as_deref().map(Dictionary::decoder))
            .collect();
        let chunks: Vec<Vec<_>> = segments
            .iter()
            .map(|segment| {
                self.projection
                    .iter()
                    .map(|&column| segment.chunk(column))
                    .collect()
            })
            .collect();
        let place = |id: &RowId| {
            let holds = |segment: &Arc<Segment>| u64::from(segment.id()) == id.segment();
            Some((segments.iter().position(holds)?, id.row()))
        };
        let places: Option<Vec<(usize, usize)>> = keys.ids.iter().map(place).collect();
        let places = places.ok_or("a row is in no segment");
        let places = places.by("the lab", "looking up cells")?;
        let mut failed = 0_usize;
        let start = Instant::now();
        for (segment, row) in places {
            let columns = chunks[segment].iter().zip(&decoders);
            in_mode!(execution, M => for_each(
                GroupSize::DEFAULT,
                columns,
                |cx: Cx<M>, (chunk, decoder)| chunk.value(cx, row, decoder.as_ref()),
                |_, cell| failed += usize::from(!matches!(black_box(cell), Ok(Cell::Ordinal(_)))),
            ));
        }
        let time_ns = elapsed_ns(start);
        match failed {
            0 => Ok(time_ns),
            _ => Err(format!("{failed} cells are no integers"))
                .by(Tierra::ENGINE, "looking up cells"),
        }
    }

    fn ask_datafusion(
        &self,
        lab: &Lab,
        keys: &Keys,
        statement: impl Fn(i32) -> String,
    ) -> Result<(u64, Vec<RecordBatch>), LabError> {
        let datafusion = self
            .datafusion
            .as_ref()
            .ok_or("not loaded")
            .by("DataFusion", "answering")?;
        let texts: Vec<String> = keys.values.iter().map(|&key| statement(key)).collect();
        lab.runtime().block_on(async {
            let mut batches = Vec::with_capacity(texts.len());
            let start = Instant::now();
            for text in &texts {
                batches.extend(datafusion.query(text).await.by("DataFusion", "answering")?);
            }
            Ok((elapsed_ns(start), batches))
        })
    }

    /// Checks that every returned row is the table's, cell by cell, and that each key was returned.
    fn check(&self, who: Who, keys: &Keys, batches: &[RecordBatch]) -> Result<(), LabError> {
        if matches!(who, Who::Cells(_) | Who::DuckDbCalls) {
            return Ok(());
        }
        let mut expected = keys.rows.clone();
        let mut found = Vec::with_capacity(expected.len());
        let mut wrong = 0_usize;
        for batch in batches {
            let columns: Vec<&Int32Array> = batch
                .columns()
                .iter()
                .filter_map(|column| column.as_primitive_opt::<Int32Type>())
                .collect();
            wrong += usize::from(columns.len() != self.projection.len());
            for place in 0..batch.num_rows() {
                let row = columns
                    .first()
                    .and_then(|keys| self.wide.row_of(keys.value(place), 0))
                    .unwrap_or(u32::MAX);
                found.push(row);
                let right = |(number, column): (usize, &&Int32Array)| {
                    row < self.wide.rows()
                        && column.is_valid(place)
                        && column.value(place) == self.wide.cell(row, number as u32)
                };
                wrong += usize::from(!columns.iter().enumerate().all(right));
            }
        }
        expected.sort_unstable();
        found.sort_unstable();
        if let Who::Many(_) = who {
            // A key that occurs twice in one statement yields one row.
            expected.dedup();
        }
        if wrong == 0 && expected == found {
            return Ok(());
        }
        Err(LabError::AnswersDiffer {
            what: format!("SELECT * by key, {} columns", self.wide.columns()),
            left: who.name(),
            right: "the generator".to_owned(),
            detail: format!(
                "{} rows for {} keys, {wrong} of them wrong",
                found.len(),
                expected.len()
            ),
        })
    }
}

/// The table with its primary key in DuckDB, and the prepared statement; `None` if DuckDB is not installed.
fn filled_duckdb(lab: &Lab, wide: Wide) -> Result<Option<Library>, LabError> {
    let Some(mut duckdb) = Library::start() else {
        return Ok(None);
    };
    let folder = lab.passing_folder()?;
    let batches = wide.generate(Part::WHOLE, BATCH_ROWS);
    let file = write_parquet(folder.path(), TABLE, &wide.schema(), batches)?;
    let filled = duckdb.load_with_key(&file, &Wide::column_name(0));
    filled.by(Library::ENGINE, "filling a table")?;
    let prepared = duckdb.prepare("SELECT * FROM wide WHERE c0 = $1");
    prepared.by(Library::ENGINE, "preparing")?;
    Ok(Some(duckdb))
}

fn ask_duckdb(duckdb: &mut Library, who: Who, keys: &Keys) -> Result<TimedRows, DuckDbError> {
    let select = |key: &i32| format!("SELECT * FROM wide WHERE c0 = {key}");
    match who {
        Who::DuckDbPrepared => duckdb.execute(&keys.values),
        Who::DuckDbCalls => Ok((duckdb.call(keys.values.len())?, Vec::new())),
        _ => duckdb.queries(&keys.values.iter().map(select).collect::<Vec<_>>()),
    }
}

/// Rows of texts as a batch of integers; `None` if there are none.
fn rows_of_texts(
    rows: &[Vec<String>],
) -> Result<Option<RecordBatch>, Box<dyn Error + Send + Sync>> {
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let column = |place: usize| -> Result<(String, ArrayRef), Box<dyn Error + Send + Sync>> {
        let cells = rows
            .iter()
            .map(|row| row.get(place).map_or("", |cell| cell));
        let values = cells.map(str::parse).collect::<Result<Vec<i32>, _>>()?;
        Ok((place.to_string(), Arc::new(Int32Array::from(values))))
    };
    let columns = (0..first.len())
        .map(column)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Some(RecordBatch::try_from_iter(columns)?))
}

fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
