//! The binary `tierra`. Its commands are in `cli/`.

use std::process::ExitCode;

/// Keeps freed batches for reuse. glibc returns them to the kernel, and every next batch of a load faults its pages in
/// again. Loading 6 M rows took 1.2 s of CPU with glibc, 0.7 s of it in the kernel, and 0.6 s with this and smaller
/// batches.
#[global_allocator]
static ALLOCATOR: tierra_allocator::Allocator = tierra_allocator::Allocator;

fn main() -> ExitCode {
    ExitCode::from(tierra::cli::run(std::env::args_os()))
}
