//! Serves records as `tierra kv` does, without building SQL:
//! `cargo run --release -p tierra-kv --example serve -- --port 7000`. docs/kv.md has the settings.

use std::process::ExitCode;

use tierra_kv::{Config, Server};

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::from_arguments(std::env::args().skip(1))?;
    let wanted = config.maxclients;
    let mut server = Server::bind(config)?;
    println!("listening on port {}", server.port());
    if server.max_clients() < wanted {
        eprintln!(
            "{} clients at most instead of the {wanted} of maxclients: raise the limit of open files (ulimit -n)",
            server.max_clients()
        );
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
