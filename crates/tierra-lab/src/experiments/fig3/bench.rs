//! One column of figure 3: loaded, then searched and queried by every contender in turn.
//!
//! A turn uses new values each time. Lookups of values alone run twice, and the second run counts: the caches then hold what
//! this way of searching left, not what the previous contender left. A statement runs once: its list of 100 kB and more was
//! parsed in between.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use tempfile::TempDir;
use tierra_column::{Dictionary, Filter, Value, ValueSet};
use tierra_engine::{IndexKind, TableSpec};
use tierra_interleave::{Execution, Lookups};
use tierra_memory::in_mode;
use tierra_sql::{Outcome, Session};

use super::column::{Column, Kind};
use super::sorted::Sorted;
use super::{LIST, What};
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::memory::Memory;
use crate::progress;
use crate::random::Random;
use crate::row::Row;
use crate::turns::turns;

const TABLE: &str = "tbl";
const COLUMN: &str = "col";
/// Lists that fill the modelled cache after another setting has emptied it.
const CACHE_FILLS: usize = 32;

/// A table of one column, and the sessions that query it.
pub(super) struct Bench {
    column: Column,
    index: Option<IndexKind>,
    tierra: Tierra,
    plain: Session,
    dictionary: Arc<Dictionary>,
    /// Present if values alone are looked up in other ways than the product's.
    sorted: Option<Sorted>,
    load_ns: u64,
    /// The folder of the database, removed with it.
    _folder: TempDir,
}

impl Bench {
    /// Loads the table. With an index it serves statements only.
    pub(super) fn new(
        lab: &Lab,
        column: Column,
        index: Option<IndexKind>,
    ) -> Result<Bench, LabError> {
        let doing = || format!("loading the {} column", column.kind.name());
        let folder = lab.passing_folder()?;
        let tierra = Tierra::create(&folder.path().join("database"), None)?;
        let table = tierra.database().create_table(TableSpec {
            name: TABLE.to_owned(),
            columns: vec![column.spec(COLUMN, index)],
            primary_key: Vec::new(),
        });
        let table = table.by(Tierra::ENGINE, doing())?;
        let segments = (column.rows as usize).div_ceil(tierra_engine::SEGMENT_ROWS);
        let progress = progress::bar("segments", segments);
        progress.set_message(column.kind.name());
        let start = Instant::now();
        let mut loader = table.loader();
        loader
            .push_columns(&column.source(&progress))
            .by(Tierra::ENGINE, doing())?;
        loader.finish().by(Tierra::ENGINE, doing())?;
        progress.set_message("putting the dictionary in order");
        table.seal().by(Tierra::ENGINE, doing())?;
        table.merge_dictionaries().by(Tierra::ENGINE, doing())?;
        let load_ns = elapsed_ns(start);
        tierra.settle()?;
        progress.finish_and_clear();
        let is_indexed = table.snapshot().indexed_rows(0) == u64::from(column.rows);
        if is_indexed != index.is_some() {
            return Err("rows are missing in the index").by(Tierra::ENGINE, doing());
        }
        let dictionary = table.snapshot().coded_dictionary(0);
        let dictionary = dictionary
            .filter(|dictionary| dictionary.len() == column.distinct() as usize)
            .ok_or("the dictionary has not the values that were loaded");
        let dictionary = dictionary.by(Tierra::ENGINE, doing())?;
        let sorted = match index {
            Some(_) => None,
            None => {
                let sorted = Sorted::of(&dictionary).ok_or("the dictionary is not in order");
                Some(sorted.by(Tierra::ENGINE, doing())?)
            }
        };
        Ok(Bench {
            column,
            index,
            plain: tierra.another_session(Execution::Plain)?,
            sorted,
            tierra,
            dictionary,
            load_ns,
            _folder: folder,
        })
    }

    /// Lets every contender look up by turns: a row for each.
    pub(super) fn measure(&self, lab: &Lab, rounds: usize) -> Result<Vec<Row>, LabError> {
        let mut random = Random::new(SEED);
        let mut rows = vec![self.describe()];
        for contenders in What::turns(self.index) {
            if let [(memory @ Memory::OptaneOverlapping, _), ..] = contenders[..] {
                for _ in 0..CACHE_FILLS {
                    let list = self.draw(&mut random);
                    memory.during(|| self.codes(What::TREE_INTERLEAVED, &list))?;
                }
            }
            let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
            for turn in turns(contenders.len(), rounds) {
                let (memory, what) = contenders[turn.contender];
                let (before, list) = (self.draw(&mut random), self.draw(&mut random));
                let time_ns = match what {
                    What::Codes { .. } => memory.during(|| {
                        self.codes(what, &before)?;
                        self.codes(what, &list)
                    })?,
                    What::Phase(execution) => memory.during(|| {
                        self.phase(execution, &before)?;
                        self.phase(execution, &list)
                    })?,
                    What::Statement(execution) => self.statement(lab, memory, execution, &list)?,
                };
                if !turn.is_warm_up() {
                    samples[turn.contender].push(time_ns);
                }
            }
            let measured = contenders.iter().zip(samples);
            rows.extend(measured.map(|(&(memory, what), samples)| {
                Row::new()
                    .text("column", self.column.kind.name())
                    .text("memory", memory.name())
                    .text(what.series(), what.name(memory, self.index))
                    .count("values", LIST as u64)
                    .samples("time", "ns", samples)
            }));
        }
        Ok(rows)
    }

    /// What was loaded.
    fn describe(&self) -> Row {
        Row::new()
            .text("column", self.column.kind.name())
            .text("index", self.index.map_or("none", IndexKind::name))
            .count("table_rows", self.column.rows.into())
            .count("distinct_values", self.column.distinct().into())
            .count("dictionary_bytes", self.dictionary.len_bytes() as u64)
            .count("stored_bytes", self.tierra.stored_bytes())
            .count("load_ns", self.load_ns)
    }

    /// Random positions of values; one may occur twice.
    fn draw(&self, random: &mut Random) -> Vec<u32> {
        (0..LIST)
            .map(|_| random.below(self.column.distinct().into()) as u32)
            .collect()
    }

    /// Looks up the codes of a list and returns the time, if each code is right.
    fn codes(&self, what: What, list: &[u32]) -> Result<u64, LabError> {
        let wanted: Vec<Value> = list.iter().map(|&place| self.column.value(place)).collect();
        let start = Instant::now();
        let codes = match (what, &self.sorted) {
            (What::TREE_PLAIN | What::HALVING_INTERLEAVED, Some(sorted)) => {
                in_mode!(what.execution(), M => sorted.codes::<M>(&wanted, what == What::TREE_PLAIN))
            }
            // What the product runs, plain or interleaved.
            _ => {
                let lookups = &mut Lookups::new(what.execution());
                self.dictionary.code_of_many(&wanted, lookups)
            }
        };
        let time_ns = elapsed_ns(start);
        let wrong = codes.iter().zip(&wanted).position(|(code, wanted)| {
            code.is_none_or(|code| self.dictionary.value(code) != *wanted)
        });
        match wrong {
            None => Ok(time_ns),
            Some(place) => Err(LabError::AnswersDiffer {
                what: format!("the code of {}", self.column.literal(list[place])),
                left: what.name(Memory::Near, self.index),
                right: "the dictionary".to_owned(),
                detail: format!("{:?} is not its code", codes[place]),
            }),
        }
    }

    /// Looks up a list as a statement does: a sorted set, and the resulting filter on codes.
    fn phase(&self, execution: Execution, list: &[u32]) -> Result<u64, LabError> {
        let values = list.iter().map(|&place| self.column.value(place));
        let set = match self.column.kind {
            Kind::Integer => ValueSet::ordinals(values.filter_map(ordinal).collect()),
            Kind::Varchar => ValueSet::bytes(values.filter_map(bytes).collect()),
        };
        let filter = Filter::in_set(Arc::new(set));
        let start = Instant::now();
        let codes = self
            .dictionary
            .code_filter(&filter, &mut Lookups::new(execution));
        black_box(codes.by(Tierra::ENGINE, "looking values up")?);
        Ok(elapsed_ns(start))
    }

    /// The time of the statement, prepared before with this list, if its count is right.
    fn statement(
        &self,
        lab: &Lab,
        memory: Memory,
        execution: Execution,
        list: &[u32],
    ) -> Result<u64, LabError> {
        let session = match execution {
            Execution::Interleaved => self.tierra.session(),
            Execution::Plain => &self.plain,
        };
        let literals: Vec<String> = list.iter().map(|&at| self.column.literal(at)).collect();
        let prepare = format!(
            "PREPARE counted AS SELECT COUNT(*) FROM {TABLE} WHERE {COLUMN} IN ({})",
            literals.join(", ")
        );
        let doing = "counting rows";
        let run = |sql| {
            lab.runtime()
                .block_on(session.execute(sql))
                .by(Tierra::ENGINE, doing)
        };
        run(&prepare)?;
        let executed = memory.during(|| {
            let start = Instant::now();
            let count = lab.runtime().block_on(count(session, "EXECUTE counted"))?;
            Ok((elapsed_ns(start), count))
        });
        run("DEALLOCATE counted")?;
        let (time_ns, count) = executed?;
        let mut places = list.to_vec();
        places.sort_unstable();
        places.dedup();
        let expected: u64 = places.iter().map(|&place| self.column.rows_of(place)).sum();
        if count == Some(expected) {
            return Ok(time_ns);
        }
        Err(LabError::AnswersDiffer {
            what: format!(
                "rows whose {} is one of {LIST} values",
                self.column.kind.name()
            ),
            left: format!("{} {execution}", Tierra::ENGINE),
            right: "the generator".to_owned(),
            detail: format!("{count:?} instead of {expected}"),
        })
    }
}

async fn count(session: &Session, sql: &str) -> Result<Option<u64>, LabError> {
    let outcome = session.sql(sql).await.by(Tierra::ENGINE, sql)?;
    let Outcome::Rows(mut rows) = outcome else {
        return Ok(None);
    };
    let batches = rows.collect().await.by(Tierra::ENGINE, sql)?;
    let [batch] = &batches[..] else {
        return Ok(None);
    };
    let counts = batch.column(0).as_primitive_opt::<Int64Type>();
    Ok(counts
        .filter(|_| batch.num_rows() == 1)
        .and_then(|counts| u64::try_from(counts.value(0)).ok()))
}

fn ordinal(value: Value) -> Option<u64> {
    match value {
        Value::Ordinal(ordinal) => Some(ordinal),
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Box<[u8]>> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
