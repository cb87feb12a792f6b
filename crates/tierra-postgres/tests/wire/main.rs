//! What clients of PostgreSQL may rely on, message by message.

mod attacks;
mod catalog;
mod client;
mod compared;
mod copy;
mod cursors;
mod ends;
mod files;
mod full;
mod login;
mod memory;
mod moments;
mod portals;
mod prepared;
mod queries;
mod rights;
mod server;
mod simple;
mod texts;
mod values;
