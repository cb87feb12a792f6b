//! PostgreSQL, if `postgres` and `initdb` are installed: a server of its own cluster with its defaults, and a client that drives it
//! and [`tierra serve`](crate::served) by the same messages.

mod client;
mod server;

pub use self::client::{Answer, Client, ClientError, retried};
pub use self::server::Postgres;
