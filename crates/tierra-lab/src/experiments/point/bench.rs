//! One table of the point experiment: filled, prepared, read by every contender in turn. Every returned row is compared with
//! the generator's.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::Int32Type;
use tierra_column::{Cell, Dictionary, Encoding, LogicalType};
use tierra_data::Part;
use tierra_data::wide::Wide;
use tierra_engine::{ColumnSpec, RowId, Snapshot, TableSpec};
use tierra_interleave::{Cx, Execution, GroupSize, Lookups, for_each, in_mode};
use tierra_sql::{Outcome, Session};

use super::{Layout, Who, per_key_ns};
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::datafusion::InMemory;
use crate::random::Random;
use crate::row::Row;
use crate::turns::turns;

/// Rows in a batch of the in-memory table.
const BATCH_ROWS: usize = 8_192;
const TABLE: &str = "wide";

/// One table in Tierra and, in the default layout, also in DataFusion.
pub(super) struct Bench {
    wide: Wide,
    layout: Layout,
    tierra: Tierra,
    plain: Session,
    datafusion: Option<InMemory>,
    projection: Vec<usize>,
}

/// The keys of one sample, and their rows.
struct Keys {
    rows: Vec<u32>,
    values: Vec<i32>,
    ids: Vec<RowId>,
}

impl Bench {
    /// Fills the table, also in DataFusion in the default layout, and prepares the statements.
    pub(super) fn new(lab: &Lab, wide: Wide, layout: Layout) -> Result<Bench, LabError> {
        let wide = layout.shape(wide);
        let name = layout.table(wide.columns());
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
        let bench = Bench {
            wide,
            layout,
            tierra,
            plain,
            datafusion,
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
        let kinds: [fn(Execution) -> Who; 4] = [Who::Sql, Who::Reconstruct, Who::Cells, Who::Many];
        let ours = kinds
            .into_iter()
            .flat_map(|kind| both.into_iter().map(kind));
        let theirs = self
            .datafusion
            .iter()
            .flat_map(|_| [Who::DataFusion, Who::DataFusionPrepared]);
        ours.chain(theirs).collect()
    }

    /// Lets every contender read in turn: a row for each, and the derived rows.
    pub(super) fn measure(&self, lab: &Lab, rounds: usize) -> Result<Vec<Row>, LabError> {
        let mut random = Random::new(SEED);
        let contenders = self.contenders();
        let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
        let keys_of = |who: Who| match who {
            Who::DataFusion | Who::DataFusionPrepared => 1,
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
        let columns = self.layout.table(self.wide.columns());
        let mut rows: Vec<Row> = contenders
            .iter()
            .zip(samples)
            .map(|(who, samples)| {
                Row::new()
                    .text("columns", &columns)
                    .text(who.series(), who.name())
                    .count("keys", keys_of(*who) as u64)
                    .samples("time", "ns", samples)
            })
            .collect();
        rows.extend(self.derived(&columns, &rows));
        Ok(rows)
    }

    /// The rows derived from medians: the parts of a key's time, and the gain of interleaving.
    fn derived(&self, columns: &str, rows: &[Row]) -> Vec<Row> {
        let of = |who: Who| per_key_ns(rows, columns, who).unwrap_or(f64::NAN);
        let execution = Execution::Interleaved;
        let (all, engine, cells) = (
            of(Who::Sql(execution)),
            of(Who::Reconstruct(execution)),
            of(Who::Cells(execution)),
        );
        let part = |part: &str, ns| {
            Row::new()
                .text("columns", columns)
                .text("part", part)
                .number("part_ns", ns)
        };
        let gain = of(Who::Sql(Execution::Plain)) / all;
        vec![
            part("cells", cells),
            part("building the result", engine - cells),
            part("the rest", all - engine),
            Row::new()
                .text("columns", columns)
                .text("comparison", Tierra::ENGINE)
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
    fn read(&self, lab: &Lab, who: Who, keys: &Keys) -> Result<(u64, Vec<RecordBatch>), LabError> {
        match who {
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
        let chunks: Vec<_> = self
            .projection
            .iter()
            .flat_map(|&column| segments.first().map(|one| one.chunk(column)))
            .collect();
        if segments.len() != 1 {
            return Err("more than one segment").by("the lab", "looking up cells");
        }
        let mut failed = 0_usize;
        let start = Instant::now();
        for &row in &keys.rows {
            let row = row as usize;
            let columns = chunks.iter().zip(&decoders);
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
        if matches!(who, Who::Cells(_)) {
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

fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
