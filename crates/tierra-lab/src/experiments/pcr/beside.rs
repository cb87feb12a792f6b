//! Sums by one thread while another one does nothing, appends, or changes the column's policy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tierra_column::Encoding;

use super::data::{COLUMN, Store};
use super::mixed::{Column, append, timed};
use super::policy::{Policy, b, far};
use super::rates::RATE;
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab};
use crate::replicas::{emulating, optane};
use crate::row::{Row, find};
use crate::turns::samples;
use crate::view::{Unit, View};

const BESIDE: &str = "beside";
const KIND: &str = "sums";

/// How fast sums are.
pub(super) const VIEW: View = View {
    title: "values a second that one thread adds, beside what another one does",
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
    let [first, _] = policies();
    let taken = samples(Beside::ALL.len(), rounds, |turn| {
        let table = column.table(store, &first)?;
        let piece = column.piece(&table)?;
        let (is_over, beside) = (AtomicBool::new(false), Beside::ALL[turn.contender]);
        let (added, time_ns, count) = emulating(Some(optane(lab::threads())), || {
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
                let mut added = 0;
                let time_ns = timed(|| {
                    for _ in 0..sums {
                        let snapshot = table.snapshot();
                        column.add(&snapshot)?;
                        added += snapshot.rows();
                    }
                    Ok(())
                });
                is_over.store(true, Ordering::Relaxed);
                let count = other.join();
                let count = count.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                Ok((added, time_ns?, count))
            })
        })?;
        column.add(&table.snapshot())?;
        store.drop_table(table)?;
        Ok(((added as f64 * 1e9 / time_ns as f64) as u64, count))
    })?;
    let row = |(beside, taken): (&Beside, Vec<(u64, u64)>)| {
        let (rates, done): (Vec<u64>, Vec<u64>) = taken.into_iter().unzip();
        Row::new()
            .text(BESIDE, beside.name())
            .text(KIND, "sum")
            .samples("values", "per_s", rates)
            .samples("done", "count", done)
    };
    Ok(Beside::ALL.iter().zip(taken).map(row).collect())
}

/// Sums are nearly as fast as alone.
pub(super) fn bars(rows: &[Row]) -> Vec<Bar> {
    let rate = |beside: Beside| find(rows, &[(BESIDE, beside.name())])?.value(RATE);
    let bar = |beside: Beside| {
        let times = rate(beside).zip(rate(Beside::Nothing));
        Bar::at_least(
            format!(
                "pcr-mixed: speed of sums beside {}, over that beside nothing, emulated optane",
                beside.name()
            ),
            0.8,
            times.map(|(with, without)| with / without),
        )
    };
    [Beside::Appends, Beside::Changes].map(bar).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_compare_with_sums_beside_nothing() {
        let rows = [100, 80, 79].into_iter().zip(Beside::ALL);
        let rows = rows.map(|(rate, beside)| {
            let row = Row::new().text(BESIDE, beside.name());
            row.samples("values", "per_s", vec![rate; 3])
        });
        let met: Vec<bool> = bars(&Vec::from_iter(rows))
            .iter()
            .map(|bar| bar.met)
            .collect();
        assert_eq!(met, [true, false]);
        assert!(bars(&[]).iter().all(|bar| !bar.met));
    }
}
