//! The promise of copies in two tiers when the power is cut, or the process killed and then the power cut: both pools
//! are recorded in one trace and lose their power at the same moment. What was acknowledged is there with both of
//! them, and with either alone in which the tables have copies; no part of anything else is; and once it is opened,
//! all copies are equal.

use crate::simulated::{Images, Program, RECORDERS, Recorded, SECOND, Scenario, Step, assert_kept};
use tierra_memory::simulation::{Image, Limits, Recorder, Report, StepKind, Trace};

const BOTH: &[&str] = &["far", SECOND];

fn limits(images_per_cut: usize, seed: u64) -> Limits {
    println!("seed {seed}");
    Limits {
        images_per_cut,
        seed,
        ..Limits::default()
    }
}

/// A short history, most of its cuts whole.
#[test]
fn a_short_life_in_two_tiers_keeps_what_was_committed() {
    let images = Images::new();
    for recorder in RECORDERS {
        let mut program = Program::new(recorder());
        program.add_tier();
        program.create("t", BOTH);
        program.append("t", 2);
        program.append("t", 3);
        program.place("t", &["far"]);
        program.place("t", &[SECOND, "far"]);
        program.append("t", 1);
        let recorded = program.end();
        for scenario in Scenario::ALL {
            let limits = limits(24, 0);
            let report = images.explore(&recorded.trace, &limits, scenario, &recorded.steps);
            assert_kept(&report, &limits);
            println!(
                "{scenario:?}: {} images, {} of {} cuts whole",
                report.images, report.exhaustive_cuts, report.cuts
            );
            assert!(report.images > 100, "{report:?}");
            assert!(3 * report.exhaustive_cuts > report.cuts, "{report:?}");
        }
    }
}

/// The second tier comes and goes: before each of these statements, and in the middle of it, the database is there as it was, or as
/// it is to be, the files of its directory included.
#[test]
fn tiers_that_come_and_go_leave_before_or_after() {
    let images = Images::new();
    for recorder in RECORDERS {
        let recorded = Program::new(recorder()).run_tiers();
        for scenario in [Scenario::Both, Scenario::Alone(0), Scenario::Back(0)] {
            let limits = limits(24, 3);
            let report = images.explore(&recorded.trace, &limits, scenario, &recorded.steps);
            println!(
                "{scenario:?}: {} images, {} of {} cuts whole",
                report.images, report.exhaustive_cuts, report.cuts
            );
            assert_kept(&report, &limits);
            assert!(report.images > 300, "{report:?}");
        }
    }
}

/// A sync of the directory, or of a file in it, that is left out.
#[test]
fn a_directory_that_is_not_synced_is_found() {
    /// At least so many are.
    const NEEDED: usize = 4;
    let images = Images::new();
    let recorded = Program::new(Recorder::by_line()).run_tiers();
    let syncs = recorded.trace.steps(StepKind::FileSync);
    let is_found = |sync: &&usize| {
        let trace = recorded.trace.without(**sync);
        let both = violations(&images, &trace, Scenario::Both, &recorded.steps);
        !both.violations.is_empty()
    };
    let found = syncs.iter().filter(is_found).take(NEEDED).count();
    assert_eq!(found, NEEDED, "of {} syncs", syncs.len());
}

/// A long one, sampled.
#[test]
fn a_long_life_in_two_tiers_keeps_what_was_committed() {
    let images = Images::new();
    for (seed, recorder) in (1..).zip(RECORDERS) {
        let recorded = Program::new(recorder()).run_in_two(seed);
        for scenario in Scenario::ALL {
            let limits = limits(2, seed);
            let report = images.explore(&recorded.trace, &limits, scenario, &recorded.steps);
            println!(
                "{scenario:?}: {} images, {} of {} cuts whole",
                report.images, report.exhaustive_cuts, report.cuts
            );
            assert_kept(&report, &limits);
            assert!(report.images > 100, "{report:?}");
        }
    }
}

/// The process is killed at any moment, a second one goes on, then the power is cut: what the second one showed, and what it
/// committed, is there, in each tier.
#[test]
fn a_kill_and_then_a_power_cut_keep_what_was_shown() {
    let images = Images::new();
    for recorder in RECORDERS {
        let mut program = Program::new(recorder());
        program.add_tier();
        program.create("t", BOTH);
        program.append("t", 3);
        program.seal("t");
        program.append("t", 2);
        let recorded = program.end();
        for events in (1 + recorded.events[2]..=recorded.trace.len()).step_by(17) {
            let (trace, steps) = recorded.killed_and_gone_on(recorder(), events);
            let limits = limits(2, events as u64);
            for scenario in [Scenario::Both, Scenario::Alone(0), Scenario::Alone(1)] {
                let check = |image: &Image<'_>| match image.acknowledged as usize {
                    step if step < recorded.steps.len() => {
                        images.check(image, scenario, &recorded.steps)
                    }
                    _ => images.check(image, scenario, &steps),
                };
                let report = images.explore_by(&trace, &limits, check);
                assert_kept(&report, &limits);
            }
        }
    }
}

fn violations(images: &Images, trace: &Trace, scenario: Scenario, steps: &[Step]) -> Report {
    let limits = Limits {
        violations: 1,
        ..limits(20, 0)
    };
    images.explore(trace, &limits, scenario, steps)
}

/// A program that forgets to make the second copy durable before it acknowledges, or publishes a tier's manifest before
/// what it names is durable there.
#[test]
fn a_copy_that_is_not_durable_in_time_is_found() {
    let images = Images::new();
    let recorded = |recorder| {
        let mut program = Program::new(recorder);
        program.add_tier();
        program.create("t", BOTH);
        program.append("t", 3);
        program.seal("t");
        program.end()
    };
    let is_found = |recorded: &Recorded, trace: &Trace| {
        let alone = violations(&images, trace, Scenario::Alone(1), &recorded.steps);
        !alone.violations.is_empty()
    };
    let by_line = recorded(Recorder::by_line());
    assert!(!is_found(&by_line, &by_line.trace));
    // The step of the append flushes its record in the second tier, too. The first flush is that of the new log's header,
    // which a log outlives that has no other copy: its records have checksums of their own.
    let of_append = by_line.events[3]..by_line.events[4];
    let mut flushes = by_line.trace.steps_of_pool(StepKind::Flush, 1);
    flushes.retain(|flush| of_append.contains(flush));
    let (_header, records) = flushes.split_first().expect("the log is new");
    assert!(records.len() > 1);
    let missed = records
        .iter()
        .filter(|flush| !is_found(&by_line, &by_line.trace.without(**flush)));
    // The first copy of the superblock's slot stands in for the second.
    assert!(missed.count() <= 1, "{records:?}");
    // By page: the second tier is waited for only behind the publication of the first, or of its own.
    let by_page = recorded(Recorder::by_page());
    assert!(!is_found(&by_page, &by_page.trace));
    let of_seal = by_page.events[4]..by_page.events[5];
    let mut waits = by_page.trace.steps_of_pool(StepKind::Fence, 1);
    waits.retain(|wait| of_seal.contains(wait));
    let mut found = 0;
    for pair in waits.windows(2) {
        found += usize::from(is_found(&by_page, &by_page.trace.delayed(pair[0], pair[1])));
    }
    assert!(found > 0, "{waits:?}");
}

/// A copy that should have been made, or moved, and was not.
#[test]
fn a_copy_that_was_forgotten_is_found() {
    let images = Images::new();
    let mut program = Program::new(Recorder::by_line());
    program.add_tier();
    program.create("t", &["far"]);
    program.append("t", 3);
    program.forget_to_place(BOTH);
    program.append("t", 2);
    let recorded = program.end();
    let alone = violations(
        &images,
        &recorded.trace,
        Scenario::Alone(1),
        &recorded.steps,
    );
    let what = &alone.violations[0].what;
    assert!(what.contains("tier 1 alone"), "{what}");
}
