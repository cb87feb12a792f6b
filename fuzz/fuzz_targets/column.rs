//! Promise: a column comes back from its chunk as it was, in every type and encoding; filters on
//! packed codes say what they say of the plain column; a damaged chunk is an error or the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::column::{Case, check};

fuzz_target!(|case: Case| check(&case));
