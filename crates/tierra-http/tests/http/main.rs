//! What HTTP clients may rely on, byte by byte.

mod attacks;
mod backup;
mod client;
mod ends;
mod login;
mod numbers;
mod rights;
mod server;
mod sql;
