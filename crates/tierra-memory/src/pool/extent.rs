//! Where an extent lies.

/// A payload's place in its pool. A 64-byte header that describes it precedes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Extent {
    /// Bytes from the pool's beginning to the payload's, a multiple of 64.
    pub offset: u64,
    /// Bytes of the payload.
    pub len_bytes: u64,
}
