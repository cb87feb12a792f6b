//! A table in far memory is as slow as that memory: by lookups, changes, scans and rounds, where it is emulated.
//!
//! Emulation is the whole process's, so this is a test binary of its own. Only that something takes at least its time is
//! compared, which holds however busy the machine is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tierra_index::{RecordStore, RecordTable};
use tierra_interleave::{Cx, Execution, GroupSize, for_each};
use tierra_memory::{emulation, in_mode};

const KEYS: u64 = 8000;

struct Keys;

impl RecordStore for Keys {
    fn head(&self, _: u64) -> &[u8] {
        b"a record that is near"
    }

    fn has_key(&self, record: u64, key: &[u8]) -> bool {
        record.to_le_bytes() == key
    }

    fn hash(&self, record: u64) -> u64 {
        (record + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

#[test]
fn every_use_of_a_far_table_waits_for_it() {
    let mut table = RecordTable::in_far(Arc::default());
    for record in 0..KEYS {
        table.insert(Keys.hash(record), record, 0, &Keys);
    }
    assert!(table.far_bytes() > 0);
    emulation::set(Some("latency=2ms,persist=2ms,cache=0B".parse().unwrap())).unwrap();
    let (key, mut handle) = (7u64.to_le_bytes(), None);
    let found = time(|| {
        in_mode!(Execution::Plain, M => for_each(
            GroupSize::DEFAULT,
            [()],
            |cx: Cx<M>, ()| table.find(cx, Keys.hash(7), &key, &Keys),
            |_, found| handle = Some(found),
        ));
    });
    let mut handle = handle.unwrap();
    let spent = [
        ("found", found),
        (
            "found by hash",
            time(|| _ = table.find_hash(Keys.hash(9), &Keys, |_| true)),
        ),
        ("noted", time(|| _ = table.update_note(&handle, |_| 5))),
        ("replaced", time(|| table.replace(&mut handle, 7))),
        ("visited", time(|| _ = table.visit(0, 8, |_| {}))),
        ("scanned", time(|| _ = table.scan(0, &Keys, |_| {}))),
        ("removed", time(|| table.remove(&handle, &Keys))),
        (
            "inserted",
            time(|| _ = table.insert(Keys.hash(7), 7, 0, &Keys)),
        ),
    ];
    emulation::set(None).unwrap();
    for (what, spent) in spent {
        assert!(spent >= Duration::from_millis(2), "{what} in {spent:?}");
    }
}
