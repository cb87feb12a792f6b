//! A suite of queries on the same Parquet files: Tierra against DataFusion and DuckDB in memory.
//!
//! For every query the engines take turns, every answer is compared, and every time is kept. A query's time includes parsing and
//! planning, and ends when its complete answer lies in the engine's process as Arrow arrays, for every engine.

use std::time::Instant;

use arrow::array::RecordBatch;

use crate::answer::{Answer, Reference, Tolerance};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::dataset::TableFile;
use crate::error::{Context, LabError};
use crate::experiments::Measured;
use crate::lab::Lab;
use crate::peers::datafusion::{InMemory, Texts};
use crate::peers::duckdb::Library;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::stats::geometric_mean;
use crate::turns::turns;
use crate::view::{Unit, View};

/// Times, what follows from them, and bytes.
pub const VIEWS: [View; 4] = [
    View {
        title: "time of a query until its Arrow batches are complete, planning included",
        category: "query",
        series: "engine",
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: true,
    },
    View {
        title: "Tierra's times over another engine's: below 1 is faster",
        category: "of",
        series: "over",
        value: "times_over",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "queries in which Tierra is faster",
        category: "won",
        series: "over",
        value: "won_count",
        per: None,
        unit: Unit::Count,
        mean: false,
    },
    View {
        title: "bytes of one copy",
        category: "table",
        series: "format",
        value: "stored_bytes",
        per: None,
        unit: Unit::Bytes,
        mean: false,
    },
];

const UNCOMPRESSED: &str = "uncompressed Arrow";

/// A set of tables and queries.
#[derive(Debug)]
pub struct Suite<'a> {
    /// The tables' files.
    pub files: &'a [TableFile],
    /// Names and texts.
    pub queries: Vec<(&'a str, &'a str)>,
    /// Measured repetitions of each query.
    pub rounds: usize,
    /// The kinds of DataFusion's tables in memory; none where all engines together would not fit.
    pub datafusion: &'a [Texts],
}

struct Engines {
    tierra: Tierra,
    datafusion: Vec<InMemory>,
    duckdb: Option<Library>,
    /// The tables without rows, whose plans tell how answers are ordered.
    schemas: InMemory,
}

impl Suite<'_> {
    /// Loads every engine, runs every query in turns, and compares every answer.
    pub fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let runtime = lab.runtime();
        let tierra = Tierra::create(&lab.folder("tierra")?, None)?;
        let duckdb = Library::start();
        // Without any other engine no answer could be compared.
        let measured = match (self.datafusion, &duckdb) {
            ([], None) => &[Texts::Utf8],
            (measured, _) => measured,
        };
        let mut datafusion = Vec::new();
        for &texts in measured {
            datafusion.push(
                runtime
                    .block_on(InMemory::load(self.files, texts))
                    .by(texts.engine(), "loading")?,
            );
        }
        let mut rows = Vec::new();
        for file in self.files {
            let before = tierra.stored_bytes();
            tierra.load(file)?;
            // The pool's growth: with chunks, dictionaries and tails it includes every part of a copy.
            let stored_bytes = tierra.stored_bytes().saturating_sub(before);
            for (format, bytes) in [
                (Tierra::ENGINE, stored_bytes),
                (UNCOMPRESSED, file.arrow_bytes),
            ] {
                rows.push(
                    Row::new()
                        .text("table", &file.table)
                        .text("format", format)
                        .count("rows", file.rows)
                        .count("stored_bytes", bytes),
                );
            }
        }
        tierra.settle()?;
        let duckdb = match duckdb {
            Some(mut duckdb) => {
                duckdb.load(self.files).by(Library::ENGINE, "loading")?;
                Some(duckdb)
            }
            None => {
                println!("DuckDB is not measured: Python has no module `duckdb`.");
                None
            }
        };
        let version = duckdb
            .as_ref()
            .map_or("absent", Library::version)
            .to_owned();
        let mut engines = Engines {
            tierra,
            datafusion,
            duckdb,
            schemas: InMemory::schemas(self.files).by("DataFusion", "planning")?,
        };
        let bar = progress::bar("queries", self.queries.len());
        for (name, sql) in &self.queries {
            bar.set_message((*name).to_owned());
            rows.extend(engines.measure(lab, name, sql, self.rounds)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        rows.extend(comparisons(&rows));
        let version_of_datafusion = match measured {
            [] => "not measured",
            _ => datafusion::DATAFUSION_VERSION,
        };
        let parameters = Row::new()
            .count("rounds", self.rounds as u64)
            .text("datafusion", version_of_datafusion)
            .text("duckdb", version)
            .and(engines.tierra.describe());
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows,
        })
    }
}

impl Engines {
    fn names(&self) -> Vec<&'static str> {
        let peers = self.datafusion.iter().map(InMemory::engine);
        let duckdb = self.duckdb.iter().map(|_| Library::ENGINE);
        std::iter::once(Tierra::ENGINE)
            .chain(peers)
            .chain(duckdb)
            .collect()
    }

    fn measure(
        &mut self,
        lab: &Lab,
        name: &str,
        sql: &str,
        rounds: usize,
    ) -> Result<Vec<Row>, LabError> {
        let runtime = lab.runtime();
        let doing = || format!("answering {name}");
        let order = runtime.block_on(self.schemas.order(sql));
        let order = order.by("DataFusion", doing())?;
        let (who, answer_of_peer) = match (self.datafusion.first(), &mut self.duckdb) {
            (Some(first), _) => {
                let batches = runtime.block_on(first.query(sql));
                let batches = batches.by(first.engine(), doing())?;
                (first.engine(), answer(&batches)?)
            }
            (None, Some(duckdb)) => {
                let (_, texts) = duckdb.query(sql).by(Library::ENGINE, doing())?;
                (Library::ENGINE, Answer::from_texts(texts))
            }
            (None, None) => {
                return Err("no other engine is there").by("the lab", "comparing answers");
            }
        };
        let reference = Reference {
            who: who.to_owned(),
            answer: answer_of_peer,
            order,
        };
        // DuckDB averages decimals in floating point.
        let exact = match who {
            Library::ENGINE => Tolerance::ROUNDED,
            _ => Tolerance::EXACT_DECIMALS,
        };
        let names = self.names();
        let mut samples = vec![Vec::with_capacity(rounds); names.len()];
        for turn in turns(names.len(), rounds) {
            let who = names[turn.contender];
            let (time_ns, answer, tolerance) = match turn.contender {
                0 => {
                    let (time_ns, batches) = timed(|| runtime.block_on(self.tierra.query(sql)))?;
                    (time_ns, answer(&batches)?, exact)
                }
                peer if peer <= self.datafusion.len() => {
                    let engine = &self.datafusion[peer - 1];
                    let (time_ns, batches) =
                        timed(|| runtime.block_on(engine.query(sql)).by(who, doing()))?;
                    (time_ns, answer(&batches)?, exact)
                }
                _ => {
                    let duckdb = self.duckdb.as_mut().expect("named only where it runs");
                    let (time_ns, texts) = duckdb.query(sql).by(who, doing())?;
                    (time_ns, Answer::from_texts(texts), Tolerance::ROUNDED)
                }
            };
            answer.check(name, who, &reference, tolerance)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(time_ns);
            }
        }
        let rows = names.into_iter().zip(samples).map(|(engine, samples)| {
            Row::new()
                .text("query", name)
                .text("engine", engine)
                .count("rows", reference.answer.rows() as u64)
                .samples("time", "ns", samples)
        });
        Ok(rows.collect())
    }
}

fn timed<T>(work: impl FnOnce() -> Result<T, LabError>) -> Result<(u64, T), LabError> {
    let start = Instant::now();
    let done = work()?;
    Ok((start.elapsed().as_nanos() as u64, done))
}

fn answer(batches: &[RecordBatch]) -> Result<Answer, LabError> {
    Answer::of(batches).by("Arrow", "showing an answer")
}

/// Over all queries, the geometric mean of our time over the better of DataFusion's two.
pub fn time_over_datafusion(rows: &[Row]) -> Option<f64> {
    ratio(rows, |query| {
        let times: Option<Vec<f64>> = Texts::ALL
            .iter()
            .map(|texts| time(rows, query, texts.engine()))
            .collect();
        times?.into_iter().reduce(f64::min)
    })
}

fn ratio(rows: &[Row], peer: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    geometric_mean(
        pairs(rows, peer)?
            .into_iter()
            .map(|(ours, theirs)| ours / theirs),
    )
}

/// Our time and theirs for every query; `None` if one was not measured.
fn pairs(rows: &[Row], peer: impl Fn(&str) -> Option<f64>) -> Option<Vec<(f64, f64)>> {
    let pair = |query: &String| Some((time(rows, query, Tierra::ENGINE)?, peer(query)?));
    let pairs: Vec<(f64, f64)> = distinct(rows, "query")
        .iter()
        .map(pair)
        .collect::<Option<_>>()?;
    (!pairs.is_empty()).then_some(pairs)
}

/// Our times over those of one other engine, over all queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Of all ratios.
    pub geometric_mean: f64,
    /// The sum of our times over the sum of theirs.
    pub sum: f64,
    /// The largest ratio.
    pub worst: f64,
    /// Queries in which we are faster.
    pub won: usize,
    /// All queries.
    pub queries: usize,
}

/// Our times over DuckDB's; `None` if a query was not measured.
pub fn over_duckdb(rows: &[Row]) -> Option<Comparison> {
    compare(&pairs(rows, |query| time(rows, query, Library::ENGINE))?)
}

fn compare(pairs: &[(f64, f64)]) -> Option<Comparison> {
    let ratios = || pairs.iter().map(|(ours, theirs)| ours / theirs);
    let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
    Some(Comparison {
        geometric_mean: geometric_mean(ratios())?,
        sum: sum(|pair| pair.0) / sum(|pair| pair.1),
        worst: ratios().reduce(f64::max)?,
        won: ratios().filter(|ratio| *ratio < 1.0).count(),
        queries: pairs.len(),
    })
}

/// The comparisons with every other engine, as rows.
fn comparisons(rows: &[Row]) -> Vec<Row> {
    let against = |engine: &String| {
        let pairs = pairs(rows, |query| time(rows, query, engine));
        let Some(found) = pairs.as_deref().and_then(compare) else {
            return Vec::new();
        };
        let ratio = |of: &str, ratio| {
            let row = Row::new().text("over", engine).text("of", of);
            row.number("times_over", ratio)
        };
        vec![
            ratio("geometric mean", found.geometric_mean),
            ratio("sum", found.sum),
            ratio("worst query", found.worst),
            Row::new()
                .text("over", engine)
                .text("won", format!("of {}", found.queries))
                .count("won_count", found.won as u64),
        ]
    };
    let engines = distinct(rows, "engine").into_iter();
    let others = engines.filter(|engine| engine != Tierra::ENGINE);
    others.flat_map(|engine| against(&engine)).collect()
}

fn time(rows: &[Row], query: &str, engine: &str) -> Option<f64> {
    find(rows, &[("query", query), ("engine", engine)])?.value("time_ns")
}

/// The bar on the bytes of one copy: all tables together, against uncompressed Arrow.
pub fn stored_bytes_bar(data_set: &str, rows: &[Row]) -> Bar {
    let total = |format: &str| {
        let cells = rows.iter().filter(|row| row.is(&[("format", format)]));
        cells
            .map(|row| row.value("stored_bytes"))
            .sum::<Option<f64>>()
            .filter(|sum| *sum > 0.0)
    };
    let ratio = total(Tierra::ENGINE)
        .zip(total(UNCOMPRESSED))
        .map(|(ours, arrow)| ours / arrow);
    Bar::at_most(
        format!("{data_set}: stored bytes of one copy over uncompressed Arrow"),
        0.5,
        ratio,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, times: [u64; 3]) -> Vec<Row> {
        let engines = [
            Tierra::ENGINE,
            Texts::Utf8.engine(),
            Texts::Utf8View.engine(),
        ];
        let row = |(engine, time)| {
            Row::new()
                .text("query", name)
                .text("engine", engine)
                .samples("time", "ns", vec![time])
        };
        engines.into_iter().zip(times).map(row).collect()
    }

    #[test]
    fn compares_with_the_better_of_both_for_each_query() {
        let mut rows = query("q1", [50, 100, 900]);
        rows.extend(query("q2", [50, 900, 100]));
        assert!((time_over_datafusion(&rows).unwrap() - 0.5).abs() < 1e-9);
        // If one query was not measured, there is no mean.
        rows.pop();
        assert_eq!(time_over_datafusion(&rows), None);
    }

    #[test]
    fn a_comparison_has_mean_sum_worst_and_wins() {
        let row = |query: &str, engine, time| {
            Row::new()
                .text("query", query)
                .text("engine", engine)
                .samples("time", "ns", vec![time])
        };
        let mut rows = vec![
            row("q1", Tierra::ENGINE, 10),
            row("q1", Library::ENGINE, 40),
            row("q2", Tierra::ENGINE, 400),
            row("q2", Library::ENGINE, 100),
        ];
        let found = over_duckdb(&rows).unwrap();
        assert!((found.geometric_mean - 1.0).abs() < 1e-9);
        assert!((found.sum - 410.0 / 140.0).abs() < 1e-9);
        assert_eq!((found.worst, found.won, found.queries), (4.0, 1, 2));
        assert_eq!(comparisons(&rows).len(), 4);
        rows.pop();
        assert_eq!(over_duckdb(&rows), None);
        assert_eq!(over_duckdb(&[]), None);
    }

    #[test]
    fn bytes_are_those_of_all_tables() {
        let row = |table: &str, format: &str, bytes| {
            Row::new()
                .text("table", table)
                .text("format", format)
                .count("stored_bytes", bytes)
        };
        let mut rows = vec![
            row("a", Tierra::ENGINE, 90),
            row("a", UNCOMPRESSED, 100),
            row("b", Tierra::ENGINE, 10),
            row("b", UNCOMPRESSED, 300),
        ];
        assert!(stored_bytes_bar("x", &rows).met);
        rows[0] = row("a", Tierra::ENGINE, 200);
        assert!(!stored_bytes_bar("x", &rows).met);
        assert!(!stored_bytes_bar("x", &[]).met);
    }
}
