//! What is lost of a pool. `healing.rs` says how that is found out and made good.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

/// A part of a pool that was lost, in whole pages: the system's, or those that a device is mapped in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Bytes from the pool's beginning. Extent headers may lie in them, and free space.
    pub offsets: Range<u64>,
}

/// What is lost of a pool.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Pages that hold zeros of this process instead of the file's bytes; where they begin.
    pub(super) pages: BTreeSet<u64>,
    /// Ranges that [`Pool::take_faults`](super::Pool::take_faults) has not told.
    pub(super) untold: Vec<Range<u64>>,
    /// The length of the file, if it is known to be shorter than what is mapped.
    pub(super) cut_at: Option<u64>,
    /// Whether it was found so, and [`Pool::take_cut`](super::Pool::take_cut) has not told.
    pub(super) has_untold_cut: bool,
}

/// An extent that was finished and is not published yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Staged {
    pub(super) len_bytes: u64,
    /// Whether the file lost it with its end, so that zeros are in its place without being a lost page.
    pub(super) is_gone: bool,
}

/// Says through an [`io::Error`] that bytes were stored to a page that is lost.
#[derive(Debug, thiserror::Error)]
#[error("the page at {offset} is lost")]
pub(super) struct LostPage {
    pub(super) offset: u64,
}

/// The page named by an error that says through [`LostPage`] that it is lost.
pub(super) fn lost_page(error: &io::Error) -> Option<u64> {
    let lost = error.get_ref()?.downcast_ref::<LostPage>()?;
    Some(lost.offset)
}

impl Lost {
    /// Lost pages that have a byte in a range.
    pub(super) fn pages_of(
        &self,
        range: Range<u64>,
        page_bytes: u64,
    ) -> impl Iterator<Item = u64> + '_ {
        let first = range.start - range.start % page_bytes;
        // An empty range has no byte.
        let end = if range.is_empty() { first } else { range.end };
        self.pages.range(first..end).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_range_are_those_it_has_a_byte_in() {
        let page = 4096;
        let lost = Lost {
            pages: [1, 2, 5].map(|number| number * page).into(),
            ..Lost::default()
        };
        let of = |range| {
            lost.pages_of(range, page)
                .map(|at| at / page)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0..page), []);
        assert_eq!(of(0..page + 1), [1]);
        assert_eq!(of(2 * page - 1..2 * page), [1]);
        assert_eq!(of(2 * page - 1..2 * page + 1), [1, 2]);
        assert_eq!(of(page + 5..page + 5), []);
        assert_eq!(of(0..9 * page), [1, 2, 5]);
    }
}
