//! Promise: a reader sees the values of one commit, while others append, pack and read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tierra_buffers::{Near, ReadPattern};

use crate::fixture::{PATTERNS, allocate, open, values};

const COMMITS: u64 = 300;
/// Values of each commit.
const EACH: u64 = 37;

#[test]
fn readers_see_whole_commits_while_one_appends() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = allocate(&buffers, Near::IfRoom);
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let expected = values(0..COMMITS * EACH);
    let checked = thread::scope(|scope| {
        let readers = PATTERNS.map(|pattern| {
            let (buffer, done, acknowledged, expected) = (&buffer, &done, &acknowledged, &expected);
            scope.spawn(move || {
                let (mut checked, mut last) = (0, 0);
                while !done.load(Ordering::Acquire) || last < COMMITS * EACH {
                    let least = acknowledged.load(Ordering::Acquire);
                    let reader = buffer.reader(pattern).unwrap();
                    let count = reader.len();
                    assert!(count % EACH == 0 && count >= least.max(last), "{count}");
                    let expected = &expected[..count as usize];
                    assert_eq!(reader.values(0..count).unwrap(), expected);
                    let sum: i64 = expected.iter().sum();
                    assert_eq!(reader.sum().unwrap(), i128::from(sum));
                    if count > 0 {
                        let found = reader.at(&[count - 1, 0]).unwrap();
                        assert_eq!(found, [expected[count as usize - 1], expected[0]]);
                    }
                    (checked, last) = (checked + 1, count);
                }
                checked
            })
        });
        for commit in 0..COMMITS {
            let positions = commit * EACH..(commit + 1) * EACH;
            buffer.append(&values(positions.clone())).unwrap();
            acknowledged.store(positions.end, Ordering::Release);
            if commit % 20 == 7 {
                buffer.pack().unwrap();
            }
        }
        done.store(true, Ordering::Release);
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(checked.iter().all(|count| *count > 1), "{checked:?}");
}

/// Appends of several threads are all there, each in one piece.
#[test]
fn appends_at_the_same_time_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = buffers.allocate("n", &["far", "b"], Near::IfRoom).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let buffers = &buffers;
            scope.spawn(move || {
                // Another handle of the same buffer.
                let buffer = buffers.buffer("n").unwrap();
                for round in 0..50 {
                    let first = buffer.append(&[thread * 1000 + round; 3]).unwrap();
                    assert_eq!(first % 3, 0);
                }
            });
        }
    });
    let reader = buffer.reader(ReadPattern::Sequential).unwrap();
    let all = reader.values(0..600).unwrap();
    assert_eq!(reader.len(), 600);
    let mut next = [0; 4];
    for three in all.chunks(3) {
        let thread = (three[0] / 1000) as usize;
        assert_eq!(three, [thread as i64 * 1000 + next[thread]; 3]);
        next[thread] += 1;
    }
    assert_eq!(next, [50; 4]);
}
