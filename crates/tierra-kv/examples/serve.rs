//! Serves records as `tierra kv` does, without building SQL:
//! `cargo run --release -p tierra-kv --example serve -- --port 7000`, or `-- --help`.

use std::process::ExitCode;

use tierra_kv::{Config, Server, settings_help};

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "--help") {
        print!("{}", settings_help());
        return Ok(());
    }
    let mut server = Server::bind(Config::from_arguments(arguments)?)?;
    for line in server.announcement() {
        eprintln!("{line}");
    }
    server.run()?;
    Ok(())
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("serve: {error}");
            ExitCode::FAILURE
        }
    }
}
