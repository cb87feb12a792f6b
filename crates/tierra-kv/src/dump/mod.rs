//! The payloads of DUMP and RESTORE: Redis's serialization of one value.
//!
//! ```text
//!  │ type: 8 │ value, as in an RDB file │ RDB version: 16 │ CRC-64 of all before: 64 │
//!
//!  0 string   │ string │
//!  4 hash     │ count │ field │ value │ ..            9 zipmap, 13 ziplist, 16 listpack: │ string that holds it │
//!  3 set      │ count │ member │ score as text │ ..
//!  5 set      │ count │ member │ score: 64 │ ..      12 ziplist, 17 listpack: │ string that holds it │
//! ```
//!
//! [`write()`] makes types 0, 4, 5, 16 and 17, which Redis 7.0 and those after it read; [`restore()`] takes all of them. How
//! strings, counts and scores are written is in `source.rs`.
//!
//! A payload is untrusted: a length is accepted only if as many bytes are there, nothing is allocated for a
//! count, and a value that turns out to be wrong at its end has changed nothing (`keyspace/bulk_build.rs`).

mod listpack;
mod lzf;
mod restore;
mod seal;
mod source;
mod types;
mod write;
mod ziplist;
mod zipmap;

pub use restore::{RestoreError, restore};
pub use seal::seal;
pub use write::write;

#[cfg(test)]
mod tests;
