//! Promise: whatever a client sends is answered in the protocol, and the server ends by no panic and only if asked.
//!
//! Input: a byte that counts for nothing here, so that seeds are those of `protocol` | what a client sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::protocol;

fuzz_target!(|input: &[u8]| {
    if let [_, bytes @ ..] = input {
        protocol::serve(bytes);
    }
});
