//! Durable single-row writes, by 1 and by 16 sessions, on one medium. All contenders take turns, with the same keys, and have the same
//! rows at the end.

use std::path::{Path, PathBuf};

use super::blocks::Blocks;
use super::library::InProcess;
use super::remote::Remote;
use super::side::{Side, Writer};
use super::sqlite::Sqlite;
use super::writes::{Statement, contents};
use super::{DISK, IN_MEMORY, SESSIONS};
use crate::error::{At, LabError};
use crate::lab::Lab;
use crate::peers::postgres::Postgres;
use crate::progress;
use crate::row::Row;
use crate::served::Served;
use crate::sessions::at_once;
use crate::steady;

/// A medium, and how much is written there.
#[derive(Clone, Copy)]
pub(super) struct Medium {
    /// The key of its rows.
    pub(super) panel: &'static str,
    /// Rows that are not changed.
    filled: i64,
    /// Rows that a session inserts in a round, by number of sessions.
    each: [i64; SESSIONS.len()],
    rounds: usize,
}

impl Medium {
    pub(super) fn both(lab: &Lab) -> [Medium; 2] {
        let filled = lab.size(1_000, 100_000);
        let rounds = lab.size(1, 5);
        [
            Medium {
                panel: IN_MEMORY,
                filled,
                each: lab.size([20, 4], [2_000, 500]),
                rounds,
            },
            Medium {
                panel: DISK,
                filled,
                each: lab.size([10, 2], [400, 200]),
                rounds,
            },
        ]
    }
}

/// The rows of one medium.
pub(super) fn measure(lab: &Lab, medium: Medium) -> Result<Vec<Row>, LabError> {
    let folder = match medium.panel {
        IN_MEMORY => lab.folder_in_memory()?,
        _ => lab.passing_folder()?,
    };
    let sides = contenders(lab, folder.path(), medium.filled)?;
    let bar = progress::bar(
        "samples",
        SESSIONS.len() * (medium.rounds + 1) * sides.len(),
    );
    let mut rows = Vec::new();
    // Each contender's next key: not all are measured with all numbers of sessions.
    let mut keys = vec![0; sides.len()];
    for (sessions, each) in SESSIONS.into_iter().zip(medium.each) {
        let there: Vec<usize> = (0..sides.len())
            .filter(|&side| sides[side].sessions_most() >= sessions)
            .collect();
        let mut writers = Vec::new();
        for &side in &there {
            let writer = |_| sides[side].session();
            let writers_of_side = (0..sessions).map(writer).collect::<Result<Vec<_>, _>>()?;
            writers.push(writers_of_side);
        }
        let sampled = steady::in_turns(
            there.len(),
            medium.rounds,
            |contender| {
                let of_side = there[contender];
                bar.set_message(sides[of_side].name());
                let first = keys[of_side];
                let mut times_ns = [0; Statement::ALL.len()];
                for statement in Statement::ALL {
                    let writers = &mut writers[contender];
                    times_ns[statement.place()] = sample(writers, statement, first, each)?;
                }
                keys[of_side] += sessions as i64 * each;
                bar.inc(1);
                Ok(times_ns)
            },
            |times_ns: &[u64; 3]| times_ns.iter().sum(),
        )?;
        for (&side, sampled) in there.iter().zip(sampled) {
            for statement in Statement::ALL {
                let commits = statement.keys(0..each).count() * sessions;
                let times = sampled.samples.iter();
                let times = times.map(|times_ns| times_ns[statement.place()]);
                let row = Row::new()
                    .text(medium.panel, super::point(statement, sessions))
                    .text("engine", sides[side].name())
                    .count("commits", commits as u64)
                    .samples("time", "ns", times.collect());
                rows.push(sampled.mark(row));
            }
        }
    }
    bar.finish_and_clear();
    for (side, keys) in sides.into_iter().zip(keys) {
        compare(side, contents(medium.filled, keys))?;
    }
    Ok(rows)
}

/// All that are there, each in a folder of its own.
fn contenders(lab: &Lab, folder: &Path, filled: i64) -> Result<Vec<Box<dyn Side>>, LabError> {
    let below = |name: &str| {
        let path = folder.join(name);
        std::fs::create_dir(&path).at(&path)?;
        Ok::<PathBuf, LabError>(path)
    };
    let mut sides: Vec<Box<dyn Side>> = vec![
        Box::new(InProcess::create(lab, below("tierra")?, filled)?),
        Box::new(Remote::<Served>::create(&below("served")?, filled)?),
        Box::new(Sqlite::create(&below("sqlite")?, filled)?),
    ];
    // It has the folder itself, which its user can enter.
    if let Some(server) = Postgres::start(folder) {
        sides.push(Box::new(Remote::filled(server, filled)?));
    }
    sides.push(Box::new(Blocks::create(folder)?));
    Ok(sides)
}

/// The time of a statement for each of `each` keys of each session, from `first` on.
fn sample(
    writers: &mut [Box<dyn Writer>],
    statement: Statement,
    first: i64,
    each: i64,
) -> Result<u64, LabError> {
    let time = at_once(writers, |session, writer| {
        let first = first + session as i64 * each;
        writer.write(statement, &mut statement.keys(first..first + each))
    })?;
    Ok(time.as_nanos() as u64)
}

/// Fails if a contender does not have the rows that were committed.
fn compare(side: Box<dyn Side>, expected: [i64; 3]) -> Result<(), LabError> {
    let who = side.name().to_owned();
    match side.contents()? {
        Some(found) if found != expected => Err(LabError::AnswersDiffer {
            what: "count(*), sum(id), sum(n) of what was committed".to_owned(),
            left: who,
            right: "what was acknowledged".to_owned(),
            detail: format!("{found:?} against {expected:?}"),
        }),
        _ => Ok(()),
    }
}
