//! What this crate promises, one file per promise; one program, because linking DataFusion is slow.

mod benchmarks;
mod differential;
mod executor;
mod load;
mod point;
mod pushdown;
mod slt;
mod twins;
mod undo;
