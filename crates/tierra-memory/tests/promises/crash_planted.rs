//! The simulated power cut is shown able to fail: each bug planted here is found, by the same promises
//! that `crash.rs` checks. Leaving an instruction out of a trace is the same as a program that forgot it.

use std::collections::HashSet;
use std::os::unix::fs::FileExt;

use crate::simulated::{self, RECORDERS, Recorded, records, rounds, transactions};
use tierra_memory::simulation::{Image, Limits, Recorder, StepKind, Trace};
use tierra_memory::{Pool, PoolOptions};

type Check<'a> = Box<dyn FnMut(&Image<'_>) -> Result<(), String> + 'a>;

/// A program and its promise.
struct Case<'a> {
    recorded: Recorded,
    check: Check<'a>,
}

impl Case<'_> {
    /// Whether a power cut shows that this trace, made of the recorded one, breaks the promise.
    fn is_found(&mut self, trace: &Trace) -> bool {
        let limits = Limits {
            images_per_cut: 60,
            violations: 1,
            ..Limits::default()
        };
        let report = self.recorded.explore_trace(trace, &limits, &mut self.check);
        !report.violations.is_empty()
    }

    /// The steps of a kind whose lack is found, and how many there are.
    fn found_without(&mut self, kind: StepKind) -> (HashSet<usize>, usize) {
        let steps = self.recorded.trace.steps(kind);
        let all = steps.len();
        let mut found = HashSet::new();
        for step in steps {
            if self.is_found(&self.recorded.trace.without(step)) {
                found.insert(step);
            }
        }
        (found, all)
    }
}

fn rounds_case(recorder: fn() -> Recorder) -> Case<'static> {
    Case {
        recorded: Recorded::new(&recorder(), rounds::run(4)),
        check: Box::new(rounds::check),
    }
}

fn records_case(recorder: fn() -> Recorder) -> Case<'static> {
    Case {
        recorded: Recorded::new(&recorder(), records::run(5)),
        check: Box::new(records::check),
    }
}

const TRANSACTIONS: u64 = 6;

fn transactions_case(states: &[[Vec<u8>; 2]]) -> Case<'_> {
    Case {
        recorded: Recorded::new(&Recorder::by_line(), transactions::run(TRANSACTIONS)),
        check: Box::new(transactions::check(states)),
    }
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    let states = transactions::states(TRANSACTIONS);
    let cases = RECORDERS.map(rounds_case).into_iter();
    let cases = cases.chain(RECORDERS.map(records_case));
    for mut case in cases.chain([transactions_case(&states)]) {
        let trace = case.recorded.trace.clone();
        assert!(!case.is_found(&trace));
    }
}

/// But that of a slot's second copy, as long as the slot is not written again: the first copy stands in for it.
#[test]
fn any_flush_left_out_is_found() {
    let (found, all) = rounds_case(Recorder::by_line).found_without(StepKind::Flush);
    assert_eq!(found.len(), all - 2, "rounds: the last of each slot");
    let (found, all) = records_case(Recorder::by_line).found_without(StepKind::Flush);
    assert_eq!(found.len(), all - 1, "records");
    let states = transactions::states(TRANSACTIONS);
    let (found, all) = transactions_case(&states).found_without(StepKind::Flush);
    // Of two places that share a line, either flush does.
    assert!(found.len() + 3 >= all, "{} of {all}", found.len());
}

/// But for a slot's second copy: the next publication waits for all of the file, and until then the first one does.
#[test]
fn any_wait_for_the_kernel_left_out_is_found() {
    let (found, all) = rounds_case(Recorder::by_page).found_without(StepKind::Fence);
    assert_eq!(found.len(), all - 4, "rounds");
    let (found, all) = records_case(Recorder::by_page).found_without(StepKind::Fence);
    assert_eq!(found.len(), all - 1, "records");
}

/// An extent's fence is there for publications by another thread: on one thread the next one's stands in
/// for it, and so for that of a slot's second copy. All others are needed: before a publication, behind its first copy, and
/// three in a transaction.
#[test]
fn any_fence_left_out_that_no_other_stands_in_for_is_found() {
    let (found, all) = rounds_case(Recorder::by_line).found_without(StepKind::Fence);
    assert_eq!(
        (found.len(), all),
        (2 * 4, 5 * 4),
        "rounds: root and slot of each"
    );
    let (found, _) = records_case(Recorder::by_line).found_without(StepKind::Fence);
    assert_eq!(
        found.len(),
        2 + 5,
        "the first root, its slot, and each record"
    );
    let states = transactions::states(TRANSACTIONS);
    let (found, _) = transactions_case(&states).found_without(StepKind::Fence);
    assert!(found.len() >= 2 + 3 * TRANSACTIONS as usize, "{found:?}");
}

#[test]
fn the_last_line_of_a_range_left_out_is_found() {
    let states = transactions::states(TRANSACTIONS);
    let cases = [
        rounds_case(Recorder::by_line),
        records_case(Recorder::by_line),
        transactions_case(&states),
    ];
    for mut case in cases {
        let trace = case.recorded.trace.clone();
        let clean = trace.useless().flushed_lines.0;
        let flushes = trace.steps(StepKind::Flush);
        let short = flushes.iter().filter_map(|&f| trace.without_last_line(f));
        // A line that holds what it held before, such as zeros at the end of a new log, may be missed.
        let short = short.filter(|short| short.useless().flushed_lines.0 == clean);
        let (mut found, mut all) = (0, 0);
        for trace in short {
            all += 1;
            found += usize::from(case.is_found(&trace));
        }
        assert!(all > 0 && found == all, "{found} of {all}");
    }
}

#[test]
fn a_root_made_durable_before_its_data_is_found() {
    let mut case = rounds_case(Recorder::by_line);
    let trace = case.recorded.trace.clone();
    let (flushes, fences) = (trace.steps(StepKind::Flush), trace.steps(StepKind::Fence));
    // A round flushes and fences two extents, its root, its slot twice.
    for round in 0..4 {
        let slot = fences[5 * round + 3];
        for part in 0..3 {
            let late = trace.delayed(flushes[5 * round + part], slot);
            assert!(case.is_found(&late), "round {round}, part {part}");
        }
    }
}

#[test]
fn two_publications_in_the_wrong_order_are_found() {
    let mut case = rounds_case(Recorder::by_line);
    let trace = case.recorded.trace.clone();
    let flushes = trace.steps(StepKind::Flush);
    for round in 0..3 {
        let swapped = trace.delayed(flushes[5 * round + 3], flushes[5 * (round + 1) + 3]);
        assert!(case.is_found(&swapped), "round {round}");
    }
}

#[test]
fn space_that_is_reused_while_the_root_names_it_is_found() {
    for recorder in RECORDERS {
        let mut case = Case {
            recorded: Recorded::new(&recorder(), rounds::run_freeing_early),
            check: Box::new(rounds::check),
        };
        let trace = case.recorded.trace.clone();
        assert!(case.is_found(&trace));
    }
}

#[test]
fn an_undo_log_that_is_late_is_found() {
    let states = transactions::states(TRANSACTIONS);
    let mut case = transactions_case(&states);
    let trace = case.recorded.trace.clone();
    let (flushes, fences) = (trace.steps(StepKind::Flush), trace.steps(StepKind::Fence));
    // The last three fences are those of the last transaction: log, places, commit.
    let [logged, written, finished] = fences[fences.len() - 3..] else {
        unreachable!("three fences");
    };
    let last = |before: usize| *flushes.iter().rfind(|&&flush| flush < before).unwrap();
    assert!(
        case.is_found(&trace.delayed(last(logged), written)),
        "log after places"
    );
    assert!(
        case.is_found(&trace.delayed(last(written), finished)),
        "places after commit"
    );
}

#[test]
fn a_length_that_is_not_synced_is_found() {
    let mut case = Case {
        recorded: Recorded::growing(&Recorder::by_line()),
        check: Box::new(simulated::check_grown),
    };
    let (found, all) = case.found_without(StepKind::LengthSync);
    assert!(all > 0 && found.len() == all, "{} of {all}", found.len());
}

/// A process was killed, the next one saw what was in the caches only, and did not flush it.
#[test]
fn what_a_killed_process_left_in_the_caches_must_be_flushed_when_it_is_believed() {
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), records::run(2));
        // Before the first wait of the last record, which is in memory by then.
        let events = *recorded.trace.steps(StepKind::Fence).last().unwrap();
        for persist in [false, true] {
            let killed = recorded.killed_and_continued(&recorder, events, |pool, recorder| {
                simulated::continue_records(pool, recorder, persist);
            });
            let mut case = Case {
                check: Box::new(records::check),
                recorded: killed,
            };
            let trace = case.recorded.trace.clone();
            // Opening a pool that is durable by page syncs all of it.
            let durable = persist || trace.steps(StepKind::Flush).is_empty();
            assert_eq!(case.is_found(&trace), !durable, "persist: {persist}");
        }
    }
}

/// The same for a publication: its space is reused in the name of a root that was never durable.
#[test]
fn a_publication_believed_but_not_flushed_is_found() {
    let recorder: fn() -> Recorder = Recorder::by_line;
    let recorded = Recorded::new(&recorder(), rounds::run(3));
    let fences = recorded.trace.steps(StepKind::Fence);
    // Before that of the first copy.
    let events = fences[fences.len() - 2];
    let killed = recorded.killed_and_continued(&recorder, events, |pool, recorder| {
        let (found, extents) = rounds::recover(pool).unwrap();
        recorder.acknowledge(found);
        rounds::go_on(pool, recorder, extents, found + 1..=found + 1);
    });
    let mut case = Case {
        check: Box::new(rounds::check),
        recorded: killed,
    };
    let trace = case.recorded.trace.clone();
    assert!(!case.is_found(&trace));
    // What opening flushes are two copies of both slots, and then the one that it has put right.
    let opening = trace.steps(StepKind::Flush);
    let opening: Vec<usize> = opening.into_iter().filter(|&step| step >= events).collect();
    let opening = opening[..5].iter().rev();
    let forgetful = opening.fold(trace, |trace, &flush| trace.without(flush));
    assert!(case.is_found(&forgetful));
}

#[test]
fn a_store_that_takes_another_way_is_found() {
    let dir = simulated::folder();
    let recorder = Recorder::by_line();
    let path = dir.path().join("p");
    let pool = Pool::create(&path, &simulated::options(&recorder)).unwrap();
    let log = pool
        .allocate(100, 0)
        .unwrap()
        .finish_log()
        .unwrap()
        .extent();
    pool.write(log, 0, b"seen").unwrap();
    assert_eq!(recorder.unseen(&pool), []);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"unseen", log.offset + 70).unwrap();
    assert_eq!(recorder.unseen(&pool), [log.offset + 64]);
}

/// What is found depends on the seed alone.
#[test]
fn the_same_seed_finds_the_same() {
    let recorded = Recorded::new(&Recorder::by_line(), records::run(3));
    let trace = recorded
        .trace
        .without(*recorded.trace.steps(StepKind::Fence).last().unwrap());
    let found = |seed| {
        let limits = Limits {
            images_per_cut: 50,
            seed,
            ..Limits::default()
        };
        // A promise that is easily broken: no record at all.
        let report = recorded.explore_trace(&trace, &limits, |image| {
            let options = PoolOptions {
                recorder: Some(image.recorder.clone()),
                ..simulated::options(&image.recorder)
            };
            let pool = Pool::open(image.path, &options).unwrap();
            let Some(root) = pool.root() else {
                return Ok(());
            };
            let log = simulated::named(pool.bytes(root))[0];
            match pool.bytes(log).iter().any(|&byte| byte != 0) {
                true => Err(format!("{:x?}", &pool.bytes(log)[..200])),
                false => Ok(()),
            }
        });
        let shown = report.violations.iter().map(ToString::to_string);
        shown.collect::<Vec<_>>()
    };
    assert_eq!(found(1), found(1));
    assert_ne!(found(1), found(2));
}
