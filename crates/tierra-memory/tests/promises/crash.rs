//! The promise of a pool when the power is cut: whatever was acknowledged is there, what was under way
//! is there whole or not at all, and nothing leaks. Real code, recorded; real recovery, on every image
//! that a power cut could leave, or a seeded sample of them (`simulation`).

use std::sync::Arc;

use crate::simulated::{self, RECORDERS, Recorded, assert_kept, records, rounds, transactions};
use tierra_memory::simulation::{Image, Limits, Recorder, Report};
use tierra_memory::{Pool, UndoLog};

fn limits(images_per_cut: usize) -> Limits {
    Limits {
        images_per_cut,
        ..Limits::default()
    }
}

#[test]
fn a_publication_is_the_old_root_or_the_new() {
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), rounds::run(14));
        let limits = limits(500);
        let report = recorded.explore(&limits, rounds::check);
        assert_kept(&report, &limits);
        // Of a publication, recovery can tell the stores to one line apart, and nothing else.
        assert_eq!(report.exhaustive_cuts, report.cuts, "{report:?}");
        assert!(report.images > 60, "{report:?}");
    }
}

#[test]
fn a_record_written_to_a_log_is_there_and_nothing_is_behind_a_gap() {
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), records::run(50));
        let limits = limits(500);
        let report = recorded.explore(&limits, records::check);
        assert_kept(&report, &limits);
        assert!(report.images > 20_000, "{report:?}");
    }
}

#[test]
fn a_transaction_is_there_or_not() {
    let states = transactions::states(40);
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), transactions::run(40));
        let limits = limits(600);
        let report = recorded.explore(&limits, transactions::check(&states));
        assert_kept(&report, &limits);
        assert!(report.images > 30_000, "{report:?}");
    }
}

/// Recovery writes, too: the power is cut again while it takes a transaction back.
#[test]
fn a_transaction_that_is_being_taken_back_may_be_cut_short_again() {
    let states = transactions::states(12);
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), transactions::run(12));
        let dir = simulated::folder();
        let (copy, inner_image) = (dir.path().join("copy"), dir.path().join("image"));
        let (mut opened, mut nested) = (0, Report::default());
        let limits = limits(60);
        let report = recorded.explore(&limits, |image| {
            opened += 1;
            let again = opened % 10 == 0;
            if again {
                std::fs::copy(image.path, &copy).unwrap();
            }
            transactions::check(&states)(image)?;
            if !again {
                return Ok(());
            }
            let recovery = recorder();
            let first = Image {
                path: &copy,
                recorder: recovery.clone(),
                ..*image
            };
            transactions::check(&states)(&first)?;
            let acknowledged = image.acknowledged;
            let inner = recovery.trace().explore(&inner_image, &limits, |inner| {
                transactions::check(&states)(&Image {
                    path: inner.path,
                    recorder: inner.recorder.clone(),
                    acknowledged,
                })
            });
            let inner = inner.unwrap();
            let broken = inner.violations.first().map(ToString::to_string);
            nested.add(inner);
            broken.map_or(Ok(()), Err)
        });
        assert_kept(&report, &limits);
        assert!(nested.images > 2_000, "{nested:?}");
    }
}

/// The file grows, and its length is durable before anything that lies behind its old end is named.
#[test]
fn a_pool_that_grew_is_as_long_as_it_says() {
    for recorder in RECORDERS {
        let recorder = recorder();
        let recorded = Recorded::growing(&recorder);
        let limits = limits(200);
        let report = recorded.explore(&limits, simulated::check_grown);
        assert_kept(&report, &limits);
        assert!(report.images > 25, "{report:?}");
    }
}

/// A process is killed at any moment, the next one goes on from what it left in the caches, and then the
/// power is cut: what the second one saw, and was told, is there.
#[test]
fn a_kill_and_then_a_power_cut_lose_nothing_that_was_seen() {
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), records::run(4));
        for events in recorded.kills() {
            let killed = recorded.killed_and_continued(&recorder, events, |pool, recorder| {
                simulated::continue_records(pool, recorder, true);
            });
            let limits = limits(40);
            assert_kept(&killed.explore(&limits, records::check), &limits);
        }
        let recorded = Recorded::new(&recorder(), rounds::run(3));
        for events in recorded.kills() {
            let killed = recorded.killed_and_continued(&recorder, events, continue_rounds);
            let limits = limits(40);
            assert_kept(&killed.explore(&limits, rounds::check), &limits);
        }
        let states = transactions::states(5);
        let recorded = Recorded::new(&recorder(), transactions::run(3));
        for events in recorded.kills() {
            let killed = recorded.killed_and_continued(&recorder, events, |pool, recorder| {
                transactions::go_on(pool, recorder, &states);
            });
            let limits = limits(20);
            let report = killed.explore(&limits, transactions::check(&states));
            assert_kept(&report, &limits);
        }
    }
}

fn continue_rounds(pool: &Arc<Pool>, recorder: &Recorder) {
    let (found, extents) = rounds::recover(pool).unwrap();
    recorder.acknowledge(found);
    rounds::go_on(pool, recorder, extents, found + 1..=found + 2);
}

/// What costs time and makes nothing durable.
#[test]
fn nothing_is_flushed_or_fenced_for_nothing() {
    for program in ["rounds", "records", "transactions"] {
        let recorder = Recorder::by_line();
        let recorded = match program {
            "rounds" => Recorded::new(&recorder, rounds::run(6)),
            "records" => Recorded::new(&recorder, records::run(20)),
            _ => Recorded::new(&recorder, transactions::run(20)),
        };
        let useless = recorded.trace.useless();
        assert_eq!(useless.fences.0, 0, "{program}: {useless:?}");
        // Logs begin with zeros, of which some were there; and overlapping places of a transaction are
        // flushed once each.
        let (clean, all) = useless.flushed_lines;
        eprintln!("{program}: {clean} of {all} lines");
    }
}

#[test]
fn an_undo_log_that_is_none_is_refused() {
    let dir = simulated::folder();
    let pool = Pool::create(&dir.path().join("p"), &Default::default()).unwrap();
    let sealed = simulated::finish(&pool, &[0; 500]).extent();
    let short = pool.allocate(63, 0).unwrap().finish_log().unwrap().extent();
    assert!(UndoLog::open(&pool, sealed).is_err());
    assert!(UndoLog::open(&pool, short).is_err());
    let log = pool
        .allocate(500, 0)
        .unwrap()
        .finish_log()
        .unwrap()
        .extent();
    let undo = pool.allocate(64 * 4, 0).unwrap().finish_log().unwrap();
    let mut undo = UndoLog::open(&pool, undo.extent()).unwrap();
    let mut transaction = undo.begin();
    assert!(transaction.write(sealed, 0, b"x").is_err());
    assert!(transaction.write(log, 500, b"x").is_err());
    transaction.write(log, 0, &[1; 64]).unwrap();
    // One entry takes two lines, and the first line is the log's own.
    let error = transaction.write(log, 64, &[1; 64]).unwrap_err();
    assert!(error.to_string().contains("320 bytes"), "{error}");
    transaction.commit().unwrap();
    assert_eq!(pool.bytes(log)[..65], [[1; 64].as_slice(), &[0]].concat());
    // The count is at its end: no further number could be told from an earlier one.
    let last = (u64::MAX - 1).to_le_bytes();
    pool.write(undo.extent(), 0, &last).unwrap();
    let extent = undo.extent();
    drop(undo);
    assert!(UndoLog::open(&pool, extent).is_err());
}
