//! PostgreSQL's protocol for Tierra: psql, drivers and tools of PostgreSQL reach a database as they would reach a server of it.
//!
//! ```text
//! server.rs -- accepts, counts, stops
//!   login.rs -- TLS, the password: nothing is executed for a client that fails here
//!     connection.rs -- one task for each client: reads messages, runs statements in a session of its own
//!       simple.rs, extended.rs -- the two ways to send statements
//!       watch.rs -- what it waits for while a statement runs
//!       answer.rs, own.rs -- statements that PostgreSQL has and SQL here has not
//!       question.rs, catalog.rs -- queries of its system catalog
//!       cursor.rs, rows.rs, copy/ -- rows out and in, a part at a time
//!         values/ -- each value as text or binary
//!           wire/ -- bytes: frames in, messages out
//! ```
//!
//! Of the crate pgwire it takes the server's messages, SCRAM and the numbers of types. Its loop is not used: it gathers the rows of a
//! prepared query before it sends the first, and its decoder trusts the lengths that a client sends.

mod answer;
mod cancel;
mod catalog;
mod command;
mod connection;
mod copy;
mod cursor;
mod error;
mod extended;
mod login;
mod own;
mod question;
mod random;
mod rows;
mod server;
mod settings;
mod shared;
mod simple;
mod statement;
mod tls;
mod users;
mod values;
mod watch;
mod wire;
mod words;

pub use error::sqlstate;
pub use server::{Handle, ServeError, Server};
pub use shared::Options;
pub use tls::{Tls, TlsError};
pub use users::{Users, UsersError, verifier};
