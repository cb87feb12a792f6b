//! Counters of uses and moves.

/// Uses of objects since the start, and how objects were moved for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// Promoted, because they were used, or to hold a ratio.
    pub to_near: u64,
    /// Demoted, because others are hotter, or to hold a ratio.
    pub to_far: u64,
    /// Bytes of both, and of what was moved within its tier.
    pub bytes: u64,
    /// Moved within their tier, to free pages.
    pub compacted: u64,
    /// Uses of objects that were near.
    pub uses_near: u64,
    /// Uses of objects that were far.
    pub uses_far: u64,
    /// Hot objects that stayed far, because near memory was full or enough had moved.
    pub refused: u64,
}

impl Migrations {
    /// What has happened since the counters were `before`.
    #[must_use]
    pub fn since(self, before: Migrations) -> Migrations {
        Migrations {
            to_near: self.to_near - before.to_near,
            to_far: self.to_far - before.to_far,
            bytes: self.bytes - before.bytes,
            compacted: self.compacted - before.compacted,
            uses_near: self.uses_near - before.uses_near,
            uses_far: self.uses_far - before.uses_far,
            refused: self.refused - before.refused,
        }
    }
}
