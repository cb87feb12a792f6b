//! What this crate promises, one file per promise; one program, because linking each of them by itself is slow.
//! Beside it lie those that change what is one for the process.

#[path = "../simulated/mod.rs"]
mod simulated;

mod copy_out;
mod counters;
mod crash;
mod crash_directory;
mod crash_planted;
mod crash_pools;
mod device;
mod give_back;
mod injected;
mod pool;
mod pool_damage;
mod pool_format;
mod pool_publications;
mod repair;
mod replication;
mod replication_changes;
mod scrub_pass;
mod topology;
