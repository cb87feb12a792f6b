//! Promise: a pool of any content opens as a database or is refused; reading what opened ends with
//! rows or an error; and rows it acknowledges are there when it is opened again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::{database, image};

fuzz_target!(|input: &[u8]| database::open_and_use(&image::expand(input)));
