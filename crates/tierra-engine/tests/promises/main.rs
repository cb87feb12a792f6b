//! What this crate promises, one file per promise; one program, because linking each of them by itself is slow.
//! Beside it lie those that change what is one for the process.

#[path = "../changed/mod.rs"]
mod changed;
#[path = "../copied/mod.rs"]
mod copied;
#[path = "../damaged/mod.rs"]
mod damaged;
#[path = "../../../../fuzz/src/image.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod image;
#[path = "../killed/mod.rs"]
mod killed;
#[path = "../replicated/mod.rs"]
mod replicated;
#[path = "../../../../fuzz/src/seal.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod seal;
#[path = "../simulated/mod.rs"]
mod simulated;
#[path = "../support/mod.rs"]
mod support;

mod access;
mod at_once;
mod backup;
mod backup_damage;
mod backup_kill;
mod backup_since;
mod batches;
mod changes;
mod coded_strings;
mod columns;
mod copies;
mod crash;
mod crash_changes;
mod crash_images;
mod crash_tiers;
mod degraded;
mod deleted_damage;
mod device;
mod directory;
mod drop_tier;
mod encoded_replicas;
mod every_reading;
mod give_back;
mod go_back;
mod inverted;
mod inverted_damage;
mod inverted_life;
mod key_runs;
mod keys;
mod kill;
mod let_go;
mod links;
mod lookups;
mod lost_publication;
mod merge;
mod missing_tiers;
mod moved;
mod near_encodings;
mod offline_damage;
mod read_only;
mod refusal;
mod reopen;
mod repair;
mod replicas;
mod running;
mod salvage;
mod scan;
mod totals;
mod undo;
mod vanish;
mod versions;
mod withheld;
