//! What this crate promises, one file per promise; one program, because linking DataFusion is slow.

mod activity;
mod arrays;
mod batches;
mod benchmarks;
mod differential;
mod executor;
mod files;
mod forged;
mod isolation;
mod join_lists;
mod joins;
mod keys;
mod late;
mod limits;
mod load;
mod lookup_join;
mod point;
mod prepared;
mod pushdown;
mod random;
mod random_writes;
mod registered;
mod shifted_sums;
mod slt;
mod statistics;
mod tiers;
mod twins;
mod undo;
mod writes;
#[path = "../written/mod.rs"]
mod written;
