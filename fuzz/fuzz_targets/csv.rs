//! Promise: records are those that the `csv` crate reads, with quotes told and never left open,
//! however the bytes arrive; a guessed type takes what it was guessed from; a field that a type takes
//! is not changed by it.
//!
//! Input: options (delimiter, one field, bytes at a time) | the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::csv;

fuzz_target!(|input: &[u8]| {
    if let [options, text @ ..] = input {
        csv::check(*options, text);
    }
});
