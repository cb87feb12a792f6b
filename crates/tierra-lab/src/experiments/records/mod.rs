//! Records in two tiers: the placement study (Antão et al.) on Tierra's store, in process and served.
//!
//! The records are YCSB's, a hash of ten fields of a hundred bytes each. Requests come in windows, as from clients that do not
//! wait for each other ([`driver`]). A store in this process ([`store`]) looks up the keys of a window together; a server gets
//! them over its protocol ([`remote`], [`server`]). Every field read is checked. Far memory is emulated Optane.

mod connection;
mod driver;
mod dynamic;
mod get_set;
mod growth;
mod learning;
mod memory;
mod open_loop;
mod paper;
mod peers;
mod placed;
mod prediction;
mod ratio;
mod remote;
mod sample;
mod served;
mod server;
mod shift;
mod store;
mod threshold;
mod tiers;
mod window;

pub(super) use dynamic::YcsbDynamic;
pub(super) use memory::KvMemory;
pub(super) use peers::KvPeers;
pub(super) use ratio::YcsbRatio;
pub(super) use served::YcsbServed;
pub use server::serve;
pub(super) use shift::KvShift;
use store::Store;
pub(super) use threshold::YcsbThreshold;
pub(super) use window::KvWindow;

use tierra_data::ycsb::Operation;

use crate::error::LabError;

/// The contender's name in messages.
const WHO: &str = "Tierra";
/// The sorted set with the order of records, for scans.
const INDEX: &[u8] = b"_indices";

/// The record of a request, or the first one of a scan.
fn record_of(operation: Operation) -> u64 {
    match operation {
        Operation::Read { record }
        | Operation::Update { record, .. }
        | Operation::Insert { record }
        | Operation::Scan { record, .. }
        | Operation::ReadModifyWrite { record, .. } => record,
    }
}

fn wrong(who: &str, record: u64) -> LabError {
    LabError::WrongAnswer {
        who: who.to_owned(),
        what: format!("record {record}"),
    }
}
