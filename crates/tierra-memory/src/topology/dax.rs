//! DAX devices: memory that pools lie on without a file system.

use super::node::NodeId;
use crate::durability::Durability;

/// A DAX device: byte-addressable memory that is not system RAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaxDevice {
    /// Its name, such as `dax0.0`.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes to which mappings must be aligned, where the kernel says.
    pub align_bytes: Option<u64>,
    /// The node it is closest to, where the kernel says.
    pub node: Option<NodeId>,
    /// Whether it is persistent memory, as far as the kernel says: others are memory that firmware set aside, or CXL expanders.
    pub is_persistent: bool,
}

impl DaxDevice {
    /// What a pool on it survives.
    pub fn durability(&self) -> Durability {
        match self.is_persistent {
            true => Durability::CacheLine,
            false => Durability::ProcessOnly,
        }
    }
}
