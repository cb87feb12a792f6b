//! The promise of a directory whose files are recorded with the pools in it: whatever a power cut leaves of names, of what
//! files hold and of pools, the last step that was acknowledged is there, or the next; and what is forgotten is found.

mod simulated;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use simulated::{RECORDERS, assert_kept, finish, folder};
use tempfile::TempDir;
use tierra_memory::directory::Directory;
use tierra_memory::simulation::{Image, Limits, Recorder, Report, StepKind, Trace};
use tierra_memory::{Pool, PoolOptions};

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
type State = BTreeMap<String, u8>;

/// A directory that is used: pools come, change and go.
struct Program {
    directory: Directory,
    recorder: Recorder,
    /// After each step; before the first there is nothing.
    states: Vec<State>,
    /// How many events there were then.
    events: Vec<usize>,
}

impl Program {
    fn new(path: &Path, recorder: Recorder) -> Program {
        Program {
            directory: Directory::new(path, Some(&recorder)),
            recorder,
            states: vec![State::new()],
            events: vec![0],
        }
    }

    fn done(&mut self, change: impl FnOnce(&mut State)) {
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

    fn create(&mut self, name: &str, value: u8) {
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

    fn change(&mut self, name: &str, value: u8) {
        let path = self.directory.join(name);
        let pool = Pool::open(&path, &options(&self.directory, name)).unwrap();
        pool.retain(&[]).unwrap();
        pool.publish(&finish(&pool, &[value])).unwrap();
        self.done(|state| {
            state.insert(name.to_owned(), value);
        });
    }

    fn drop_pool(&mut self, name: &str) {
        self.name(|names| {
            names.remove(name);
        });
        self.directory.remove(name).unwrap();
        self.directory.sync().unwrap();
        self.done(|state| {
            state.remove(name);
        });
    }

    /// All of it.
    fn run(&mut self) {
        self.create("a", 1);
        self.create("b", 2);
        self.change("b", 3);
        self.drop_pool("b");
        self.create("b", 4);
        self.change("a", 5);
    }
}

/// Reads what is there, and takes away what nothing names.
fn recover(directory: &Directory) -> Result<State, String> {
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
    for name in ["a", "b", "names.new"] {
        if !state.contains_key(name) {
            let _ = directory.remove(name);
        }
    }
    Ok(state)
}

fn check(image: &Image<'_>, states: &[State]) -> Result<(), String> {
    let found = recover(&Directory::new(image.path, Some(&image.recorder)))?;
    let acknowledged = image.acknowledged as usize;
    let near = &states[acknowledged..states.len().min(acknowledged + 2)];
    match near.contains(&found) {
        true => Ok(()),
        false => Err(format!("{found:?} is none of {near:?}")),
    }
}

fn explore(dir: &TempDir, trace: &Trace, violations: usize, states: &[State]) -> Report {
    let limits = Limits {
        images_per_cut: 60,
        violations,
        ..Limits::default()
    };
    let image = dir.path().join("image");
    let explored = trace.explore_directory(&image, &limits, |image| check(image, states));
    explored.unwrap()
}

#[test]
fn pools_that_come_and_go_are_there_as_acknowledged() {
    for recorder in RECORDERS {
        let dir = folder();
        let path = dir.path().join("db");
        std::fs::create_dir(&path).unwrap();
        let mut program = Program::new(&path, recorder());
        program.run();
        let trace = program.recorder.trace();
        let report = explore(&dir, &trace, 10, &program.states);
        println!("{} images of {} cuts", report.images, report.cuts);
        assert_kept(&report, &Limits::default());
        assert!(report.images > 500, "{report:?}");
        assert!(3 * report.exhaustive_cuts > 2 * report.cuts, "{report:?}");
    }
}

/// Each file synced before it gets its name, and each name synced before anybody is told. What makes a new pool's name
/// durable is stood in for by what makes the name of the file durable that names it.
#[test]
fn what_is_not_synced_is_found() {
    let dir = folder();
    let path = dir.path().join("db");
    std::fs::create_dir(&path).unwrap();
    let mut program = Program::new(&path, Recorder::by_line());
    program.run();
    let trace = program.recorder.trace();
    let syncs = trace.steps(StepKind::FileSync);
    // A pool that is made: two of its own, then the two of `replace`. One that goes: these two, then one.
    let kinds = [&[0, 0, 1, 1][..], &[0, 0, 1, 1], &[1, 1, 0], &[0, 0, 1, 1]].concat();
    assert_eq!(syncs.len(), kinds.len());
    for (sync, is_needed) in syncs.into_iter().zip(kinds) {
        let report = explore(&dir, &trace.without(sync), 1, &program.states);
        assert!(
            is_needed == 0 || !report.violations.is_empty(),
            "event {sync}"
        );
    }
}

/// Killed at any moment, the next process goes on with everything, durable or not, and then the power is cut.
#[test]
fn a_kill_and_then_a_power_cut_keep_what_was_shown() {
    let dir = folder();
    let path = dir.path().join("db");
    std::fs::create_dir(&path).unwrap();
    let mut program = Program::new(&path, Recorder::by_line());
    program.run();
    let trace = program.recorder.trace();
    for events in (program.events[1]..trace.len()).step_by(3) {
        let left = dir.path().join(format!("left{events}"));
        trace.directory_killed_after(events, &left).unwrap();
        let recorder = Recorder::by_line().going_on(&trace, events);
        let mut next = Program::new(&left, recorder);
        // What is shown from now on has to be durable, names as well.
        let found = recover(&next.directory).unwrap();
        next.directory.sync().unwrap();
        let before = program.events.iter().filter(|of| **of <= events).count();
        next.states = vec![State::new(); before];
        next.done(|state| *state = found);
        next.change("a", 77);
        let both = trace.killed_and_continued(events, &next.recorder.trace());
        let mut states = program.states[..before].to_vec();
        states.extend(program.states.get(before).cloned());
        let report = {
            let limits = Limits {
                images_per_cut: 10,
                ..Limits::default()
            };
            let image = dir.path().join("image");
            let explored = both.explore_directory(&image, &limits, |image| {
                match (image.acknowledged as usize) < before {
                    true => check(image, &states),
                    false => check(image, &next.states),
                }
            });
            explored.unwrap()
        };
        assert_kept(&report, &Limits::default());
    }
}
