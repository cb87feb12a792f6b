//! Which replica of a chunk serves a reader best that says how it reads.
//!
//! ```text
//! sequential            the near copy if there is one, else the fewest bytes: what scans read (`slots.rs`)
//! random                not one of which every value needs a whole block; then near before far, then the fewest bytes touched, then
//!                       the fewest bytes
//! a share of the rows   random if few lines are touched, else sequential
//! ```
//! The engine knows of no tier how fast it is, and of none how busy.

use tierra_column::{CellAccess, LogicalType};
use tierra_memory::Speed;

use super::Segment;
use crate::manifest::ReplicaNumber;

/// How a reader is going to read a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReadPattern {
    /// All rows, or long runs of them.
    #[default]
    Sequential,
    /// Single rows.
    Random,
    /// This share of the rows, from 0 to 1, spread over all.
    Share(f64),
}

/// From this share on sequential reading is the better one: then most lines of packed values are touched.
const SEQUENTIAL_FROM: f64 = 1.0 / 32.0;

impl ReadPattern {
    /// Whether single values are looked up.
    fn looks_up(self) -> bool {
        match self {
            ReadPattern::Sequential => false,
            ReadPattern::Random => true,
            ReadPattern::Share(share) => share < SEQUENTIAL_FROM,
        }
    }
}

impl Segment {
    /// The replica of a column that serves such a reader best, of those that can be read and are in no trouble.
    pub(crate) fn best_replica(
        &self,
        column: usize,
        ty: LogicalType,
        pattern: ReadPattern,
    ) -> ReplicaNumber {
        let read = self.slots.replica(column);
        if !pattern.looks_up() || self.is_placeholder(column) {
            return read;
        }
        let slots = std::iter::once(column).chain(self.slots.others(column));
        let is_in_trouble = |slot: usize| {
            let far = self.far(slot);
            far.is_some_and(|(_, copy, _)| copy.refuses_repair() || copy.pool().is_poisoned())
        };
        let slots = slots.filter(|slot| *slot == column || !is_in_trouble(*slot));
        let cost = |slot: &usize| {
            let place = self.entry.replica(self.slots.replica(*slot));
            let access = place.encoding.cell_access(ty);
            let is_near = *slot == column && self.speed(column) == Speed::Near;
            let reads_block = access.is_none_or(|access| access == CellAccess::Block);
            (reads_block, !is_near, access, place.len_bytes)
        };
        let best = slots.min_by_key(cost);
        best.map_or(read, |slot| self.slots.replica(slot))
    }
}
