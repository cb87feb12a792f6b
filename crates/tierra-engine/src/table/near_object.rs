//! Names of what may have a near copy.
//!
//! Invariant: a name says what bytes its object has, whichever version of the table is asked for it.

use std::sync::Arc;

use tierra_memory::NearCopy;

use crate::manifest::{ExtentId, PartEntry, RunEntry};

/// An object of a table, by what it holds.
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

/// A near copy that an object is to be read from, or that it is to be read where it is stored.
pub(crate) struct NearChange {
    pub(crate) object: ObjectName,
    pub(crate) copy: Option<Arc<NearCopy>>,
}
