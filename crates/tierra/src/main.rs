//! The one binary: `tierra demo|sql|generate|load|tiers`.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main()
}
