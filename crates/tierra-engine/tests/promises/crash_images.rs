//! The promise of a database when the power is cut: every row that was committed is there, and no part of
//! any other. The whole engine is recorded (`tierra_memory::simulation`), and a database is opened on every image that a
//! power cut could leave that opening can tell apart, or on a seeded sample. With two tiers: `crash_tiers.rs`.

use crate::simulated::{Program, RECORDERS, Recorded, Step, assert_kept, check_one, folder};
use tempfile::TempDir;
use tierra_memory::simulation::{Image, Limits, Recorder, Report, StepKind, Trace};

const FAR: &[&str] = &["far"];

/// Where images go.
struct Images(TempDir);

impl Images {
    fn new() -> Images {
        Images(folder())
    }

    fn explore(&self, trace: &Trace, limits: &Limits, steps: &[Step]) -> Report {
        self.explore_by(trace, limits, |image| check_one(image, steps))
    }

    /// Of a program that was killed and of one that went on, whose steps are numbered behind.
    fn explore_both(
        &self,
        trace: &Trace,
        limits: &Limits,
        first: &[Step],
        second: &[Step],
    ) -> Report {
        let check = |image: &Image<'_>| match image.acknowledged as usize {
            step if step < first.len() => check_one(image, first),
            _ => check_one(image, second),
        };
        self.explore_by(trace, limits, check)
    }

    fn explore_by(
        &self,
        trace: &Trace,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> Report {
        let image = self.0.path().join("image");
        trace.explore_directory(&image, limits, check).unwrap()
    }
}

fn explore(recorded: &Recorded, limits: &Limits) -> Report {
    Images::new().explore(&recorded.trace, limits, &recorded.steps)
}

#[test]
fn a_power_cut_at_any_moment_keeps_what_was_committed() {
    for recorder in RECORDERS {
        let recorded = Program::new(recorder()).run();
        let limits = Limits {
            images_per_cut: 200,
            ..Limits::default()
        };
        let report = explore(&recorded, &limits);
        assert_kept(&report, &limits);
        assert!(report.images > 1500, "{report:?}");
    }
}

/// A load of whole segments, encoded by another thread than the one that publishes.
#[test]
fn a_load_is_all_or_nothing() {
    const ROWS: i64 = 70_000;
    for recorder in RECORDERS {
        let mut program = Program::new(recorder());
        program.create("t", FAR);
        program.append("t", ROWS);
        program.append("t", 1);
        let recorded = program.end();
        let limits = Limits {
            images_per_cut: 20,
            ..Limits::default()
        };
        let report = explore(&recorded, &limits);
        assert_kept(&report, &limits);
    }
}

/// The process is killed, a second one goes on, then the power is cut: what the second one showed, and
/// what it committed, is there.
#[test]
fn a_kill_and_then_a_power_cut_keep_what_was_shown() {
    for recorder in RECORDERS {
        let mut program = Program::new(recorder());
        program.create("t", FAR);
        program.append("t", 3);
        program.append("t", 20);
        program.seal("t");
        program.append("t", 2);
        let recorded = program.end();
        let images = Images::new();
        // A sample: the lab's `crash` has more.
        for events in (1 + recorded.events[1]..=recorded.trace.len()).step_by(5) {
            let (trace, steps) = recorded.killed_and_gone_on(recorder(), events);
            let limits = Limits {
                images_per_cut: 8,
                ..Limits::default()
            };
            let report = images.explore_both(&trace, &limits, &recorded.steps, &steps);
            assert_kept(&report, &limits);
        }
    }
}

/// The record that a killed process left in the caches is shown by the next one, which writes another
/// behind it. If opening did not flush it, a power cut would leave a gap in the log.
#[test]
fn a_record_that_is_shown_but_not_flushed_is_found() {
    let mut program = Program::new(Recorder::by_line());
    program.create("t", FAR);
    program.append("t", 3);
    program.append("t", 2);
    let recorded = program.end();
    let mut flushes = recorded.trace.steps(StepKind::Flush);
    // Killed before it flushed the last record; behind it the log is marked as acknowledged to its end.
    let last_step = recorded.events[recorded.events.len() - 1];
    flushes.retain(|flush| *flush < last_step);
    let events = *flushes.last().unwrap();
    let (trace, steps) = recorded.killed_and_gone_on(Recorder::by_line(), events);
    let flushes = trace.steps(StepKind::Flush);
    let opening: Vec<usize> = flushes.into_iter().filter(|&step| step >= events).collect();
    let limits = Limits {
        violations: 1000,
        ..Limits::default()
    };
    let images = Images::new();
    let found = |trace: &Trace| {
        let report = images.explore_both(trace, &limits, &recorded.steps, &steps);
        let shown = report.violations.iter().map(ToString::to_string);
        shown.collect::<Vec<_>>()
    };
    assert_eq!(found(&trace), [""; 0]);
    // Both slots of the superblock, twice each, then the log.
    let violations = found(&trace.without(opening[4]));
    let gap = |violation: &String| violation.contains("later records follow");
    assert!(violations.iter().any(gap), "{violations:?}");
}

/// A step that changes what tables hold has a flush and a fence that commit it: without either it is found
/// to be missing. What goes on in the background may flush and fence between, too.
#[test]
fn a_commit_that_is_not_flushed_or_not_fenced_is_found() {
    let recorded = Program::new(Recorder::by_line()).run();
    let limits = Limits {
        images_per_cut: 10,
        violations: 1,
        ..Limits::default()
    };
    // Seals and merges commit nothing that could be missed.
    let changing = (2..recorded.steps.len())
        .filter(|&step| recorded.steps[step].state != recorded.steps[step - 1].state);
    let images = Images::new();
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
                let report = images.explore(&forgetful, &limits, &recorded.steps);
                !report.violations.is_empty()
            };
            assert!(of_step.any(is_found), "step {step}, {kind:?}");
        }
    }
}
