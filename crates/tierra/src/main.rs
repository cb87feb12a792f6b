//! The one binary: `tierra demo|sql|generate|load|tiers`.

use std::process::ExitCode;

mod cli;

/// Keeps freed batches at hand: glibc gives them back to the kernel, and every next batch of a load
/// faults its pages in again (half of a load's time).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
