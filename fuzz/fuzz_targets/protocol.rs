//! Promise: requests are found, or refused, the same however their bytes arrive; their arguments lie within what has
//! arrived; said again they are found again.
//!
//! Input: options (password, bytes at a time) | what a client sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::protocol;

fuzz_target!(|input: &[u8]| {
    if let [options, bytes @ ..] = input {
        protocol::check(*options, bytes);
    }
});
