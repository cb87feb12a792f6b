//! What the server promises, against a server that runs: one file a promise.

mod differential;
mod forged;
mod server;
mod support;
