//! A database whose rows are changed while it is recorded, and what it should hold after each step.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_engine::{Database, DatabaseOptions, Replicas, Table};
use tierra_memory::simulation::{Image, Recorder, Trace};

use super::{Model, Random, batch, change, scanned, spec};

/// A table, the keys that go, and the rows that come.
pub(crate) type TableChange<'a> = (&'a str, &'a [i64], &'a [(i64, i64)]);

/// What tables hold, by name.
pub(crate) type State = BTreeMap<String, Model>;

/// What a program did.
pub(crate) struct Recorded {
    pub(crate) trace: Trace,
    /// After each step; step 0 is nothing.
    pub(crate) states: Vec<State>,
    /// How many events there were when each step had been done.
    pub(crate) events: Vec<usize>,
    _dir: TempDir,
}

pub(crate) struct Program {
    dir: TempDir,
    recorder: Recorder,
    /// `None` only between closing and opening.
    database: Option<Arc<Database>>,
    states: Vec<State>,
    events: Vec<usize>,
}

pub(crate) fn options(recorder: &Recorder) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(1 << 20),
        threads: Some(NonZeroUsize::MIN),
        recorder: Some(recorder.clone()),
        ..DatabaseOptions::default()
    }
}

fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

impl Program {
    pub(crate) fn new(recorder: Recorder) -> Program {
        let dir = folder();
        let database = Database::create(&dir.path().join("db"), &options(&recorder)).unwrap();
        let mut program = Program {
            dir,
            recorder,
            database: Some(database),
            states: vec![State::new()],
            events: vec![0],
        };
        program.done(|_| {});
        program
    }

    fn database(&self) -> &Arc<Database> {
        self.database.as_ref().unwrap()
    }

    fn close(&mut self) {
        if let Some(database) = self.database.take() {
            database.close();
        }
    }

    fn table(&self, name: &str) -> Arc<Table> {
        self.database().table(name).unwrap()
    }

    /// The step is done and acknowledged.
    fn done(&mut self, change: impl FnOnce(&mut State)) {
        let mut next = self.states.last().unwrap().clone();
        change(&mut next);
        self.states.push(next);
        self.recorder.acknowledge(self.states.len() as u64 - 1);
        self.events.push(self.recorder.trace().len());
    }

    pub(crate) fn add_tier(&mut self, name: &str) {
        let path = self.dir.path().join("db").join(format!("{name}.pool"));
        self.database().add_tier(name, &path).unwrap();
        self.done(|_| {});
    }

    pub(crate) fn create(&mut self, name: &str, tiers: &[&str]) {
        let replicas = Replicas::of_table(tiers.iter().copied());
        self.database()
            .create_table_in(spec(name, true), replicas)
            .unwrap();
        self.done(|state| drop(state.insert(name.to_owned(), Model::new())));
    }

    /// One commit: in each table rows of some keys go, and others come.
    pub(crate) fn commit(&mut self, changes: &[TableChange<'_>]) {
        let made = changes.iter().map(|(name, deleted, appended)| {
            change(&self.table(name).snapshot(), deleted, appended)
        });
        self.database().commit(made.collect()).unwrap();
        self.done(|state| {
            for (name, deleted, appended) in changes {
                let model = state.get_mut(*name).unwrap();
                for key in *deleted {
                    model.remove(key);
                }
                model.extend(appended.iter().copied());
            }
        });
    }

    /// One change of many rows, which a manifest commits: every row of a table changes.
    pub(crate) fn change_all(&mut self, name: &str, more: i64) {
        let model = self.states.last().unwrap()[name].clone();
        let keys: Vec<i64> = model.keys().copied().collect();
        let mut rows: Vec<(i64, i64)> = model.iter().map(|(key, n)| (*key, n + 1)).collect();
        rows.extend((1000..1000 + more).map(|key| (key, 0)));
        self.commit(&[(name, &keys, &rows)]);
    }

    pub(crate) fn append(&mut self, name: &str, rows: &[(i64, i64)]) {
        self.table(name).append(&[batch(rows)]).unwrap();
        self.done(|state| state.get_mut(name).unwrap().extend(rows.iter().copied()));
    }

    pub(crate) fn seal(&mut self, name: &str) {
        self.table(name).seal().unwrap();
        self.database().wait_for_near_copies().unwrap();
        self.done(|_| {});
    }

    pub(crate) fn merge(&mut self, name: &str) {
        self.table(name).merge_dictionaries().unwrap();
        self.done(|_| {});
    }

    pub(crate) fn truncate(&mut self, names: &[&str]) {
        let tables: Vec<_> = names.iter().map(|name| self.table(name)).collect();
        self.database().truncate(&tables).unwrap();
        self.done(|state| {
            names
                .iter()
                .for_each(|name| state.get_mut(*name).unwrap().clear())
        });
    }

    pub(crate) fn reopen(&mut self) {
        self.close();
        self.done(|_| {});
        let path = self.dir.path().join("db");
        self.database = Some(Database::open(&path, &options(&self.recorder)).unwrap());
        self.done(|_| {});
    }

    pub(crate) fn end(mut self) -> Recorded {
        self.close();
        Recorded {
            trace: self.recorder.trace(),
            states: self.states,
            events: self.events,
            _dir: self.dir,
        }
    }

    /// A random program of that kind for each seed, in one tier or in two.
    pub(crate) fn run_of(mut self, seed: u64) -> Recorded {
        const STEPS: usize = 14;
        let tiers = ["far", "b"];
        let tiers = &tiers[..1 + (seed % 2) as usize];
        if tiers.len() > 1 {
            self.add_tier(tiers[1]);
        }
        let names = ["t", "u"];
        names.iter().for_each(|name| self.create(name, tiers));
        let (mut random, mut next_key) = (Random(seed), 0);
        for _ in 0..STEPS {
            let name = names[random.below(2)];
            match random.below(12) {
                0 => self.seal(name),
                1 => self.merge(name),
                2 => self.reopen(),
                3 if random.below(3) == 0 => self.truncate(&names[..1 + random.below(2)]),
                of => {
                    // Of both tables, or of one.
                    let changed: &[&str] = if of > 6 { &names } else { &[name] };
                    let made = changed.iter().map(|name| {
                        let model = &self.states.last().unwrap()[*name];
                        let deleted = match random.below(3) {
                            0 => Vec::new(),
                            _ => random.keys(model, 3),
                        };
                        let replaced = deleted.iter().filter(|key| *key % 3 > 0);
                        let replaced = replaced.map(|key| (*key, model[key] + 1));
                        let fresh = next_key..next_key + 1 + random.below(3) as i64;
                        next_key = fresh.end;
                        let rows = replaced.chain(fresh.map(|key| (key, 0)));
                        (*name, rows.collect::<Vec<_>>(), deleted)
                    });
                    let made: Vec<_> = made.collect();
                    let made = made.iter();
                    let made = made.map(|(name, rows, gone)| (*name, &gone[..], &rows[..]));
                    self.commit(&made.collect::<Vec<_>>());
                }
            }
        }
        self.end()
    }

    /// Rows come, change and go in two tables, by logs and by manifests.
    pub(crate) fn run(mut self, tiers: &[&str]) -> Recorded {
        for tier in &tiers[1..] {
            self.add_tier(tier);
        }
        self.create("t", tiers);
        self.create("u", tiers);
        self.append("t", &[(1, 0), (2, 0), (3, 0)]);
        self.commit(&[("t", &[2], &[])]);
        self.commit(&[("t", &[1], &[(1, 1), (4, 0)])]);
        self.commit(&[("t", &[3], &[(2, 5)]), ("u", &[], &[(9, 0), (8, 0)])]);
        self.seal("t");
        self.commit(&[("t", &[4, 2], &[(2, 6)])]);
        self.commit(&[("t", &[1], &[]), ("u", &[9], &[(9, 1)])]);
        self.seal("t");
        self.commit(&[("u", &[8], &[])]);
        self.seal("u");
        self.merge("t");
        self.commit(&[("t", &[2], &[(3, 3), (5, 0)]), ("u", &[9], &[])]);
        self.reopen();
        self.commit(&[("t", &[], &[(6, 0)]), ("u", &[], &[(6, 1)])]);
        self.commit(&[("t", &[6, 3], &[]), ("u", &[6], &[(7, 1)])]);
        self.truncate(&["u"]);
        self.commit(&[("t", &[5], &[(5, 1)]), ("u", &[], &[(7, 2)])]);
        self.end()
    }
}

impl Recorded {
    /// What is wrong with what a power cut left.
    ///
    /// # Panics
    /// If ways of reading it differ.
    pub(crate) fn check(&self, image: &Image<'_>) -> Result<(), String> {
        let opened = match image.acknowledged {
            0 => Database::open_or_create(image.path, &options(&image.recorder)),
            _ => Database::open(image.path, &options(&image.recorder)),
        };
        let database = opened.map_err(|error| error.to_string())?;
        let done = image.acknowledged as usize;
        let near = &self.states[done..self.states.len().min(done + 2)];
        if let Some(why) = database.unavailable().first() {
            return Err(why.to_string());
        }
        let found = found(&database)?;
        if !near.contains(&found) {
            return Err(format!("{found:?} is none of {near:?}"));
        }
        // What keys say, everything else must say too.
        for (name, model) in &found {
            let snapshot = database.table(name).unwrap().snapshot();
            super::check(&snapshot, model, &[], &[]);
        }
        Ok(())
    }
}

/// Every table's keys and numbers of changes, scanned.
fn found(database: &Database) -> Result<State, String> {
    let of_table = |name: String| {
        let snapshot = database.table(&name).unwrap().snapshot();
        let batches = scanned(&snapshot, &[0, 1], &[], None).map_err(|error| error.to_string())?;
        Ok((name, batches.iter().flat_map(super::pairs).collect()))
    };
    database.tables().into_iter().map(of_table).collect()
}
