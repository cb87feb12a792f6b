//! PostgreSQL, if `postgres` and `initdb` are installed: a server with a new cluster and its defaults, and a client that drives it and
//! Tierra's server by the same messages.

mod client;
mod server;

pub use self::client::{Answer, Client, ClientError, retried};
pub use self::server::Postgres;
