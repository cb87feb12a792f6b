//! The promise of a scrub pass: every byte is handed over once and in order, a stopped pass continues where it was, it
//! is not faster than its pace, and what is damaged is found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::simulated::{finish, folder};
use tempfile::TempDir;
use tierra_memory::faults::{Ended, Injector, ScrubPass, ScrubPosition, Stop};
use tierra_memory::{Extent, Pool, PoolOptions};

const PIECE: u64 = 8192;

fn fixture() -> (TempDir, Arc<Pool>, Vec<Extent>) {
    let dir = folder();
    let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
    let lengths = [1, PIECE - 1, PIECE, PIECE + 1, 0, 10 * PIECE + 77];
    let extents = lengths.iter().zip(0..).map(|(&len, n)| {
        let payload: Vec<u8> = (0..len).map(|at| (at * 5 + at / 255 + n) as u8).collect();
        finish(&pool, &payload).extent()
    });
    let extents = extents.collect();
    (dir, pool, extents)
}

/// All that a pass of some stages hands over. It is stopped after each of so many pieces.
fn scrubbed(pool: &Pool, extents: &[Extent], stops: &[usize]) -> Vec<(Extent, u64, Vec<u8>)> {
    let mut all = Vec::new();
    let mut position = ScrubPosition::default();
    for stop_after in stops.iter().copied().chain([usize::MAX]) {
        let stop = Stop::default();
        let mut pieces = 0;
        let mut pass = ScrubPass::new(extents.to_vec())
            .in_pieces(PIECE)
            .from(position);
        let ended = pass.run(pool, &stop, |piece| {
            all.push((piece.extent, piece.at, piece.bytes.to_vec()));
            pieces += 1;
            if pieces == stop_after {
                stop.stop();
            }
            true
        });
        let is_over = pass.position().extent == extents.len();
        assert_eq!(ended == Ended::Done, is_over, "{stop_after}");
        position = pass.position();
    }
    all
}

#[test]
fn every_byte_comes_once_and_in_order() {
    let (_dir, pool, extents) = fixture();
    let mut expected = Vec::new();
    for &extent in &extents {
        let pieces = pool.bytes(extent).chunks(PIECE as usize).zip(0..);
        expected.extend(pieces.map(|(bytes, n)| (extent, n * PIECE, bytes.to_vec())));
        if extent.len_bytes == 0 {
            expected.push((extent, 0, Vec::new()));
        }
    }
    for stops in [&[][..], &[1], &[1, 1, 1], &[5, 3], &[7, 1, 2]] {
        assert_eq!(scrubbed(&pool, &extents, stops), expected, "{stops:?}");
    }
    let whole: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
    assert_eq!(pool.counters().checked_bytes, 5 * whole);
    assert!(scrubbed(&pool, &[], &[]).is_empty());
}

#[test]
fn a_flipped_bit_is_found_wherever_the_pass_was_stopped() {
    let (_dir, pool, extents) = fixture();
    let last = *extents.last().unwrap();
    let damaged = |stop_after: u64| {
        let mut found = Vec::new();
        let mut pass = ScrubPass::new(extents.clone()).in_pieces(PIECE);
        let stop = Stop::default();
        // As a process that ended and told the next one where it was.
        let mut stopped = ScrubPass::new(extents.clone()).in_pieces(PIECE);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while pool.counters().checked_bytes < stop_after && !stop.is_stopped() {
                    std::thread::yield_now();
                }
                stop.stop();
            });
            stopped.verify(&pool, &stop, |extent, _| found.push(extent));
            stop.stop();
        });
        pass = pass.from(stopped.position());
        assert_eq!(
            pass.verify(&pool, &Stop::default(), |extent, _| found.push(extent)),
            Ended::Done
        );
        found
    };
    assert_eq!(damaged(u64::MAX), []);
    let whole: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
    for (seed, place) in [
        (1, 0..1),
        (2, PIECE..PIECE + 1),
        (3, last.len_bytes - 1..last.len_bytes),
    ] {
        let within = last.offset + place.start..last.offset + place.end;
        Injector::new(seed)
            .flip_bits(&pool, within.clone(), 1)
            .unwrap();
        let before = pool.counters();
        assert_eq!(
            damaged(before.checked_bytes + 3 * PIECE + 2 + seed * PIECE),
            [last]
        );
        let after = pool.counters();
        assert_eq!(after.checked_bytes - before.checked_bytes, whole);
        assert_eq!(after.failed_checks - before.failed_checks, 1);
        Injector::new(seed).flip_bits(&pool, within, 1).unwrap();
        assert_eq!(damaged(0), []);
    }
    // A header counts as well.
    Injector::new(7)
        .flip_bits(&pool, last.offset - 64..last.offset, 1)
        .unwrap();
    assert_eq!(damaged(0), [last]);
}

#[test]
fn a_pass_is_not_faster_than_its_pace() {
    let (_dir, pool, extents) = fixture();
    let last = *extents.last().unwrap();
    let began = Instant::now();
    // 11 pieces, of 10 ms each but the last.
    let mut pass = ScrubPass::new(vec![last])
        .in_pieces(PIECE)
        .paced(PIECE * 100);
    assert_eq!(pass.run(&pool, &Stop::default(), |_| true), Ended::Done);
    assert!(
        began.elapsed() >= Duration::from_millis(100),
        "{:?}",
        began.elapsed()
    );
}

/// Without the stop it would wait for hours.
#[test]
fn a_pass_that_waits_is_stopped_at_once() {
    let (_dir, pool, extents) = fixture();
    let stop = Stop::default();
    let mut pass = ScrubPass::new(extents.clone()).in_pieces(PIECE).paced(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while pool.counters().checked_bytes == 0 {
                std::thread::yield_now();
            }
            stop.stop();
        });
        assert_eq!(pass.run(&pool, &stop, |_| true), Ended::Stopped);
    });
    assert!(pass.position().extent < extents.len());
    assert!(stop.is_stopped());
}
