//! What the server promises, against a server that runs: one file a promise.

mod any_words;
mod blocking;
mod buffers;
mod clients;
mod compare;
mod connection_slots;
mod conversations;
mod delays;
mod differential;
mod dump;
mod eviction;
mod forged;
mod memory;
mod moving;
mod operation;
mod random;
mod requests;
mod server;
mod settings;
mod strangers;
mod support;

/// That of the binary: what its buffers cost as they grow, and where they are freed, is what the tests measure.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
