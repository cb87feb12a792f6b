//! What the records of a log are laid out by.

pub(super) const FORMAT_VERSION: u8 = 1;
pub(super) const LINE: usize = 64;
