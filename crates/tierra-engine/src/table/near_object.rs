//! Names of objects that may have a near copy.
//!
//! Invariant: a name determines its object's bytes in every version of the table.

use std::sync::Arc;

use tierra_memory::NearCopy;

use crate::manifest::{ExtentId, PartEntry, RunEntry};

/// An object of a table, named by its content.
#[derive(Clone, Debug)]
pub(crate) enum ObjectName {
    /// A column's chunk of a segment, where it is stored.
    Chunk {
        segment: u32,
        column: usize,
        place: (ExtentId, u64),
    },
    Part(Arc<PartEntry>),
    Run(Arc<RunEntry>),
}

/// An object and the near copy to read it from; without one it is read where it is stored.
pub(crate) struct NearChange {
    pub(crate) object: ObjectName,
    pub(crate) copy: Option<Arc<NearCopy>>,
}
