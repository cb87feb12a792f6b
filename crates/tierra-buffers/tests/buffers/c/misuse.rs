//! Promise: what a C program does wrongly is an error that says so.

use std::ffi::{c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::thread;

use ::tierra_buffers::c::*;

use super::calls::{NONE, allocate, append, fails, message, open, read, text, works};
use crate::fixture::values;

#[test]
fn handles_that_are_none_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let set = open(dir.path());
    let (status, buffer) = allocate(set, "n", "far/static, b/dynamic");
    works(status);
    works(append(buffer, &values(0..70_000)));
    let (status, reader) = read(buffer, RANDOM, 0.0);
    works(status);
    // Of another kind.
    fails(
        tierra_reader_close(tierra_reader { number: set.number }),
        Status::Handle,
        "not a reader: it is of another kind",
    );
    fails(
        tierra_buffer_pack(tierra_buffer {
            number: reader.number,
        }),
        Status::Handle,
        "not a buffer",
    );
    fails(
        tierra_buffers_close(NONE),
        Status::Handle,
        "handle 0 is not a set of buffers: it was never opened",
    );
    // A second handle; the first is deleted.
    let name = text("n");
    let mut other = buffer;
    // SAFETY: they live.
    works(unsafe { tierra_buffers_find(set, name.as_ptr(), &mut other) });
    assert_ne!(other, buffer);
    works(tierra_buffer_delete(buffer));
    fails(
        append(buffer, &[1]),
        Status::Handle,
        "it was closed or deleted",
    );
    fails(
        tierra_buffer_delete(buffer),
        Status::Handle,
        "closed or deleted",
    );
    fails(
        tierra_buffer_release(buffer),
        Status::Handle,
        "closed or deleted",
    );
    fails(append(other, &[1]), Status::Deleted, "\"n\" was deleted");
    fails(tierra_buffer_delete(other), Status::Deleted, "was deleted");
    works(tierra_buffer_release(other));
    // SAFETY: it lives.
    let found = unsafe { tierra_buffers_find(set, name.as_ptr(), &mut other) };
    fails(found, Status::NotFound, "no buffer \"n\"");
    // Its reader goes on, even after the set is closed.
    works(tierra_buffers_close(set));
    fails(tierra_buffers_close(set), Status::Handle, "closed");
    let (mut sum, mut high) = (0, 0);
    // SAFETY: they live.
    works(unsafe { tierra_reader_sum(reader, &mut sum, &mut high) });
    assert_eq!((sum, high), (values(0..70_000).iter().sum(), 0));
    works(tierra_reader_close(reader));
    fails(tierra_reader_close(reader), Status::Handle, "closed");
    // All is closed: the directory can be opened again.
    works(tierra_buffers_close(open(dir.path())));
}

#[test]
fn arguments_that_cannot_be_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let set = open(dir.path());
    let name = text("n");
    let mut to = tierra_buffer { number: 0 };
    // SAFETY: what is not NULL lives, here and below.
    unsafe {
        let mut opened = NONE;
        fails(
            tierra_buffers_open(null(), null(), &mut opened),
            Status::Invalid,
            "directory is NULL",
        );
        fails(
            tierra_buffers_open(name.as_ptr(), null(), null_mut()),
            Status::Invalid,
            "buffers is NULL",
        );
        let tiers = tierra_options {
            tiers: null(),
            tiers_count: 1,
            near_bytes: 0,
            far_bytes: 0,
        };
        fails(
            tierra_buffers_open(name.as_ptr(), &tiers, &mut opened),
            Status::Invalid,
            "tiers is NULL",
        );
        let nowhere = text("/proc/no/such/place");
        fails(
            tierra_buffers_open(nowhere.as_ptr(), null(), &mut opened),
            Status::Storage,
            "/proc",
        );
        fails(
            tierra_buffers_allocate(set, null(), null(), 0, &mut to),
            Status::Invalid,
            "name is NULL",
        );
        fails(
            tierra_buffers_allocate(set, name.as_ptr(), null(), 0, null_mut()),
            Status::Invalid,
            "buffer is NULL",
        );
        for near in [3, -1] {
            fails(
                tierra_buffers_allocate(set, name.as_ptr(), null(), near, &mut to),
                Status::Invalid,
                "TIERRA_NEAR_NEVER",
            );
        }
        let latin = [0xe4_u8 as c_char, 0];
        fails(
            tierra_buffers_allocate(set, latin.as_ptr(), null(), 0, &mut to),
            Status::Invalid,
            "name is not UTF-8",
        );
    }
    fails(
        allocate(set, "n", "c/static").0,
        Status::NotFound,
        "no tier \"c\"",
    );
    fails(
        allocate(set, "n", "far/statick").0,
        Status::NotFound,
        "unknown encoding",
    );
    fails(allocate(set, "n", "far, far").0, Status::Invalid, "twice");
    fails(allocate(set, "", "far").0, Status::Invalid, "name");
    let (status, buffer) = allocate(set, "n", "");
    works(status);
    fails(allocate(set, "n", "").0, Status::Exists, "exists already");
    works(append(buffer, &[i64::MAX, 1, 2]));
    let (_, reader) = read(buffer, SEQUENTIAL, 0.0);
    fails(read(buffer, 3, 0.0).0, Status::Invalid, "TIERRA_SHARE");
    for share in [-0.1, 1.1, f64::NAN] {
        fails(
            read(buffer, SHARE, share).0,
            Status::Invalid,
            "between 0 and 1",
        );
    }
    // SAFETY: as above.
    unsafe {
        works(tierra_buffer_append(buffer, null(), 0));
        fails(
            tierra_buffer_append(buffer, null(), 1),
            Status::Invalid,
            "values is NULL",
        );
        let one = [0_i64; 2];
        let odd = one.as_ptr().byte_add(1);
        fails(
            tierra_buffer_append(buffer, odd, 1),
            Status::Invalid,
            "not aligned to 8 bytes",
        );
        fails(
            tierra_buffer_append(buffer, one.as_ptr(), usize::MAX),
            Status::Invalid,
            "no memory has",
        );
        fails(
            tierra_buffer_tell(buffer, null_mut(), null_mut(), 0),
            Status::Invalid,
            "info is NULL",
        );
        let (mut sum, mut high) = (0, 0);
        fails(
            tierra_reader_sum(reader, null_mut(), null_mut()),
            Status::Invalid,
            "sum is NULL",
        );
        fails(
            tierra_reader_sum(reader, &mut sum, null_mut()),
            Status::Room,
            "does not fit into 64 bits",
        );
        works(tierra_reader_sum(reader, &mut sum, &mut high));
        assert_eq!(
            i128::from(high) << 64 | i128::from(sum as u64),
            i128::from(i64::MAX) + 3
        );
        let mut got = [0; 4];
        works(tierra_reader_values(reader, 1, got.as_mut_ptr(), 2));
        assert_eq!(got, [1, 2, 0, 0]);
        works(tierra_reader_values(reader, 3, null_mut(), 0));
        for (first, count) in [(0, 4), (3, 1), (u64::MAX, 2), (0, usize::MAX)] {
            // Nothing is touched for what there is not.
            fails(
                tierra_reader_values(reader, first, got.as_mut_ptr(), count),
                Status::Range,
                "has 3 values",
            );
        }
        fails(
            tierra_reader_at(reader, [3].as_ptr(), got.as_mut_ptr(), 1),
            Status::Range,
            "position 3",
        );
        let mut block: tierra_block = std::mem::zeroed();
        fails(
            tierra_reader_block(reader, 1, &mut block, null_mut(), 0),
            Status::Range,
            "no block 1",
        );
        fails(
            tierra_reader_block(reader, 0, &mut block, null_mut(), 0),
            Status::Room,
            "TIERRA_BLOCK_BYTES",
        );
        assert_eq!(
            (block.bytes, block.count, block.packing, block.width),
            (24, 3, PACKED, 64)
        );
        let mut bytes = [0_i64; 4];
        works(tierra_reader_block(
            reader,
            0,
            &mut block,
            bytes.as_mut_ptr().cast(),
            32,
        ));
        assert_eq!(bytes, [i64::MAX, 1, 2, 0]);
    }
    works(tierra_buffers_close(set));
    fails(append(buffer, &[1]), Status::Storage, "closed");
}

#[test]
fn handles_are_used_and_closed_by_several_threads() {
    let dir = tempfile::tempdir().unwrap();
    let set = open(dir.path());
    let (_, buffer) = allocate(set, "n", "far/static, b/dynamic");
    works(append(buffer, &values(0..70_000)));
    let (_, shared) = read(buffer, RANDOM, 0.0);
    let expected = Arc::new(values(0..70_000));
    let threads = (0..4).map(|thread| {
        let expected = expected.clone();
        thread::spawn(move || {
            for round in 0..50_u64 {
                let position = (thread * 17_001 + round) % 70_000;
                let mut value = 0;
                // SAFETY: they live.
                let status = unsafe { tierra_reader_at(shared, &position, &mut value, 1) };
                // One of them closes it.
                match status == Status::Handle as c_int {
                    true => assert!(message().contains("closed"), "{}", message()),
                    false => {
                        works(status);
                        assert_eq!(value, expected[position as usize]);
                    }
                }
                if thread == 3 && round == 20 {
                    works(tierra_reader_close(shared));
                }
                // Messages are a thread's own.
                if round == 49 {
                    fails(
                        tierra_buffer_pack(tierra_buffer {
                            number: 1_000_000 + thread,
                        }),
                        Status::Handle,
                        &format!("handle {}", 1_000_000 + thread),
                    );
                    thread::yield_now();
                    assert!(message().contains(&(1_000_000 + thread).to_string()));
                }
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    works(tierra_buffers_close(set));
}
