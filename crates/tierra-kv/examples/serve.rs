//! Serves records: `cargo run --release -p tierra-kv --example serve -- --port 7000`. Every setting of
//! docs/kv.md can be given, and `--config FILE` first.

use tierra_kv::{Config, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut config = Config::default();
    if arguments.first().is_some_and(|word| word == "--config") && arguments.len() > 1 {
        config.read(arguments.remove(1).as_ref())?;
        arguments.remove(0);
    }
    config.add_arguments(arguments)?;
    let mut server = Server::bind(config)?;
    println!("listening on port {}", server.port());
    server.run()?;
    Ok(())
}
