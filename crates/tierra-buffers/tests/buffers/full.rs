//! Promise: where a tier fills up, an append fails as a whole, and nothing that was acknowledged is lost.

use tierra_buffers::{Buffers, Near};

use crate::fixture::{PATTERNS, check, check_patterns, options, values};

#[test]
fn nothing_is_lost_when_a_tier_fills_up() {
    for each in [700, 90_000] {
        let dir = tempfile::tempdir().unwrap();
        let mut how = options(dir.path());
        how.engine.capacity_bytes = Some(8 << 20);
        let open = || Buffers::open(&dir.path().join("db"), &how).unwrap();
        let buffers = open();
        let buffer = buffers
            .allocate("n", &["far/plain", "b/dynamic"], Near::IfRoom)
            .unwrap();
        let mut count = 0;
        let error = loop {
            match buffer.append(&values(count..count + each)) {
                Ok(first) => assert_eq!(first, count),
                Err(error) => break error,
            }
            count += each;
            assert!(count < 10_000_000);
        };
        let text = error.to_string();
        assert!(text.contains("far.pool") && text.contains("full"), "{text}");
        assert!(count > 100_000, "{count}");
        check_patterns(&buffer, &values(0..count));
        drop((buffer, buffers));
        let buffers = open();
        let buffer = buffers.buffer("n").unwrap();
        check(&buffer.reader(PATTERNS[1]).unwrap(), &values(0..count));
        // Space that comes back is used.
        buffer.delete().unwrap();
        drop(buffer);
        let anew = buffers
            .allocate("n", &["far/plain", "b/dynamic"], Near::IfRoom)
            .unwrap();
        anew.append(&values(0..90_000)).unwrap();
        check(&anew.reader(PATTERNS[0]).unwrap(), &values(0..90_000));
    }
}
