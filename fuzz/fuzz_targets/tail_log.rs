//! Promise: whatever bytes stand in the log of a table's tail, the database opens or is refused,
//! and keeps the promise of target `database`.
//!
//! Input: checksums: even, made right | the log from its beginning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::{database, seal};

fuzz_target!(|input: &[u8]| {
    let [checksums, log @ ..] = input else {
        return;
    };
    let mut pool = database::base().to_vec();
    let place = database::log(&pool);
    let len = log.len().min(place.len());
    let stored = &mut pool[place];
    stored.fill(0);
    stored[..len].copy_from_slice(&log[..len]);
    if checksums % 2 == 0 {
        seal::content(stored);
    }
    database::open_and_use(&pool);
});
