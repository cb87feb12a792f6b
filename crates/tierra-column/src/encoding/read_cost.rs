//! What it takes to read values of an encoding, besides waiting for the memory that they lie in.
//!
//! Measured by `examples/read_costs.rs` in a core's cache (Zen 5): 64 Ki values of ten bits, one in a thousand of thirty, each eight
//! times, and strings of 18 bytes. They only tell encodings apart: another processor takes other times, in much the same ratios.

use super::Encoding;
use crate::bits::BLOCK_LEN;

/// The cost of reading values of an encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCost {
    /// Nanoseconds for a value, all of them in order.
    pub in_order_ns: f64,
    /// Nanoseconds for a single value.
    pub alone_ns: f64,
    /// Lines that a single value is found in; `None`: those of its block.
    pub alone_lines: Option<f64>,
}

impl ReadCost {
    pub(crate) const fn of_lines(in_order_ns: f64, alone_ns: f64, lines: f64) -> ReadCost {
        ReadCost {
            in_order_ns,
            alone_ns,
            alone_lines: Some(lines),
        }
    }

    /// Of an encoding that reads a whole block for a value.
    pub(crate) const fn of_blocks(in_order_ns: f64) -> ReadCost {
        ReadCost {
            in_order_ns,
            alone_ns: in_order_ns * BLOCK_LEN as f64,
            alone_lines: None,
        }
    }
}

impl Encoding {
    /// What reading its values costs.
    pub const fn read_cost(self) -> ReadCost {
        self.format().read_cost
    }
}
