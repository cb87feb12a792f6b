//! Sums and projections by one thread while another one does nothing, appends, or changes the column's policy.
//!
//! Every answer has to be that of a commit. A sum is that of the rows that the snapshot has; rows of the first load are in all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tierra_column::Encoding;
use tierra_engine::RowId;

use super::data::{COLUMN, Store};
use super::mixed::{Column, append, timed};
use super::operators::{project, row_ids};
use super::policy::{Policy, b, far};
use super::rates::RATE;
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab};
use crate::memory::optane;
use crate::replicas::emulating;
use crate::row::{Row, find};
use crate::turns::samples;
use crate::view::{Unit, View};

const BESIDE: &str = "beside";
const KIND: &str = "reader";
/// The keys of how many answers were compared, and how many are those of no commit.
const ANSWERS: &str = "answers";
const WRONG: &str = "wrong";

/// How fast readers are.
pub(super) const VIEW: View = View {
    title: "values a second that one thread adds or projects, beside what another one does",
    category: BESIDE,
    series: KIND,
    value: RATE,
    per: None,
    unit: Unit::PerSecond,
    mean: false,
};

/// What the other thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Appends,
    Changes,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Nothing, Beside::Appends, Beside::Changes];

    const fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "nothing",
            Beside::Appends => "appends of 1 MB, one after the other",
            Beside::Changes => "changes of the policy, one after the other",
        }
    }
}

/// What the one thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Sums,
    Projections,
}

impl Reader {
    const ALL: [Reader; 2] = [Reader::Sums, Reader::Projections];

    const fn name(self) -> &'static str {
        match self {
            Reader::Sums => "sums",
            Reader::Projections => "projections",
        }
    }
}

/// Each reader beside all that the other thread does.
fn cells() -> Vec<(Reader, Beside)> {
    let of = |reader| Beside::ALL.map(|beside| (reader, beside));
    Reader::ALL.into_iter().flat_map(of).collect()
}

/// The policies between which the column is changed. The first copy stays.
fn policies() -> [Policy; 2] {
    let (fixed, dynamic) = (Encoding::Static, Encoding::Dynamic);
    [
        Policy::of(&[far(fixed), b(dynamic)]),
        Policy::of(&[far(fixed), b(fixed)]),
    ]
}

/// All of it, by turns, each on a new table.
pub(super) fn measure(
    lab: &Lab,
    store: &Store,
    column: &Column,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let sums = lab.size(2, 10);
    // More lines than a cache holds.
    let projections = column.positions(lab.size(2, 64));
    let [first, _] = policies();
    let cells = cells();
    let mut answers = vec![(0, 0); cells.len()];
    let taken = samples(cells.len(), rounds, |turn| {
        let table = column.table(store, &first)?;
        let piece = column.piece(&table)?;
        let (reader, beside) = cells[turn.contender];
        let is_over = AtomicBool::new(false);
        let id = row_ids(&table.snapshot());
        let projections = projections.iter();
        let projections = projections.map(|(at, sum)| {
            let rows = at.iter().map(|at| id(*at));
            (Vec::from_iter(rows), *sum)
        });
        let projections: Vec<(Vec<RowId>, i64)> = projections.collect();
        let queries = match reader {
            Reader::Sums => sums,
            Reader::Projections => projections.len(),
        };
        // How many values it reads of a snapshot, and whether the answer is that of a commit.
        let read = |query: usize| -> Result<(u64, bool), LabError> {
            let snapshot = table.snapshot();
            match reader {
                Reader::Sums => Ok((snapshot.rows(), column.sums_to_a_commit(&snapshot)?)),
                Reader::Projections => {
                    let (rows, expected) = &projections[query];
                    let mut sum = 0;
                    project(&snapshot, rows, |values| sum += values.iter().sum::<i64>())?;
                    Ok((rows.len() as u64, sum == *expected))
                }
            }
        };
        let (values, wrong, time_ns, count) = emulating(Some(optane(lab::threads())), || {
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let (mut count, policies) = (0_u64, policies());
                    // Relaxed: nothing else is read behind it.
                    while beside != Beside::Nothing && !is_over.load(Ordering::Relaxed) {
                        count += 1;
                        match beside {
                            Beside::Nothing => {}
                            Beside::Appends => append(&table, &piece)?,
                            Beside::Changes => {
                                let policy = &policies[(count % 2) as usize];
                                let changed = table.set_replicas(&policy.replicas([COLUMN]));
                                changed.by(Tierra::ENGINE, "changing a policy")?;
                            }
                        }
                    }
                    Ok::<u64, LabError>(count)
                });
                let (mut values, mut wrong) = (0, 0);
                let time_ns = timed(|| {
                    for query in 0..queries {
                        let (read, is_right) = read(query)?;
                        values += read;
                        wrong += u64::from(!is_right);
                    }
                    Ok(())
                });
                is_over.store(true, Ordering::Relaxed);
                let count = other.join();
                let count = count.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                Ok((values, wrong, time_ns?, count))
            })
        })?;
        let (all, all_wrong) = &mut answers[turn.contender];
        *all += queries as u64;
        *all_wrong += wrong;
        column.add(&table.snapshot())?;
        store.drop_table(table)?;
        Ok(((values as f64 * 1e9 / time_ns as f64) as u64, count))
    })?;
    let mut rows = Vec::new();
    for (((reader, beside), taken), (all, wrong)) in cells.into_iter().zip(taken).zip(answers) {
        let (rates, done): (Vec<u64>, Vec<u64>) = taken.into_iter().unzip();
        rows.push(
            Row::new()
                .text(BESIDE, beside.name())
                .text(KIND, reader.name())
                .count(ANSWERS, all)
                .count(WRONG, wrong)
                .samples("values", "per_s", rates)
                .samples("done", "count", done),
        );
    }
    Ok(rows)
}

/// Readers are nearly as fast as alone, and no answer is wrong.
pub(super) fn bars(rows: &[Row]) -> Vec<Bar> {
    let row = |reader: Reader, beside: Beside| {
        find(rows, &[(KIND, reader.name()), (BESIDE, beside.name())])
    };
    let mut bars = Vec::new();
    for reader in Reader::ALL {
        for beside in [Beside::Appends, Beside::Changes] {
            let both = row(reader, beside).zip(row(reader, Beside::Nothing));
            bars.push(Bar::at_least(
                format!(
                    "pcr-mixed: speed of {} beside {}, over that beside nothing, emulated optane",
                    reader.name(),
                    beside.name()
                ),
                0.8,
                both.and_then(|(with, without)| with.over(without, RATE)),
            ));
        }
    }
    let wrong = |(reader, beside)| {
        let row = row(reader, beside)?;
        row.value(ANSWERS).filter(|answers| *answers > 0.0)?;
        row.value(WRONG)
    };
    let wrong: Option<Vec<f64>> = cells().into_iter().map(wrong).collect();
    bars.push(Bar::at_most(
        "pcr-mixed: answers of sums and projections beside nothing, appends and changes that are those of no commit",
        0.0,
        wrong.map(|wrong| wrong.iter().sum()),
    ));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_compare_with_readers_beside_nothing_and_want_no_wrong_answer() {
        let rows = |wrong: u64| {
            let row = |(reader, beside): (Reader, Beside)| {
                let rate = match (reader, beside) {
                    (_, Beside::Nothing) => 100,
                    (Reader::Sums, Beside::Appends) => 80,
                    (Reader::Projections, Beside::Changes) => 81,
                    _ => 79,
                };
                Row::new()
                    .text(BESIDE, beside.name())
                    .text(KIND, reader.name())
                    .count(ANSWERS, 10)
                    .count(WRONG, wrong)
                    .samples("values", "per_s", vec![rate; 3])
            };
            Vec::from_iter(cells().into_iter().map(row))
        };
        let met = |rows: &[Row]| Vec::from_iter(bars(rows).iter().map(|bar| bar.met));
        assert_eq!(met(&rows(0)), [true, false, false, true, true]);
        assert_eq!(met(&rows(1)), [true, false, false, true, false]);
        assert!(!met(&rows(0)[1..])[4]);
        assert_eq!(met(&[]), [false; 5]);
    }
}
