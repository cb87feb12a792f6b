//! What this crate promises, one file per promise; one program, because linking each of them by itself is slow.

#[path = "../support/mod.rs"]
mod support;

mod corruption;
mod dictionaries;
mod estimator;
mod filters;
mod format;
mod gives_way;
mod lookup_lines;
mod postings;
mod rebuild;
mod round_trip;
mod sketches;
mod totals;
