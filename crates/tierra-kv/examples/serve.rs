//! Serves records as `tierra kv` does, without building SQL:
//! `cargo run --release -p tierra-kv --example serve -- --port 7000`. docs/kv.md has the settings.

use std::process::ExitCode;

use tierra_kv::{Config, Server};

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut server = Server::bind(Config::from_arguments(std::env::args().skip(1))?)?;
    println!("listening on port {}", server.port());
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
