//! What the server promises, against a server that runs: one file a promise.

mod any_words;
mod clients;
mod differential;
mod eviction;
mod forged;
mod moving;
mod places;
mod server;
mod settings;
mod support;
