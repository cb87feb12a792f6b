//! The probe sequence of a key: its home group first, then others by a stride.

/// How far searches go from one group to the next, by the tag. Odd, so that every sequence has all groups.
pub(super) const STRIDES: [usize; 4] = [1, 39, 103, 205];

/// The home of a hash among `groups` groups, a power of two.
#[inline(always)]
pub(super) fn home_group(hash: u64, groups: usize) -> usize {
    hash as usize & (groups - 1)
}

/// The group at which the search for a key with this tag goes on; at its home again once it has met all.
///
/// Keys with the same full home use different strides. With one stride for all, full groups would cluster.
#[inline(always)]
pub(super) fn next_group(group: usize, tag: u8, groups: usize) -> usize {
    (group + STRIDES[usize::from(tag) % STRIDES.len()]) & (groups - 1)
}
