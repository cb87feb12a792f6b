//! Promise: a payload is refused, and the key is what it was, or becomes a value that is told and restored the same.
//!
//! Input: options (packed or not, footer there or not) | type and value of a payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::dump;

fuzz_target!(|input: &[u8]| {
    if let [options, value @ ..] = input {
        dump::check(*options, value);
    }
});
