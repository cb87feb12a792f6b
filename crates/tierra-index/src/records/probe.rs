//! Which groups a search meets: its home first, then others by strides.

/// How far searches go from one group to the next, by the tag: odd, so that each meets all groups.
pub(super) const STRIDES: [usize; 4] = [1, 39, 103, 205];

/// The home of a hash among `groups` groups, a power of two.
#[inline(always)]
pub(super) fn home_of(hash: u64, groups: usize) -> usize {
    hash as usize & (groups - 1)
}

/// The group at which the search for a key with this tag goes on; at its home again once it has met all.
///
/// Keys whose home is full go different ways: if all went to the next group, full groups would make more of them.
#[inline(always)]
pub(super) fn after(group: usize, tag: u8, groups: usize) -> usize {
    (group + STRIDES[usize::from(tag) % STRIDES.len()]) & (groups - 1)
}
