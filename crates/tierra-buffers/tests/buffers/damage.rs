//! Promise: bytes that are damaged in one replica are made again of the other, in whichever encoding; what both have lost is an error.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tierra_buffers::{Error, Near, ReadPattern};
use tierra_engine::ScrubOptions;

use crate::fixture::{allocate, check_patterns, open, values};

const COUNT: u64 = 80_000;

fn pool(dir: &Path, tier: &str) -> PathBuf {
    match tier {
        "far" => dir.join("db/far.pool"),
        _ => dir.join("b.pool"),
    }
}

/// Damages every block of all BIGINT chunks in a pool. Returns how many.
fn damage(pool: &Path) -> usize {
    let bytes = fs::read(pool).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let file = fs::File::options().write(true).open(pool).unwrap();
    let mut damaged = 0;
    // docs/file-format.md: chunks begin on lines.
    for at in (0..bytes.len() - 128).step_by(64) {
        if bytes[at..at + 5] != *b"TCHK\x01" {
            continue;
        }
        let (blocks, data) = (u32_at(at + 20) as usize, u64_at(at + 40));
        for block in 0..blocks {
            let entry = at + 128 + block * 32;
            let (line, len) = (u32_at(entry + 20), u32_at(entry + 24));
            if len > 0 {
                let place = at as u64 + data + 64 * u64::from(line);
                file.write_all_at(&[!bytes[place as usize]], place).unwrap();
                damaged += 1;
            }
        }
    }
    damaged
}

#[test]
fn what_one_replica_has_lost_is_answered_from_the_other() {
    for (victim, replicas) in [
        ("far", ["far/static", "b/dynamic"]),
        ("b", ["far/static", "b/dynamic"]),
        ("far", ["far/lz4", "b/fastpfor"]),
        ("b", ["far/plain", "b/rle"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let buffers = open(dir.path());
        let buffer = buffers.allocate("n", &replicas, Near::Never).unwrap();
        buffer.append(&values(0..COUNT)).unwrap();
        drop((buffer, buffers));
        let damaged = damage(&pool(dir.path(), victim));
        // Positions and values.
        assert!(damaged >= 2 * (COUNT as usize / 1024), "{damaged}");
        let buffers = open(dir.path());
        let buffer = buffers.buffer("n").unwrap();
        check_patterns(&buffer, &values(0..COUNT));
        // What no reader has met is found, too.
        let scrubbed = ScrubOptions::default();
        buffers.engine().scrub(&scrubbed, |_| {}).unwrap();
        let (_, totals) = buffers.engine().faults();
        assert!(totals.found > 0 && totals.lost == 0, "{totals:?}");
    }
}

/// The check can fail.
#[test]
fn what_both_have_lost_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = allocate(&buffers, Near::Never);
    buffer.append(&values(0..COUNT)).unwrap();
    drop((buffer, buffers));
    for tier in ["far", "b"] {
        damage(&pool(dir.path(), tier));
    }
    let buffers = open(dir.path());
    let buffer = buffers.buffer("n").unwrap();
    let error = buffer.reader(ReadPattern::Random).unwrap_err();
    assert!(matches!(error, Error::Scan(_)), "{error}");
    assert!(
        error
            .to_string()
            .contains("table \"n\", column \"position\""),
        "{error}"
    );
}
