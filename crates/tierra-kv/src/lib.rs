//! Records: a server that speaks Redis's protocol and looks keys up in groups.
//!
//! ```no_run
//! use tierra_kv::{Config, Server};
//!
//! let mut config = Config::default();
//! config.port = 7000;
//! let mut server = Server::bind(config)?;
//! println!("{}", server.announcement().join("\n"));
//! server.run()?;
//! # Ok::<(), tierra_kv::ServeError>(())
//! ```
//!
//! # How it differs
//!
//! Redis executes a request as soon as it has parsed it, and waits for memory at every step from bucket
//! to record. Here all requests that have arrived, of all connections, are one batch: their keys are
//! looked up as one group, whose cache misses hide each other, and then the requests are executed in
//! order. [`protocol`] finds requests without copying them, [`keyspace`] is what is stored, [`dump`]
//! how values come from Redis and go there.
//!
//! For Linux on 64-bit processors.

mod catalog;
mod clients;
mod command;
mod config;
mod context;
pub mod dump;
pub mod keyspace;
mod number;
pub mod protocol;
mod random;
mod server;
mod size;

pub use config::{Config, ConfigError, DebugCommand, OutputLimit, OutputLimits, settings_help};
pub use server::{Handle, Numbers, NumbersReader, ServeError, Server};
