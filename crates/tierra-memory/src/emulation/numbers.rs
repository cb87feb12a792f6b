//! The numbers of far memories and of sockets.

/// Near memory's number.
pub(super) const NEAR: usize = 0;
/// The number of the far memory described to [`set`](super::set).
pub(super) const DEFAULT: usize = 1;
/// Numbers of memories, near memory's included.
pub(super) const MAX_DEVICES: usize = 8;
/// Sockets that can be told apart.
pub(super) const MAX_SOCKETS: usize = 8;
