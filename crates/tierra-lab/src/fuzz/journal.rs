//! What a long run has done, so that the same program goes on with it after it was ended early.
//!
//! ```text
//!   {"program": "…", "queries": 1000000}      which run this is
//!   {"first": 14286702086, "tally": {…}}      a set of tables that is done, one a line
//! ```
//!
//! A grammar is part of its program: one that was built anew is another program, whatever its grammar is.
//!
//! Invariant: a line is written after its set is done, at once; a line cut short, or another run's file, counts for nothing.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Tally;
use crate::error::{At, LabError};

/// Which run a journal belongs to.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    program: String,
    queries: u64,
}

#[derive(Serialize)]
struct Done<'a> {
    first: u64,
    tally: &'a Tally,
}

#[derive(Deserialize)]
struct WasDone {
    first: u64,
    tally: Tally,
}

/// The sets of tables that a run has done.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens the journal of a run of that many queries by this program, and what it has done before, by its first case.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path, queries: u64) -> Result<(Journal, HashMap<u64, Tally>), LabError> {
        let run = Run {
            program: program(),
            queries,
        };
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines();
        let is_same = lines
            .next()
            .and_then(|line| serde_json::from_str::<Run>(line).ok())
            .is_some_and(|earlier| earlier == run);
        let done: Vec<WasDone> = lines
            .filter(|_| is_same)
            .map_while(|line| serde_json::from_str(line).ok())
            .collect();
        // Written anew, so that nothing stands behind a line that was cut short.
        let file = File::create(path).at(path)?;
        let mut journal = Journal {
            file,
            path: path.to_owned(),
        };
        journal.write(&run)?;
        for WasDone { first, tally } in &done {
            journal.note(*first, tally)?;
        }
        let done = done.into_iter().map(|done| (done.first, done.tally));
        Ok((journal, done.collect()))
    }

    /// Notes that the set whose first case this is was done.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&mut self, first: u64, tally: &Tally) -> Result<(), LabError> {
        self.write(&Done { first, tally })
    }

    /// Removes the journal of a run whose results are written: the next one starts from the beginning.
    pub fn remove(path: &Path) {
        // One that stays would only be read by the same program.
        let _ = fs::remove_file(path);
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), LabError> {
        let mut text = serde_json::to_string(line).expect("numbers and texts can be written");
        text.push('\n');
        self.file.write_all(text.as_bytes()).at(&self.path)
    }
}

/// This very program: its path, length and time of making.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let made = fs::metadata(&path).ok().and_then(|found| {
        let since = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH);
        Some((found.len(), since.ok()?.as_nanos()))
    });
    format!("{} {made:?}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(sets: u64) -> Tally {
        let mut tally = Tally::default();
        tally.sets += sets;
        tally
    }

    #[test]
    fn a_run_goes_on_where_it_ended_and_another_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, done) = Journal::open(&path, 100).unwrap();
        assert!(done.is_empty());
        journal.note(7, &tally(1)).unwrap();
        journal.note(9, &tally(2)).unwrap();
        drop(journal);
        // Ended within a line.
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"first\": 11, \"ta");
        fs::write(&path, text).unwrap();

        let (mut journal, done) = Journal::open(&path, 100).unwrap();
        let sets = |done: &HashMap<u64, Tally>, first| done.get(&first).map(|tally| tally.sets);
        assert_eq!(
            (sets(&done, 7), sets(&done, 9), done.len()),
            (Some(1), Some(2), 2)
        );
        journal.note(11, &tally(3)).unwrap();
        drop(journal);
        let (journal, done) = Journal::open(&path, 100).unwrap();
        assert_eq!((sets(&done, 11), done.len()), (Some(3), 3));
        drop(journal);
        assert!(
            Journal::open(&path, 200).unwrap().1.is_empty(),
            "another run"
        );

        // Another program, and so another grammar.
        let (mut journal, _) = Journal::open(&path, 200).unwrap();
        journal.note(7, &tally(1)).unwrap();
        drop(journal);
        let text = fs::read_to_string(&path).unwrap();
        let other = text.replacen("Some((", "Some((1", 1);
        assert_ne!(text, other);
        fs::write(&path, other).unwrap();
        assert!(
            Journal::open(&path, 200).unwrap().1.is_empty(),
            "another program"
        );

        Journal::remove(&path);
        assert!(!path.exists());
    }
}
