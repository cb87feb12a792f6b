//! The queries of a benchmark on three databases in turns: as loaded, with a twentieth of the fact table updated, and compacted.
//!
//! Compaction begins by itself where more than one of four rows of a segment is deleted. So the third database gets the same UPDATE as the
//! second, then one of a quarter of the rows, and is measured when no deleted row is left. The updated column is read by no query, but an
//! update writes whole rows: what remains is scattered, and the rest comes last.

use std::time::{Duration, Instant};

use arrow::util::display::array_value_to_string;
use tierra_sql::Outcome;

use super::{Benchmark, GEOMETRIC_MEAN, WORST};
use crate::answer::{Answer, Reference, Tolerance};
use crate::contender::Tierra;
use crate::dataset::TableFile;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::peers::datafusion::{InMemory, Texts};
use crate::progress;
use crate::row::{Row, distinct, find};
use crate::stats::geometric_mean;
use crate::steady;

/// What an update adds to the changed column.
pub(super) const ADDED: i64 = 100;
/// How long a compaction may take.
const COMPACTED: Duration = Duration::from_secs(120);

/// What has been done to the fact table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Loaded,
    Updated,
    Compacted,
}

impl State {
    const ALL: [State; 3] = [State::Loaded, State::Updated, State::Compacted];

    pub(super) fn name(self) -> &'static str {
        match self {
            State::Loaded => "before",
            State::Updated => "after an UPDATE of 5 %",
            State::Compacted => "after compaction",
        }
    }

    /// Of the rows of the fact table, in hundredths, those that each UPDATE changes.
    fn updates(self) -> &'static [(u32, u32)] {
        match self {
            State::Loaded => &[],
            State::Updated => &[(0, 5)],
            State::Compacted => &[(0, 5), (5, 30)],
        }
    }
}

/// The rows of a benchmark.
pub(super) fn measure(
    lab: &Lab,
    benchmark: &Benchmark,
    files: &[TableFile],
) -> Result<Vec<Row>, LabError> {
    let runtime = lab.runtime();
    let rounds = lab.size(1, 9);
    let peer = runtime.block_on(InMemory::load(files, Texts::Utf8));
    let peer = peer.by(Texts::Utf8.engine(), "loading")?;
    let mut databases = Vec::new();
    let folder = lab.passing_folder()?;
    for (number, state) in State::ALL.into_iter().enumerate() {
        let database = Tierra::create(&folder.path().join(number.to_string()), None)?;
        for file in files {
            database.load(file)?;
        }
        database.settle()?;
        bring(lab, benchmark, &database, state)?;
        databases.push(database);
    }
    let queries = (benchmark.queries)();
    let bar = progress::bar(benchmark.name, queries.len());
    let mut rows = Vec::new();
    for (name, sql) in queries {
        bar.set_message(name);
        let answer = runtime.block_on(peer.query(sql));
        let answer = answer.by(peer.engine(), format!("answering {name}"))?;
        let order = runtime.block_on(peer.order(sql));
        let reference = Reference {
            who: peer.engine().to_owned(),
            answer: Answer::of(&answer).by("Arrow", "showing an answer")?,
            order: order.by(peer.engine(), format!("planning {name}"))?,
        };
        let sampled = steady::in_turns(
            State::ALL.len(),
            rounds,
            |contender| {
                let (state, database) = (State::ALL[contender], &databases[contender]);
                let start = Instant::now();
                let batches = runtime.block_on(database.query(sql))?;
                let time_ns = start.elapsed().as_nanos() as u64;
                let answer = Answer::of(&batches).by("Arrow", "showing an answer")?;
                let what = format!("{name} {}", state.name());
                answer.check(&what, Tierra::ENGINE, &reference, Tolerance::EXACT_DECIMALS)?;
                Ok(time_ns)
            },
            |time_ns| *time_ns,
        )?;
        for (state, sampled) in State::ALL.into_iter().zip(sampled) {
            let row = Row::new()
                .text(benchmark.panel, name)
                .text("state of rows", state.name())
                .samples("time", "ns", sampled.samples.clone());
            rows.push(sampled.mark(row));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let compared =
        [State::Updated, State::Compacted].map(|state| over_before(benchmark, state, &rows));
    rows.extend(compared.into_iter().flatten());
    Ok(rows)
}

/// Changes the fact table, and checks that it has the rows that it should have.
fn bring(
    lab: &Lab,
    benchmark: &Benchmark,
    database: &Tierra,
    state: State,
) -> Result<(), LabError> {
    let Benchmark { fact, changed, .. } = benchmark;
    let sums =
        format!("SELECT count(*), sum({changed}), min({changed}), max({changed}) FROM {fact}");
    let [rows, mut sum, least, mut most] = numbers(lab, database, &sums)?;
    let mut was_updated = 0;
    for (from, to) in state.updates() {
        let part = benchmark.part(*from, *to);
        let counted =
            format!("SELECT count(*), min({changed}), max({changed}), 0 FROM {fact} WHERE {part}");
        let [chosen, _, highest, _] = numbers(lab, database, &counted)?;
        let update = format!("UPDATE {fact} SET {changed} = {changed} + {ADDED} WHERE {part}");
        let updated = changed_rows(lab, database, &update)?;
        same(&update, &[updated], &[chosen])?;
        sum += ADDED * chosen;
        most = most.max(highest + ADDED);
        was_updated += chosen;
    }
    let compare = || {
        let found = numbers(lab, database, &sums)?;
        // The row with the least number may have been updated.
        same(&sums, &[found[0], found[1], found[3]], &[rows, sum, most])?;
        let counted =
            format!("SELECT count(*), 0, 0, 0 FROM {fact} WHERE {changed} >= {least} + {ADDED}");
        let [counted, ..] = numbers(lab, database, &counted)?;
        same("the updated rows", &[counted], &[was_updated])
    };
    compare()?;
    database.settle()?;
    if state == State::Compacted {
        let table = database.database().table(fact);
        let table = table.ok_or("it is gone").by(Tierra::ENGINE, "compacting")?;
        let start = Instant::now();
        while table.snapshot().deleted_rows() > 0 {
            if start.elapsed() > COMPACTED {
                let what = format!("{} deleted rows are left", table.snapshot().deleted_rows());
                return Err(what).by(Tierra::ENGINE, format!("compacting {fact}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        database.settle()?;
        compare()?;
    }
    Ok(())
}

/// The comparisons of a state with the one before, over all queries; none if one was not measured.
fn over_before(benchmark: &Benchmark, state: State, rows: &[Row]) -> Vec<Row> {
    let of = |query: &str, state: State| {
        let point = [(benchmark.panel, query), ("state of rows", state.name())];
        find(rows, &point)
    };
    let ratio = |query: &String| of(query, state)?.over(of(query, State::Loaded)?, "time_ns");
    let ratios = distinct(rows, benchmark.panel);
    let ratios: Option<Vec<f64>> = ratios.iter().map(ratio).collect();
    let Some(ratios) = ratios else {
        return Vec::new();
    };
    let row = |of: &str, ratio: Option<f64>| {
        let row = Row::new().text("state", format!("{}, {}", benchmark.name, state.name()));
        row.text("of", of)
            .number("times_over_before", ratio.unwrap_or(f64::NAN))
    };
    let worst = ratios.iter().copied().reduce(f64::max);
    vec![
        row(GEOMETRIC_MEAN, geometric_mean(ratios)),
        row(WORST, worst),
    ]
}

/// The four numbers of a query's row.
pub(super) fn numbers(lab: &Lab, database: &Tierra, sql: &str) -> Result<[i64; 4], LabError> {
    let batches = lab.runtime().block_on(database.query(sql))?;
    let mut numbers = [0; 4];
    for (number, column) in numbers.iter_mut().zip(batches[0].columns()) {
        let text = array_value_to_string(column, 0).by(Tierra::ENGINE, sql)?;
        *number = text.parse().by(Tierra::ENGINE, sql)?;
    }
    Ok(numbers)
}

/// Runs a statement; returns how many rows it says that it changed.
pub(super) fn changed_rows(lab: &Lab, database: &Tierra, sql: &str) -> Result<i64, LabError> {
    let ran = lab.runtime().block_on(database.session().sql(sql));
    match ran.by(Tierra::ENGINE, format!("running {sql}"))? {
        Outcome::Done(done) => Ok(done.rows.unwrap_or(0) as i64),
        Outcome::Rows(_) => Err("it answers with rows").by(Tierra::ENGINE, sql),
    }
}

/// Fails if numbers are not those that were expected.
pub(super) fn same(what: &str, found: &[i64], expected: &[i64]) -> Result<(), LabError> {
    if found == expected {
        return Ok(());
    }
    Err(LabError::AnswersDiffer {
        what: what.to_owned(),
        left: Tierra::ENGINE.to_owned(),
        right: "what was asked for".to_owned(),
        detail: format!("{found:?} against {expected:?}"),
    })
}
