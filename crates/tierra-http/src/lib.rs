//! HTTP for Tierra: SQL with answers as JSON, CSV or an Arrow stream, metrics for Prometheus, and a page that shows the memory.
//!
//! ```text
//! server.rs -- accepts, counts, stops
//!   connection.rs -- one client: TLS, HTTP/1.1 by hyper, its limits
//!     routes.rs -- what is where
//!       guard.rs -- nothing is done for a request that fails here
//!         sql.rs -- statements, each request in a session of its own
//!           answer/ -- rows as JSON, CSV, Arrow
//!         backup.rs -- a backup, as it is written
//!         state.rs, samples/, metrics/ -- numbers: now, of the last hour, for Prometheus
//!         page.rs -- the files of the page
//! records.rs -- the same of a server of records, which tells its own numbers
//! client.rs -- fetches a backup from another server
//! ```
//!
//! Connections are served by hyper and not by `axum::serve`, which sets no limit on the time that a client takes for its head.
//! Users, certificates and the codes of errors are those of PostgreSQL's protocol (`tierra-postgres`), so that one file of users and
//! one certificate serve both.

mod answer;
mod backup;
mod body;
pub mod client;
mod connection;
mod copies;
mod fault;
mod gate;
mod guard;
pub mod metrics;
mod page;
mod peer;
mod records;
mod routes;
mod samples;
mod server;
mod shared;
mod source;
mod sql;
mod state;

pub use records::Records;
pub use server::{Handle, Options, ServeError, Server};
