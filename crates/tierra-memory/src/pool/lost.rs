//! The lost parts of a pool. `lost_pages.rs` detects and clears them.

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
    /// Ranges that [`Pool::take_faults`](super::Pool::take_faults) has not reported.
    pub(super) unreported: Vec<Range<u64>>,
    /// The length of the file, if it is known to be shorter than what is mapped.
    pub(super) truncated_at: Option<u64>,
    /// Whether it was found truncated, and [`Pool::take_truncation`](super::Pool::take_truncation) has not reported it.
    pub(super) has_unreported_truncation: bool,
}

/// An extent that was finished and is not published yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Staged {
    pub(super) len_bytes: u64,
    /// Whether it was lost by truncation of the file, so that it holds zeros although its pages are not listed as lost.
    pub(super) is_lost: bool,
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
