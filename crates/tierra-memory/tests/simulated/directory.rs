//! Pools that come, change and go in a directory, and the file that names them. Each step is one of these.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tierra_memory::directory::Directory;
use tierra_memory::simulation::{Image, Recorder};
use tierra_memory::{Pool, PoolOptions};

use super::finish;

/// The file that says which pools there are.
const NAMES: &str = "names";

fn options(directory: &Directory, name: &str) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(64 << 10),
        recorder: directory.recorder_of(name),
        ..PoolOptions::default()
    }
}

/// What pools there are, and what their roots hold.
pub(crate) type State = BTreeMap<String, u8>;

/// A directory that is used: pools come, change and go.
pub(crate) struct Program {
    pub(crate) directory: Directory,
    pub(crate) recorder: Recorder,
    /// After each step; before the first there is nothing.
    pub(crate) states: Vec<State>,
    /// How many events there were then.
    pub(crate) events: Vec<usize>,
}

impl Program {
    pub(crate) fn new(path: &Path, recorder: Recorder) -> Program {
        Program {
            directory: Directory::new(path, Some(&recorder)),
            recorder,
            states: vec![State::new()],
            events: vec![0],
        }
    }

    pub(crate) fn done(&mut self, change: impl FnOnce(&mut State)) {
        let mut next = self.states[self.states.len() - 1].clone();
        change(&mut next);
        self.states.push(next);
        self.recorder.acknowledge(self.states.len() as u64 - 1);
        self.events.push(self.recorder.trace().len());
    }

    /// Names the pools, and one more or one less.
    fn name(&self, change: impl FnOnce(&mut State)) {
        let mut names = self.states[self.states.len() - 1].clone();
        change(&mut names);
        let text: String = names.keys().map(|name| format!("{name}\n")).collect();
        self.directory.replace(NAMES, text.as_bytes()).unwrap();
    }

    pub(crate) fn create(&mut self, name: &str, value: u8) {
        let path = self.directory.join(name);
        let pool = Pool::create(&path, &options(&self.directory, name)).unwrap();
        pool.publish(&finish(&pool, &[value])).unwrap();
        self.name(|names| {
            names.insert(name.to_owned(), value);
        });
        self.done(|state| {
            state.insert(name.to_owned(), value);
        });
    }

    pub(crate) fn change(&mut self, name: &str, value: u8) {
        let path = self.directory.join(name);
        let pool = Pool::open(&path, &options(&self.directory, name)).unwrap();
        pool.retain(&[]).unwrap();
        pool.publish(&finish(&pool, &[value])).unwrap();
        self.done(|state| {
            state.insert(name.to_owned(), value);
        });
    }

    pub(crate) fn drop_pool(&mut self, name: &str) {
        self.name(|names| {
            names.remove(name);
        });
        self.directory.remove(name).unwrap();
        self.directory.sync().unwrap();
        self.done(|state| {
            state.remove(name);
        });
    }

    /// Pools come, change and go.
    pub(crate) fn run(&mut self) {
        self.create("a", 1);
        self.create("b", 2);
        self.change("b", 3);
        self.drop_pool("b");
        self.create("b", 4);
        self.change("a", 5);
    }

    /// The same in an order of that seed.
    pub(crate) fn run_of(&mut self, seed: u64, steps: u8) {
        let mut random = seed;
        for step in 1..=steps {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let name = ["a", "b"][(random >> 40) as usize % 2];
            let is_there = self.states[self.states.len() - 1].contains_key(name);
            match (is_there, random >> 50 & 1) {
                (false, _) => self.create(name, step),
                (true, 0) => self.change(name, step),
                (true, _) => self.drop_pool(name),
            }
        }
    }
}

/// Reads what is there, and takes away what nothing names.
pub(crate) fn recover(directory: &Directory) -> Result<State, String> {
    let names = match directory.read(NAMES) {
        Ok(names) => String::from_utf8(names).map_err(|e| e.to_string())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.to_string()),
    };
    if !names.is_empty() && !names.ends_with('\n') {
        return Err(format!("names are cut short: {names:?}"));
    }
    let mut state = State::new();
    for name in names.lines() {
        let pool = Pool::open(&directory.join(name), &options(directory, name));
        let pool = pool.map_err(|error| error.to_string())?;
        let root = pool.root().ok_or("a pool without a root is named")?;
        pool.verify_extent(root).map_err(|e| e.to_string())?;
        state.insert(name.to_owned(), pool.bytes(root)[0]);
    }
    // What is believed may be nowhere but in this process's view of the directory, and what is taken away is gone.
    directory.sync().map_err(|error| error.to_string())?;
    for name in ["a", "b", "names.new"] {
        if !state.contains_key(name) {
            let _ = directory.remove(name);
        }
    }
    Ok(state)
}

pub(crate) fn check(image: &Image<'_>, states: &[State]) -> Result<(), String> {
    let found = recover(&Directory::new(image.path, Some(&image.recorder)))?;
    let acknowledged = image.acknowledged as usize;
    let near = &states[acknowledged..states.len().min(acknowledged + 2)];
    match near.contains(&found) {
        true => Ok(()),
        false => Err(format!("{found:?} is none of {near:?}")),
    }
}
