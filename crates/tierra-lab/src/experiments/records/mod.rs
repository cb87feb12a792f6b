//! Records in two tiers: the placement study (Antão et al.) on Tierra's own store, in process and served.
//!
//! YCSB's records, a hash of ten fields of a hundred bytes each. Requests come in windows, as clients send them that do
//! not wait for each other ([`driver`]): to a store in this process ([`store`]), whose window of keys is looked up together,
//! or to a server over its protocol ([`remote`], [`server`]). Every field read is checked. Far memory is emulated Optane.

mod connection;
mod driver;
mod dynamic;
mod growth;
mod memory;
mod paper;
mod peers;
mod placed;
mod ratio;
mod remote;
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

/// Who works, for messages.
const WHO: &str = "Tierra";
/// The sorted set that knows the order of records, for scans.
const INDEX: &[u8] = b"_indices";

/// Which record a request is for, or begins at.
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
