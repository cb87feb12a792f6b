//! The promise of a directory whose files are recorded with the pools in it: whatever a power cut leaves of names, of what
//! files hold and of pools, the last step that was acknowledged is there, or the next; and what is forgotten is found.

use crate::simulated::directory::{Program, State, check, recover};
use crate::simulated::{RECORDERS, assert_kept, folder};
use tempfile::TempDir;
use tierra_memory::simulation::{Limits, Recorder, Report, StepKind, Trace};

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
        assert!(report.images > 60, "{report:?}");
        assert!(3 * report.exhaustive_cuts > 2 * report.cuts, "{report:?}");
    }
}

/// Each file synced before it gets its name, and each name synced before it is used. The sync that makes a new pool's name
/// durable is replaced by the one that makes the name of the file durable that names it.
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
