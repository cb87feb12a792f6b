//! What is done with whole tables while rows are committed to another: replicas altered, copies made, tails sealed, dictionaries merged.
//!
//! A commit waits for the one writer. It waits briefly if others do the work, and the writer only publishes what they made.

use std::path::Path;
use std::sync::Arc;

use tierra_engine::Table;

use super::database::Ours;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::histogram::Histogram;
use crate::lab::Lab;

/// Rows of the fact table that a tail has when it is sealed.
const TAIL_ROWS: u64 = 50_000;
/// Values of the dictionary at first, and those that are merged into it at a time: too few for a merge that nobody asked for.
const WORDS: u64 = 50_000;
const NEW_WORDS: u64 = 1_000;

/// The tables and the tier for it.
pub(super) struct Upkeep<'a> {
    ours: &'a Ours<'a>,
    sealed: Arc<Table>,
    words: Arc<Table>,
    /// The next key of `words`.
    next: u64,
}

impl<'a> Upkeep<'a> {
    pub(super) fn create(
        lab: &Lab,
        ours: &'a Ours<'a>,
        place: &Path,
    ) -> Result<Upkeep<'a>, LabError> {
        let next = lab.size(4 * WORDS, 2_000_000);
        ours.execute(&format!(
            "CREATE TIER b AT '{}';
             CREATE TABLE late AS SELECT * FROM lineorder LIMIT {TAIL_ROWS};
             CREATE TABLE sealed AS SELECT * FROM late;
             CREATE TABLE words (id BIGINT PRIMARY KEY, word VARCHAR) WITH ('word.encoding' = 'dictionary');
             INSERT INTO words SELECT s.v, 'word ' || CAST(s.v % {WORDS} AS VARCHAR) FROM generate_series(0, {}) AS s(v)",
            place.join("b.pool").display(),
            next - 1
        ))?;
        ours.settle()?;
        Ok(Upkeep {
            sealed: ours.table("sealed")?,
            words: ours.table("words")?,
            ours,
            next,
        })
    }

    /// Encodes a column of the fact table anew, in two replicas, and then again in one.
    pub(super) fn alter(&mut self, latencies: &mut Histogram) -> Result<(), LabError> {
        self.alter_beside(latencies, "lo_revenue.replicas", "far/static, b/dynamic")?;
        self.alter_beside(latencies, "lo_revenue.replicas", "")
    }

    /// Copies the fact table to another tier, and drops the copy.
    pub(super) fn copy(&mut self, latencies: &mut Histogram) -> Result<(), LabError> {
        self.alter_beside(latencies, "replicas", "far, b")?;
        self.ours
            .execute("ALTER TABLE lineorder SET ('replicas' = '')")
    }

    fn alter_beside(
        &self,
        latencies: &mut Histogram,
        option: &str,
        replicas: &str,
    ) -> Result<(), LabError> {
        let sql = format!("ALTER TABLE lineorder SET ('{option}' = '{replicas}')");
        let altered = self.ours.beside(latencies, false, |phase| {
            phase.measure(|| self.ours.execute(&sql))
        });
        altered.map(drop)
    }

    /// Seals a tail of rows of the fact table.
    pub(super) fn seal(&mut self, latencies: &mut Histogram) -> Result<(), LabError> {
        self.ours
            .execute("TRUNCATE sealed; INSERT INTO sealed SELECT * FROM late")?;
        let sealed = self.ours.beside(latencies, false, |phase| {
            let sealed = phase.measure(|| self.sealed.seal());
            sealed.by(Tierra::ENGINE, "sealing a tail")
        });
        sealed.map(drop)
    }

    /// Merges new words of sealed rows into the dictionary.
    pub(super) fn merge(&mut self, latencies: &mut Histogram) -> Result<(), LabError> {
        let (first, last) = (self.next, self.next + NEW_WORDS - 1);
        self.next += NEW_WORDS;
        self.ours.execute(&format!(
            "INSERT INTO words SELECT s.v, 'new ' || CAST(s.v AS VARCHAR) FROM generate_series({first}, {last}) AS s(v)"
        ))?;
        self.words.seal().by(Tierra::ENGINE, "sealing a tail")?;
        let merged = self.ours.beside(latencies, false, |phase| {
            let merged = phase.measure(|| self.words.merge_dictionaries());
            merged.by(Tierra::ENGINE, "merging a dictionary")
        });
        merged.map(drop)
    }
}
