//! The promise of a database whose rows change when the power is cut: a commit is there whole or not at all, in all of its tables.
//! The whole engine is recorded, and a database is opened on every image that a power cut could leave, or on a seeded sample.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tierra_memory::simulation::{Image, Limits, Recorder, Report, StepKind, Trace};

use crate::changed::program::{Program, Recorded};
use crate::simulated::{RECORDERS, assert_kept, folder};

fn explore(recorded: &Recorded, trace: &Trace, limits: &Limits) -> Report {
    let dir = folder();
    let image = dir.path().join("image");
    // A panic is a violation, too.
    let check = |image: &Image<'_>| {
        let checked = catch_unwind(AssertUnwindSafe(|| recorded.check(image)));
        checked.unwrap_or_else(|_| Err("the check panicked".to_owned()))
    };
    trace.explore_directory(&image, limits, check).unwrap()
}

#[test]
fn a_power_cut_at_any_moment_keeps_commits_whole() {
    for recorder in RECORDERS {
        let recorded = Program::new(recorder()).run(&["far"]);
        let limits = Limits {
            images_per_cut: 60,
            ..Limits::default()
        };
        let report = explore(&recorded, &recorded.trace, &limits);
        assert_kept(&report, &limits);
        assert!(report.images > 1000, "{report:?}");
    }
}

#[test]
fn a_power_cut_keeps_commits_whole_in_two_tiers() {
    for recorder in RECORDERS {
        let recorded = Program::new(recorder()).run(&["far", "b"]);
        let limits = Limits {
            images_per_cut: 25,
            ..Limits::default()
        };
        let report = explore(&recorded, &recorded.trace, &limits);
        assert_kept(&report, &limits);
        assert!(report.images > 1000, "{report:?}");
    }
}

/// Many rows change at once, which a manifest commits.
#[test]
fn a_large_change_is_all_or_nothing() {
    for recorder in RECORDERS {
        let mut program = Program::new(recorder());
        program.create("t", &["far"]);
        program.append("t", &[(1, 0), (2, 0)]);
        program.commit(&[("t", &[1], &[(1, 1)])]);
        program.change_all("t", 70_000);
        program.commit(&[("t", &[2, 1500], &[])]);
        let recorded = program.end();
        let limits = Limits {
            images_per_cut: 12,
            ..Limits::default()
        };
        let report = explore(&recorded, &recorded.trace, &limits);
        assert_kept(&report, &limits);
    }
}

/// A flush or a fence that is left out is found: the check can fail.
#[test]
fn a_change_that_is_not_flushed_or_not_fenced_is_found() {
    let recorded = Program::new(Recorder::by_line()).run(&["far"]);
    let limits = Limits {
        images_per_cut: 10,
        violations: 1,
        ..Limits::default()
    };
    let changing = (2..recorded.states.len())
        .filter(|&step| recorded.states[step] != recorded.states[step - 1]);
    for step in changing.step_by(3) {
        let events = recorded.events[step - 1]..recorded.events[step];
        for kind in [StepKind::Flush, StepKind::Fence] {
            let steps = recorded.trace.steps(kind);
            let mut of_step = steps
                .into_iter()
                .rev()
                .filter(|event| events.contains(event));
            let is_found = |event| {
                let forgetful = recorded.trace.without(event);
                let report = explore(&recorded, &forgetful, &limits);
                !report.violations.is_empty()
            };
            assert!(of_step.any(is_found), "step {step}, {kind:?}");
        }
    }
}
