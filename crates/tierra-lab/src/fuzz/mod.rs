//! Random tables and queries, answered by Tierra and compared with a peer's answers and with Tierra's own answers to equivalent
//! queries.
//!
//! A case follows from one number: its tables from the upper digits, its query from all digits. A case with a difference is
//! reduced, its query choice by choice, its tables row by row, and reported as a script.
//!
//! It is in the lab, because only the lab knows Tierra, its peers and how their answers are compared: `sql-fuzz` runs it against
//! DuckDB, and `tests/sql_fuzz.rs` against SQLite.

mod case;
mod cells;
mod choices;
mod construct;
mod engine;
mod grammar;
mod journal;
mod judge;
mod shrink;
mod sql;
mod table;
mod value;

pub use case::Kind;
pub use cells::{Cell, Rows};
pub use construct::Construct;
pub use engine::{Answer, Peer};
pub use journal::Journal;
pub use judge::{Counts, Difference, Tally};
pub use sql::Dialect;
pub use table::Table;

use std::collections::BTreeMap;
use std::path::Path;

use tokio::runtime::Runtime;

use self::case::{Case, Right};
use self::choices::Choices;
use self::engine::Tierra;
use self::judge::{Verdict, judge};
use crate::error::LabError;
use crate::random::Random;

/// Cases over one set of tables: the lower digits of a case's number.
pub const CASES_OF_A_SET: u64 = 1 << 16;
/// Queries that the peer gets at a time.
const BATCH: usize = 64;
/// Sets of tables after which the database is made again.
const SETS_OF_A_DATABASE: u64 = 25;

/// The most differences of one sort, and queries refused for one reason, that are reduced.
const MADE_SMALLER: u64 = 5;
const EXAMPLES: u64 = 1;
/// The most differences over one set of tables that are reported in full.
const MOST_REPORTED: usize = 20;

/// Why an answer of the peer is not counted.
const CONTRADICTS_ITSELF: &str = "it answers otherwise without its optimiser";

/// Tierra and a peer, and the folder of their files.
pub struct Fuzzer<'r, P> {
    tierra: Tierra<'r>,
    peer: P,
    folder: &'r Path,
    sets: u64,
    /// The number of occurrences of each sort of difference or refusal.
    sorts: BTreeMap<String, u64>,
}

/// The number of a case: by the number of its set of small or large tables, and of its query.
pub fn case_number(set: u64, large: bool, query: u64) -> u64 {
    (set * 2 + u64::from(large)) * CASES_OF_A_SET + query
}

impl<'r, P: Peer> Fuzzer<'r, P> {
    /// A fuzzer with a peer; files go to the folder.
    pub fn new(runtime: &'r Runtime, peer: P, folder: &'r Path) -> Fuzzer<'r, P> {
        Fuzzer {
            tierra: Tierra::new(runtime),
            peer,
            folder,
            sets: 0,
            sorts: BTreeMap::new(),
        }
    }

    /// Runs that many cases of the set of the first, and counts the verdicts. Differences are reduced and passed on.
    ///
    /// # Errors
    /// An engine cannot load the tables, or the peer is gone.
    pub fn run(
        &mut self,
        first: u64,
        count: u64,
        tally: &mut Tally,
        report: &mut dyn FnMut(&Difference),
    ) -> Result<(), LabError> {
        let set = first / CASES_OF_A_SET;
        let sqlite = self.peer.dialect() == Dialect::Sqlite;
        let tables = Table::set(&mut Choices::seeded(mixed(set)), set % 2 == 1, sqlite);
        self.sets += 1;
        if self.sets.is_multiple_of(SETS_OF_A_DATABASE) {
            self.tierra.forget()?;
        }
        self.load(&tables, set)?;
        tally.sets += 1;
        let numbers: Vec<u64> = (first..first + count).collect();
        for numbers in numbers.chunks(BATCH) {
            let cases: Vec<Case> = numbers
                .iter()
                .map(|number| Case::new(&mut Choices::seeded(mixed(*number)), &tables, sqlite))
                .collect();
            let asked = cases.iter().filter_map(|case| match &case.right {
                Right::Peer(query) => Some(query.as_str()),
                Right::Parts(..) => None,
            });
            self.peer.ask(&asked.collect::<Vec<_>>())?;
            let answers: Vec<Vec<Answer>> = cases.iter().map(|case| self.ours(case)).collect();
            let mut theirs = self.peer.answers()?.into_iter();
            for ((number, case), ours) in numbers.iter().zip(&cases).zip(answers) {
                let theirs = match &case.right {
                    Right::Peer(_) => theirs.next(),
                    Right::Parts(..) => None,
                };
                let verdict = self.judged(case, ours, theirs)?;
                let what = match &verdict {
                    Verdict::Differs(what) | Verdict::Refused(what) => what,
                    Verdict::Agrees | Verdict::PeerRefused(_) => {
                        tally.count(&verdict, case);
                        continue;
                    }
                };
                let met = self.sorts.entry(what.sort.clone()).or_default();
                *met += 1;
                let differs = matches!(verdict, Verdict::Differs(_));
                let worth = if differs { MADE_SMALLER } else { EXAMPLES };
                // Hundreds of trials of a query beyond the time limit would take hours.
                let is_made_smaller = *met <= worth && !what.is_too_late();
                if differs {
                    eprintln!("Case {number} differs: {}", what.sort);
                }
                let (mut smaller, fewer, what) = match is_made_smaller {
                    true => self.smaller(*number, &tables, what)?,
                    false => (case.clone(), tables.clone(), what.clone()),
                };
                if is_made_smaller {
                    // Reducing may have removed rows of the tables.
                    self.load(&tables, set)?;
                }
                // It counts for all that it was made of.
                smaller.constructs.clone_from(&case.constructs);
                tally.count(&verdict, &smaller);
                if differs && tally.differences.len() < MOST_REPORTED {
                    let difference =
                        Difference::new(*number, &smaller, &fewer, &settings(set), &what);
                    report(&difference);
                    tally.differences.push(difference);
                }
            }
        }
        Ok(())
    }

    /// Closes the database.
    ///
    /// # Errors
    /// If a query holds it.
    pub fn end(mut self) -> Result<(), LabError> {
        self.tierra.forget()
    }

    fn load(&mut self, tables: &[Table], set: u64) -> Result<(), LabError> {
        let loaded = self.tierra.load(tables, &settings(set), self.folder)?;
        self.peer.load(&loaded)
    }

    /// Tierra's answers to all statements of a case.
    fn ours(&self, case: &Case) -> Vec<Answer> {
        let answers = case
            .statements()
            .into_iter()
            .map(|statement| self.tierra.answer(statement))
            .collect();
        if case.kind == Kind::Prepared {
            let _ = self.tierra.answer("DEALLOCATE q");
        }
        answers
    }

    /// The verdict on a case over the loaded tables.
    fn verdict(&mut self, case: &Case) -> Result<Verdict, LabError> {
        let theirs = match &case.right {
            Right::Peer(query) => {
                self.peer.ask(&[query])?;
                self.peer.answers()?.pop()
            }
            Right::Parts(..) => None,
        };
        let ours = self.ours(case);
        self.judged(case, ours, theirs)
    }

    /// The verdict on these answers. A peer that agrees with Tierra only without its optimiser is not counted.
    fn judged(
        &mut self,
        case: &Case,
        ours: Vec<Answer>,
        theirs: Option<Answer>,
    ) -> Result<Verdict, LabError> {
        let sqlite = self.peer.dialect() == Dialect::Sqlite;
        let verdict = judge(case, ours, theirs, sqlite);
        let (Verdict::Differs(_), Right::Peer(query)) = (&verdict, &case.right) else {
            return Ok(verdict);
        };
        let Some(plain) = self.peer.answer_plainly(query)? else {
            return Ok(verdict);
        };
        Ok(match judge(case, self.ours(case), Some(plain), sqlite) {
            Verdict::Differs(_) => verdict,
            _ => Verdict::PeerRefused(CONTRADICTS_ITSELF.to_owned()),
        })
    }
}

/// The settings of Tierra's session for a set of tables.
fn settings(set: u64) -> Vec<String> {
    let mut random = Random::new(mixed(set) ^ 1);
    let mut one_of = |name: &str, values: &[&str]| {
        format!(
            "SET tierra.{name} = '{}'",
            values[random.below(values.len() as u64) as usize]
        )
    };
    vec![
        one_of("threads", &["1", "2", "1", "4"]),
        // The cost of a sort and a window grows with the square of the batches.
        match set % 2 == 1 {
            true => one_of("batch_rows", &["8192", "8192", "1000", "1000"]),
            false => one_of("batch_rows", &["8192", "8192", "16", "1000"]),
        },
        one_of("late_rows", &["true", "false"]),
        one_of("join_build_rows", &["1048576", "1"]),
        one_of("execution", &["auto", "plain", "interleaved"]),
    ]
}

/// A number without the pattern of its neighbours.
fn mixed(number: u64) -> u64 {
    Random::new(number ^ 0x7161_7272_6965).bits()
}
