//! What a group has done, counted.

/// What a group has done.
///
/// Counting costs an addition per turn of the whole group, so every group counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// Lookups started; each has ended when [`for_each`](crate::for_each) returns.
    pub lookups: u64,
    /// How often a lookup gave way to another: none in a plain mode.
    pub suspensions: u64,
}

impl core::ops::AddAssign for GroupReport {
    fn add_assign(&mut self, other: GroupReport) {
        self.lookups += other.lookups;
        self.suspensions += other.suspensions;
    }
}
