//! What the tests of kills share: a child that changes a database with two tiers until it is killed, telling its parent of every
//! step before and behind it, and the promise that its parent checks what was left against. The lab's experiment `kill`
//! includes this file as well. It stands beside `simulated`, whose tables it uses.
#![allow(dead_code, unused_imports, reason = "each user takes a part")]

mod changing;
mod check;
mod child;

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::str::FromStr;
use std::time::Duration;

pub(crate) use check::{Left, check};
pub(crate) use child::change_until_killed;

/// What the child is killed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Append,
    Load,
    /// Segments with new values, dictionaries that are merged, indexes that are built.
    Merge,
    /// Copies that come, move and go.
    Move,
    /// Bits flipped in one tier, put right from the other.
    Repair,
    /// Transactions over two tables, whose rows change and go.
    Change,
}

impl Work {
    pub(crate) const ALL: [Work; 6] = [
        Work::Append,
        Work::Load,
        Work::Merge,
        Work::Move,
        Work::Repair,
        Work::Change,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Append => "append",
            Work::Load => "load",
            Work::Merge => "merge",
            Work::Move => "move",
            Work::Repair => "repair",
            Work::Change => "change",
        }
    }

    /// About as long as some of its steps take.
    pub(crate) fn some_steps(self) -> Duration {
        Duration::from_millis(match self {
            Work::Append => 20,
            Work::Load | Work::Merge | Work::Move | Work::Change => 100,
            Work::Repair => 60,
        })
    }

    pub(crate) fn named(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }
}

/// What is certain of a database before or behind a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Rows of the table; when rows change, the steps that were taken.
    pub(crate) rows: i64,
    /// Which tiers have everything, so that each is enough alone.
    pub(crate) alone: [bool; 2],
}

/// What the child told before it was killed.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) acknowledged: Mark,
    /// What the next step leads to, if it was begun. Tiers that it takes from, or adds to, are not enough meanwhile.
    pub(crate) begun: Option<Mark>,
    /// Steps acknowledged.
    pub(crate) steps: u64,
}

/// Where the pools of a database of these tests lie.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) db: PathBuf,
    pub(crate) pools: [PathBuf; 2],
}

impl Place {
    pub(crate) fn of(dir: &Path) -> Place {
        let db = dir.join("db");
        let pools = [db.join("far.pool"), db.join("b.pool")];
        Place { db, pools }
    }
}

/// Kills the child some time after its first step was acknowledged.
pub(crate) fn kill_after(mut child: Child, delay: Duration) -> Result<Told, String> {
    let stdout = child
        .stdout
        .take()
        .ok_or("the child's output is not a pipe")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut told = None;
    while told.is_none() {
        match lines.next() {
            Some(line) => take(&line.map_err(|error| error.to_string())?, &mut told)?,
            None => return Err("the child ended before its first step".to_owned()),
        }
    }
    std::thread::sleep(delay);
    // SIGKILL: nothing of the child runs after it.
    child.kill().map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    for line in lines {
        take(&line.map_err(|error| error.to_string())?, &mut told)?;
    }
    if status.code().is_some() {
        return Err(format!("the child ended by itself: {status}"));
    }
    told.ok_or_else(|| "nothing was told".to_owned())
}

/// What begins a line of the child's, behind whatever a test harness may have written.
const SIGN: &str = "@@ ";

fn take(line: &str, told: &mut Option<Told>) -> Result<(), String> {
    let Some((_, line)) = line.split_once(SIGN) else {
        return Ok(());
    };
    let wrong = || format!("`{line}` is no line of the child's");
    let (what, mark) = line.split_once(' ').ok_or_else(wrong)?;
    let mark: Mark = mark.parse().map_err(|()| wrong())?;
    match (what, told) {
        ("done", told) => {
            *told = Some(Told {
                acknowledged: mark,
                begun: None,
                steps: told.as_ref().map_or(0, |told| told.steps) + 1,
            });
        }
        ("begin", Some(told)) => told.begun = Some(mark),
        _ => return Err(wrong()),
    }
    Ok(())
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.rows, self.alone[0], self.alone[1])
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Mark, ()> {
        let mut parts = text.split(' ');
        let mut next = || parts.next().ok_or(());
        Ok(Mark {
            rows: next()?.parse().map_err(drop)?,
            alone: [
                next()?.parse().map_err(drop)?,
                next()?.parse().map_err(drop)?,
            ],
        })
    }
}
