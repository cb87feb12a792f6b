//! Promise: whatever bytes are published as the manifest of a database, it opens or is refused, and
//! keeps the promise of target `database`.
//!
//! Input: the manifest; its checksum is made right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::{database, image};

fuzz_target!(|manifest: &[u8]| {
    if !manifest.is_empty() && manifest.len() < 64 << 10 {
        database::open_and_use(&image::with_root(database::base(), manifest));
    }
});
