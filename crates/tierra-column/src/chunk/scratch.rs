//! Buffers that reading blocks needs.

use crate::bits::{BLOCK_LEN, Kernels};
use crate::encoding::coded_strings::Buffers;

/// Buffers for working on one block at a time: make one per thread and keep it.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) kernels: Kernels,
    pub(crate) codes: Box<[u64; BLOCK_LEN]>,
    pub(crate) selected: Box<[u64; BLOCK_LEN]>,
    pub(crate) narrow: Box<[u32; BLOCK_LEN]>,
    pub(super) window: Vec<u64>,
    pub(crate) coded: Buffers,
}

impl Scratch {
    /// Fresh buffers, 20 KiB, for the fastest kernels of this CPU.
    pub fn new() -> Scratch {
        Scratch::with(Kernels::best())
    }

    /// Fresh buffers for these kernels.
    pub fn with(kernels: Kernels) -> Scratch {
        Scratch {
            kernels,
            codes: Box::new([0; BLOCK_LEN]),
            selected: Box::new([0; BLOCK_LEN]),
            narrow: Box::new([0; BLOCK_LEN]),
            window: Vec::new(),
            coded: Buffers::default(),
        }
    }

    /// The kernels that work on the blocks.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Works with other kernels from now on.
    pub fn set_kernels(&mut self, kernels: Kernels) {
        self.kernels = kernels;
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}
