//! Buffers that reading blocks needs.

use crate::bits::{BLOCK_LEN, Kernels};

/// Buffers for working on one block at a time: make one per thread and keep it.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) kernels: Kernels,
    pub(crate) codes: Box<[u64; BLOCK_LEN]>,
    pub(crate) selected: Box<[u64; BLOCK_LEN]>,
    pub(crate) narrow: Box<[u32; BLOCK_LEN]>,
    pub(super) window: Vec<u64>,
}

impl Scratch {
    /// Fresh buffers, 20 KiB.
    pub fn new() -> Scratch {
        Scratch {
            kernels: Kernels::best(),
            codes: Box::new([0; BLOCK_LEN]),
            selected: Box::new([0; BLOCK_LEN]),
            narrow: Box::new([0; BLOCK_LEN]),
            window: Vec::new(),
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}
