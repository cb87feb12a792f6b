//! The types of values that payloads begin with, as Redis numbers them.

pub(super) const STRING: u8 = 0;
pub(super) const SET_TEXT: u8 = 3;
pub(super) const HASH: u8 = 4;
pub(super) const SET: u8 = 5;
pub(super) const HASH_ZIPMAP: u8 = 9;
pub(super) const SET_ZIPLIST: u8 = 12;
pub(super) const HASH_ZIPLIST: u8 = 13;
pub(super) const HASH_LISTPACK: u8 = 16;
pub(super) const SET_LISTPACK: u8 = 17;
