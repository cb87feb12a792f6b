//! The format of a log's records.

pub(super) const FORMAT_VERSION: u8 = 1;
pub(super) const LINE: usize = 64;
