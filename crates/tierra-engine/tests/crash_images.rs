//! The promise of a database when the power is cut: every row that was committed is there, and no part of
//! any other. The whole engine is recorded (`tierra_memory::simulation`), and a database is opened on every image that a
//! power cut could leave that opening can tell apart, or on a seeded sample.

mod support;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use support::scan;
use tempfile::TempDir;
use tierra_column::{Encoding, Filter, LogicalType, Value};
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, IndexKind, Table, TableSpec};
use tierra_memory::simulation::{Image, Limits, Recorder, Report, StepKind, Trace};

const RECORDERS: [fn() -> Recorder; 2] = [Recorder::by_line, Recorder::by_page];

fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn options(recorder: &Recorder) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(1 << 20),
        threads: Some(NonZeroUsize::MIN),
        recorder: Some(recorder.clone()),
        ..DatabaseOptions::default()
    }
}

fn spec(name: &str) -> TableSpec {
    let word = ColumnSpec {
        encoding: Some(Encoding::Dictionary),
        index: Some(IndexKind::Inverted),
        ..ColumnSpec::new("word", LogicalType::Varchar)
    };
    TableSpec {
        name: name.to_owned(),
        columns: vec![ColumnSpec::new("id", LogicalType::BigInt).not_null(), word],
        primary_key: vec![0],
    }
}

/// Every fifth row has no word; words come back after a while, and new ones keep coming.
fn word(id: i64) -> Option<String> {
    (id % 5 != 0).then(|| format!("{:05}", (id * 7919) % (40 + id / 2)))
}

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let words: StringViewArray = ids.clone().map(word).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(ids.collect::<Int64Array>()), Arc::new(words)];
    RecordBatch::try_new(spec("any").schema(), columns).unwrap()
}

/// How many rows each table has: those with the ids from 0 on.
type State = BTreeMap<String, i64>;

/// What a database holds, every row checked.
fn state(database: &Database) -> Result<State, String> {
    let mut state = State::new();
    for name in database.tables() {
        let table = database.table(&name).ok_or("a table without a name")?;
        let found = scan(&table.snapshot(), &[0, 1], &[]).0;
        let ids = found.column(0).as_primitive::<Int64Type>();
        let words = found.column(1).as_string_view();
        for (at, id) in ids.values().iter().enumerate() {
            let found = words.is_valid(at).then(|| words.value(at));
            if *id != at as i64 || found != word(*id).as_deref() {
                return Err(format!("row {at} of {name} is ({id}, {found:?})"));
            }
        }
        let rows = ids.len() as i64;
        // The same by the index, as far as it has got.
        let sought = word(1).ok_or("row 1 has a word")?;
        let filter = Filter::eq(Value::Bytes(sought.as_bytes().into()));
        let found = scan(&table.snapshot(), &[0], &[(1, filter)]).0.num_rows();
        let expected = (0..rows).filter(|id| word(*id).as_ref() == Some(&sought));
        if found != expected.count() {
            return Err(format!("the index of {name} finds {found} rows"));
        }
        state.insert(name, rows);
    }
    Ok(state)
}

/// A database that is used and recorded.
struct Program {
    dir: TempDir,
    recorder: Recorder,
    database: Arc<Database>,
    /// After each step; step 0 is nothing, step 1 the empty database.
    states: Vec<State>,
    /// How many events there were when each step had been done.
    events: Vec<usize>,
}

impl Program {
    fn new(recorder: fn() -> Recorder) -> Program {
        let (dir, recorder) = (folder(), recorder());
        let database = Database::create(&dir.path().join("db"), &options(&recorder)).unwrap();
        let mut program = Program {
            dir,
            recorder,
            database,
            states: vec![State::new()],
            events: vec![0],
        };
        program.done(|_| {});
        program
    }

    fn table(&self, name: &str) -> Arc<Table> {
        self.database.table(name).unwrap()
    }

    fn done(&mut self, change: impl FnOnce(&mut State)) {
        let mut next = self.states.last().unwrap().clone();
        change(&mut next);
        self.states.push(next);
        self.recorder.acknowledge(self.states.len() as u64 - 1);
        self.events.push(self.recorder.trace().len());
    }

    fn create(&mut self, name: &str) {
        self.database.create_table(spec(name)).unwrap();
        self.done(|state| {
            state.insert(name.to_owned(), 0);
        });
    }

    fn append(&mut self, name: &str, count: i64) {
        let first = self.states.last().unwrap()[name];
        self.table(name)
            .append(&[rows(first..first + count)])
            .unwrap();
        self.done(|state| *state.get_mut(name).unwrap() += count);
    }

    /// A table that appears with its first rows.
    fn begin(&mut self, name: &str, count: i64) {
        let table = self.database.begin_table(spec(name)).unwrap();
        table.append(&[rows(0..count)]).unwrap();
        self.done(|state| {
            state.insert(name.to_owned(), count);
        });
    }

    fn seal(&mut self, name: &str) {
        self.table(name).seal().unwrap();
        self.database.wait_for_near_copies().unwrap();
        self.done(|_| {});
    }

    fn merge(&mut self, name: &str) {
        self.table(name).merge_dictionaries().unwrap();
        self.done(|_| {});
    }

    fn drop_table(&mut self, name: &str) {
        self.database.drop_table(name).unwrap();
        self.done(|state| {
            state.remove(name);
        });
    }

    /// A bit of everything.
    fn run(mut self) -> Recorded {
        self.create("t");
        for count in [1, 3, 2, 30] {
            self.append("t", count);
        }
        self.seal("t");
        self.append("t", 5);
        self.begin("u", 4);
        self.append("t", 40);
        self.seal("t");
        self.merge("t");
        self.append("u", 9);
        // More than a log's extent holds, which makes another one.
        self.append("t", 2500);
        self.append("t", 2500);
        self.append("t", 1);
        self.drop_table("u");
        self.begin("u", 2);
        self.append("t", 2);
        self.seal("t");
        self.append("t", 1);
        self.end()
    }

    fn end(self) -> Recorded {
        self.database.close();
        drop(self.database);
        Recorded {
            trace: self.recorder.trace(),
            states: self.states,
            events: self.events,
            _dir: self.dir,
            images: folder(),
        }
    }
}

struct Recorded {
    trace: Trace,
    states: Vec<State>,
    events: Vec<usize>,
    _dir: TempDir,
    images: TempDir,
}

impl Recorded {
    /// Where the image of the pool goes: into a database's directory.
    fn image(&self) -> PathBuf {
        let dir = self.images.path().join("db");
        std::fs::create_dir_all(&dir).unwrap();
        dir.join("far.pool")
    }

    fn explore(&self, trace: &Trace, limits: &Limits) -> Report {
        let check = |image: &Image<'_>| check(image, &self.states);
        trace.explore(&self.image(), limits, check).unwrap()
    }
}

/// The state found is that of the step acknowledged or of the next.
fn check(image: &Image<'_>, states: &[State]) -> Result<(), String> {
    let dir = image.path.parent().unwrap_or(Path::new("."));
    let acknowledged = image.acknowledged as usize;
    let found = match Database::open(dir, &options(&image.recorder)) {
        Ok(database) => state(&database)?,
        // Cut before there was a database.
        Err(_) if acknowledged == 0 => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let near = &states[acknowledged..states.len().min(acknowledged + 2)];
    match near.contains(&found) {
        true => Ok(()),
        false => Err(format!("{found:?} is none of {near:?}")),
    }
}

fn assert_kept(report: &Report, limits: &Limits) {
    for violation in &report.violations {
        eprintln!("{violation}");
    }
    assert!(report.violations.is_empty(), "{limits:?}");
}

#[test]
fn a_power_cut_at_any_moment_keeps_what_was_committed() {
    for recorder in RECORDERS {
        let recorded = Program::new(recorder).run();
        let limits = Limits {
            images_per_cut: 200,
            ..Limits::default()
        };
        let report = recorded.explore(&recorded.trace, &limits);
        assert_kept(&report, &limits);
        assert!(report.images > 1500, "{report:?}");
    }
}

/// A load of whole segments, encoded by another thread than the one that publishes.
#[test]
fn a_load_is_all_or_nothing() {
    const ROWS: i64 = 70_000;
    for recorder in RECORDERS {
        let mut program = Program::new(recorder);
        program.create("t");
        program.append("t", ROWS);
        program.append("t", 1);
        let recorded = program.end();
        let limits = Limits {
            images_per_cut: 20,
            ..Limits::default()
        };
        let report = recorded.explore(&recorded.trace, &limits);
        assert_kept(&report, &limits);
    }
}

/// The process is killed, a second one goes on, then the power is cut: what the second one showed, and
/// what it committed, is there.
#[test]
fn a_kill_and_then_a_power_cut_keep_what_was_shown() {
    for recorder in RECORDERS {
        let mut program = Program::new(recorder);
        program.create("t");
        program.append("t", 3);
        program.append("t", 20);
        program.seal("t");
        program.append("t", 2);
        let recorded = program.end();
        for events in 1 + recorded.events[1]..=recorded.trace.len() {
            let (trace, states) = kill_and_go_on(&recorded, recorder, events);
            let limits = Limits {
                images_per_cut: 8,
                ..Limits::default()
            };
            let check = |image: &Image<'_>| match image.acknowledged as usize {
                step if step < recorded.states.len() => check(image, &recorded.states),
                _ => check(image, &states),
            };
            let report = trace.explore(&recorded.image(), &limits, check).unwrap();
            assert_kept(&report, &limits);
        }
    }
}

/// The history of a program that was killed and of one that went on, and the states of its steps, which
/// are numbered behind those of the first.
fn kill_and_go_on(
    recorded: &Recorded,
    recorder: fn() -> Recorder,
    events: usize,
) -> (Trace, Vec<State>) {
    let dir = folder();
    std::fs::write(
        dir.path().join("far.pool"),
        recorded.trace.killed_after(events),
    )
    .unwrap();
    let recorder = recorder();
    let database = Database::open(dir.path(), &options(&recorder)).unwrap();
    let shown = state(&database).unwrap();
    assert!(recorded.states.contains(&shown), "{shown:?}");
    let mut program = Program {
        dir,
        recorder,
        database,
        states: vec![State::new(); recorded.states.len()],
        events: Vec::new(),
    };
    program.done(|state| *state = shown);
    if !program.states.last().unwrap().contains_key("t") {
        program.create("t");
    }
    program.append("t", 1);
    program.append("t", 2);
    let next = program.end();
    let trace = recorded.trace.killed_and_continued(events, &next.trace);
    (trace, next.states)
}

/// The record that a killed process left in the caches is shown by the next one, which writes another
/// behind it. If opening did not flush it, a power cut would leave a gap in the log.
#[test]
fn a_record_that_is_shown_but_not_flushed_is_found() {
    let mut program = Program::new(Recorder::by_line);
    program.create("t");
    program.append("t", 3);
    program.append("t", 2);
    let recorded = program.end();
    let flushes = recorded.trace.steps(StepKind::Flush);
    // Killed before it flushed the last record.
    let events = *flushes.last().unwrap();
    let (trace, states) = kill_and_go_on(&recorded, Recorder::by_line, events);
    let flushes = trace.steps(StepKind::Flush);
    let opening: Vec<usize> = flushes.into_iter().filter(|&step| step >= events).collect();
    let limits = Limits {
        violations: 1000,
        ..Limits::default()
    };
    let found = |trace: &Trace| {
        let check = |image: &Image<'_>| match image.acknowledged as usize {
            step if step < recorded.states.len() => check(image, &recorded.states),
            _ => check(image, &states),
        };
        let report = trace.explore(&recorded.image(), &limits, check).unwrap();
        let shown = report.violations.iter().map(ToString::to_string);
        shown.collect::<Vec<_>>()
    };
    assert_eq!(found(&trace), [""; 0]);
    // Both slots of the superblock, then the log.
    let violations = found(&trace.without(opening[2]));
    let gap = |violation: &String| violation.contains("later records follow");
    assert!(violations.iter().any(gap), "{violations:?}");
}

/// A step that changes what tables hold has a flush and a fence that commit it: without either it is found
/// to be missing. What goes on in the background may flush and fence between, too.
#[test]
fn a_commit_that_is_not_flushed_or_not_fenced_is_found() {
    let recorded = Program::new(Recorder::by_line).run();
    let limits = Limits {
        images_per_cut: 10,
        violations: 1,
        ..Limits::default()
    };
    // Seals and merges commit nothing that could be missed.
    let changing = (2..recorded.states.len())
        .filter(|&step| recorded.states[step] != recorded.states[step - 1]);
    for step in changing.step_by(4) {
        let events = recorded.events[step - 1]..recorded.events[step];
        for kind in [StepKind::Flush, StepKind::Fence] {
            let steps = recorded.trace.steps(kind);
            let mut of_step = steps
                .into_iter()
                .rev()
                .filter(|event| events.contains(event));
            let is_found = |event| {
                let forgetful = recorded.trace.without(event);
                let report = recorded.explore(&forgetful, &limits);
                !report.violations.is_empty()
            };
            assert!(of_step.any(is_found), "step {step}, {kind:?}");
        }
    }
}
