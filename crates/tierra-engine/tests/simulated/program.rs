//! A database in one tier or two that is used and recorded, step by step, and what it should hold after each.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_engine::{Database, Replicas, ScrubOptions, Table};
use tierra_memory::directory::Directory;
use tierra_memory::faults::Injector;
use tierra_memory::simulation::{Recorder, Trace};
use tierra_memory::{Pool, PoolOptions};

use super::{POOLS, SECOND, State, folder, options, rows, spec};

/// What has to be there once a step was acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) state: State,
    /// Whether the first tier, and the second, has all of it, so that it is enough alone.
    pub(crate) alone: [bool; 2],
}

/// A database that is used and recorded.
pub(crate) struct Program {
    pub(crate) dir: TempDir,
    pub(crate) recorder: Recorder,
    /// `None` only between closing and opening.
    database: Option<Arc<Database>>,
    /// After each step; step 0 is nothing, step 1 the empty database.
    pub(crate) steps: Vec<Step>,
    /// How many events there were when each step had been done.
    pub(crate) events: Vec<usize>,
}

/// What a program did.
pub(crate) struct Recorded {
    pub(crate) trace: Trace,
    pub(crate) steps: Vec<Step>,
    pub(crate) events: Vec<usize>,
    _dir: TempDir,
}

impl Program {
    /// The empty database, in one tier.
    pub(crate) fn new(recorder: Recorder) -> Program {
        let dir = folder();
        let database = Database::create(&dir.path().join("db"), &options(&recorder)).unwrap();
        let mut program = Program {
            dir,
            recorder,
            database: Some(database),
            steps: vec![Step::default()],
            events: vec![0],
        };
        program.done(|step| step.alone[0] = true);
        program
    }

    /// Goes on with what is there, as the step after `before` others.
    pub(crate) fn going_on(
        dir: TempDir,
        recorder: Recorder,
        before: usize,
        alone: [bool; 2],
    ) -> Program {
        let database = Database::open(&dir.path().join("db"), &options(&recorder)).unwrap();
        let state = super::state(&database).unwrap();
        let mut program = Program {
            dir,
            recorder,
            database: Some(database),
            steps: vec![Step::default(); before],
            events: Vec::new(),
        };
        program.done(|step| *step = Step { state, alone });
        program
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        self.database.as_ref().unwrap()
    }

    fn table(&self, name: &str) -> Arc<Table> {
        self.database().table(name).unwrap()
    }

    pub(crate) fn now(&self) -> &Step {
        self.steps.last().unwrap()
    }

    /// The last step is done and acknowledged.
    pub(crate) fn done(&mut self, change: impl FnOnce(&mut Step)) {
        let mut next = self.steps.last().unwrap().clone();
        change(&mut next);
        self.steps.push(next);
        self.recorder.acknowledge(self.steps.len() as u64 - 1);
        self.events.push(self.recorder.trace().len());
    }

    pub(crate) fn add_tier(&mut self) {
        self.database().add_tier(SECOND, &self.second()).unwrap();
        let is_empty = self.now().state.is_empty();
        self.done(|step| step.alone[1] = is_empty);
    }

    /// The second tier goes, and its pool with it.
    pub(crate) fn drop_tier(&mut self) {
        self.database().drop_tier(SECOND).unwrap();
        self.done(|step| step.alone[1] = false);
        let directory = Directory::new(&self.db(), Some(&self.recorder));
        directory.remove(POOLS[1]).unwrap();
        directory.sync().unwrap();
        self.done(|_| {});
    }

    /// A table in the first tier, and perhaps in the second.
    pub(crate) fn create(&mut self, name: &str, tiers: &[&str]) {
        let replicas = Replicas::of_table(tiers.iter().copied());
        self.database()
            .create_table_in(spec(name), replicas)
            .unwrap();
        self.done(|step| {
            step.state.insert(name.to_owned(), 0);
            keep_alone(step, tiers);
        });
    }

    pub(crate) fn append(&mut self, name: &str, count: i64) {
        let first = self.now().state[name];
        self.table(name)
            .append(&[rows(first..first + count)])
            .unwrap();
        self.done(|step| *step.state.get_mut(name).unwrap() += count);
    }

    /// A table that appears with its first rows.
    pub(crate) fn begin(&mut self, name: &str, tiers: &[&str], count: i64) {
        let replicas = Replicas::of_table(tiers.iter().copied());
        let table = self
            .database()
            .begin_table_in(spec(name), replicas)
            .unwrap();
        table.append(&[rows(0..count)]).unwrap();
        self.done(|step| {
            step.state.insert(name.to_owned(), count);
            keep_alone(step, tiers);
        });
    }

    pub(crate) fn load(&mut self, name: &str, count: i64) {
        let first = self.now().state[name];
        let mut loader = self.table(name).loader();
        loader.push(rows(first..first + count)).unwrap();
        loader.finish().unwrap();
        self.done(|step| *step.state.get_mut(name).unwrap() += count);
    }

    pub(crate) fn seal(&mut self, name: &str) {
        self.table(name).seal().unwrap();
        self.settle();
    }

    pub(crate) fn merge(&mut self, name: &str) {
        self.table(name).merge_dictionaries().unwrap();
        self.done(|_| {});
    }

    /// What goes on in the background, indexes and copies, is done.
    pub(crate) fn settle(&mut self) {
        self.database().wait_for_near_copies().unwrap();
        self.done(|_| {});
    }

    pub(crate) fn drop_table(&mut self, name: &str) {
        self.database().drop_table(name).unwrap();
        self.done(|step| {
            step.state.remove(name);
        });
    }

    /// Copies come, move and go. As long as there is one table, this says what each tier has.
    pub(crate) fn place(&mut self, name: &str, tiers: &[&str]) {
        let replicas = Replicas::of_table(tiers.iter().copied());
        self.table(name).set_replicas(&replicas).unwrap();
        self.done(|step| {
            step.alone = [true; 2];
            keep_alone(step, tiers);
        });
    }

    /// As [`Program::place`], in encodings of their own: each of the two tiers has all of the table.
    pub(crate) fn place_encoded(&mut self, name: &str, replicas: &Replicas) {
        self.table(name).set_replicas(replicas).unwrap();
        self.done(|step| step.alone = [true; 2]);
    }

    /// As [`Program::place`], but it is not done: a program that forgets a copy.
    pub(crate) fn forget_to_place(&mut self, tiers: &[&str]) {
        self.done(|step| {
            step.alone = [true; 2];
            keep_alone(step, tiers);
        });
    }

    /// The machine is off; bits are flipped in the pool of a tier, anywhere behind its header, and the database is opened again.
    pub(crate) fn damage(&mut self, tier: usize, seed: u64, bits: usize) {
        self.close();
        let path = self.db().join(POOLS[tier]);
        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        let within = FIRST_EXTENT..pool.len_bytes();
        let damage = Injector::new(seed).flip_bits(&pool, within, bits).unwrap();
        assert_eq!(damage.offsets.len(), bits);
        drop(pool);
        self.done(|step| step.alone[tier] = false);
        self.database = Some(Database::open(&self.db(), &options(&self.recorder)).unwrap());
        self.done(|_| {});
    }

    /// Everything is put right.
    pub(crate) fn repair(&mut self) {
        self.database().wait_for_near_copies().unwrap();
        let scrubbed = self.database().scrub(&ScrubOptions::default(), |_| {});
        let scrubbed = scrubbed.unwrap();
        assert_eq!(scrubbed.lost, []);
        assert_eq!(scrubbed.damaged_copies, scrubbed.repaired_copies);
        self.done(|step| step.alone = [true; 2]);
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("db")
    }

    fn second(&self) -> PathBuf {
        self.db().join(POOLS[1])
    }

    fn close(&mut self) {
        if let Some(database) = self.database.take() {
            database.close();
        }
    }

    pub(crate) fn end(mut self) -> Recorded {
        self.close();
        Recorded {
            trace: self.recorder.trace(),
            steps: self.steps,
            events: self.events,
            _dir: self.dir,
        }
    }

    /// A bit of everything, in one tier.
    pub(crate) fn run(mut self) -> Recorded {
        let far = &["far"][..];
        self.create("t", far);
        for count in [1, 3, 2, 30] {
            self.append("t", count);
        }
        self.seal("t");
        self.append("t", 5);
        self.begin("u", far, 4);
        self.append("t", 40);
        self.seal("t");
        self.merge("t");
        self.append("u", 9);
        // More than a log's extent holds, which makes another one.
        self.append("t", 2500);
        self.append("t", 2500);
        self.append("t", 1);
        self.drop_table("u");
        self.begin("u", far, 2);
        self.append("t", 2);
        self.seal("t");
        self.append("t", 1);
        self.end()
    }

    /// The second tier comes and goes, twice, with and without a table in it.
    pub(crate) fn run_tiers(mut self) -> Recorded {
        self.create("t", &["far"]);
        self.append("t", 3);
        self.add_tier();
        self.append("t", 2);
        self.drop_tier();
        self.append("t", 1);
        self.add_tier();
        self.place("t", &["far", SECOND]);
        self.append("t", 4);
        self.place("t", &["far"]);
        self.drop_tier();
        self.append("t", 1);
        self.end()
    }

    /// The life of a table with copies in two tiers: they come, move, go and come back, and damage is repaired.
    pub(crate) fn run_in_two(mut self, seed: u64) -> Recorded {
        let both = &["far", SECOND][..];
        self.create("t", &["far"]);
        self.append("t", 3);
        self.add_tier();
        self.append("t", 20);
        self.seal("t");
        self.append("t", 2);
        self.place("t", both);
        self.append("t", 4);
        self.begin("u", both, 3);
        self.append("t", 60);
        self.seal("t");
        self.merge("t");
        self.append("u", 2);
        self.drop_table("u");
        self.place("t", &[SECOND]);
        self.append("t", 1);
        self.place("t", &[SECOND, "far"]);
        self.append("t", 2500);
        self.append("t", 2500);
        self.append("t", 1);
        self.damage((seed % 2) as usize, seed, 20);
        self.repair();
        self.append("t", 2);
        self.seal("t");
        self.place("t", &["far"]);
        self.append("t", 1);
        self.end()
    }

    /// The life of a table whose copies in two tiers are in different encodings, chosen by the seed: they are made, get new rows, become
    /// others, and one goes.
    pub(crate) fn run_encoded(mut self, seed: u64) -> Recorded {
        self.add_tier();
        self.create("t", &["far"]);
        self.append("t", 20);
        self.seal("t");
        self.append("t", 2);
        self.place_encoded("t", &encoded(seed));
        self.append("t", 30);
        self.seal("t");
        self.merge("t");
        self.append("t", 1);
        self.place_encoded("t", &encoded(seed + 1));
        self.load("t", 3);
        self.settle();
        self.place("t", &[SECOND]);
        self.append("t", 1);
        self.end()
    }
}

/// Of `id` in the first tier and in the second, and of `word`. The first of `word` is its dictionary, which its index needs.
const ENCODED: [[[&str; 2]; 2]; 3] = [
    [["far/static", "b/delta"], ["far", "b/front"]],
    [["far/for", "b/plain"], ["far/dictionary", "b/fsst"]],
    [
        ["far/dynamic", "b/fastpfor"],
        ["far/dictionary", "b/prefix"],
    ],
];

/// A copy in each of two tiers, in encodings that differ.
pub(crate) fn encoded(number: u64) -> Replicas {
    let [id, word] = ENCODED[number as usize % ENCODED.len()];
    let columns = [("id", id), ("word", word)];
    Replicas {
        table: vec!["far".to_owned(), SECOND.to_owned()],
        columns: columns
            .map(|(column, tiers)| (column.to_owned(), tiers.map(str::to_owned).to_vec()))
            .into(),
    }
}

/// Behind the header and the superblock.
const FIRST_EXTENT: u64 = 16 << 10;

/// Only these tiers have what a new table holds.
fn keep_alone(step: &mut Step, tiers: &[&str]) {
    for (alone, name) in step.alone.iter_mut().zip(["far", SECOND]) {
        *alone &= tiers.contains(&name);
    }
}

impl Recorded {
    /// The program is killed after some events, the next one goes on with what it left: the history of both, and the
    /// steps of the second, which are numbered behind those of the first.
    pub(crate) fn killed_and_gone_on(
        &self,
        recorder: Recorder,
        events: usize,
    ) -> (Trace, Vec<Step>) {
        let dir = folder();
        let left = dir.path().join("db");
        self.trace.directory_killed_after(events, &left).unwrap();
        let recorder = recorder.going_on(&self.trace, events);
        // What was acknowledged, and what was under way.
        let done = self.events.iter().rposition(|before| *before <= events);
        let near = done.unwrap_or(0)..self.steps.len().min(done.unwrap_or(0) + 2);
        let alone = [0, 1].map(|tier| self.steps[near.clone()].iter().all(|step| step.alone[tier]));
        let mut next = Program::going_on(dir, recorder, self.steps.len(), alone);
        let shown = &next.now().state;
        let is_known = self.steps[near].iter().any(|step| step.state == *shown);
        assert!(is_known, "{shown:?} was shown");
        if !shown.contains_key("t") {
            next.create("t", &["far"]);
        }
        next.append("t", 1);
        next.append("t", 2);
        let next = next.end();
        let trace = self.trace.killed_and_continued(events, &next.trace);
        (trace, next.steps)
    }
}
