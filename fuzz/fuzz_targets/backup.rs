//! Promise: whatever bytes a backup has, it is refused and leaves nothing behind, or it becomes a database that keeps the promise of
//! target `database`.
//!
//! Input: checksums: even, made right | the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::{backup, seal};

fuzz_target!(|input: &[u8]| {
    let [checksums, file @ ..] = input else {
        return;
    };
    let mut file = file.to_vec();
    if checksums % 2 == 0 {
        seal::backup(&mut file);
    }
    backup::restore_and_use(&file);
});
