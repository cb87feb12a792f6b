//! The deleted rows of one segment, or of the tail, in near memory: a bit per row, in pages of a scan's morsel.
//!
//! Invariant: copy on write. A page counts its bits, so that counting rows reads no bit.

use std::sync::Arc;

use roaring::RoaringBitmap;
use tierra_column::bits::{BLOCK_LEN, Mask};

/// Blocks of a page.
pub(crate) const PAGE_BLOCKS: usize = 8;
const PAGE_ROWS: usize = PAGE_BLOCKS * BLOCK_LEN;

/// The deleted rows of a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeletedRows {
    /// `None` where no row is deleted; none beyond the last page that has any.
    pages: Vec<Option<Arc<Page>>>,
    count: u32,
}

#[derive(Clone, Debug)]
struct Page {
    count: u32,
    blocks: [Mask; PAGE_BLOCKS],
}

impl Page {
    const NONE: Page = Page {
        count: 0,
        blocks: [Mask::none(); PAGE_BLOCKS],
    };
}

impl DeletedRows {
    /// The rows of a bitmap.
    pub(crate) fn of(rows: &RoaringBitmap) -> Self {
        let none = Self::default();
        none.with(rows).expect("a bitmap has each row once")
    }

    /// Number of deleted rows.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether the row is deleted.
    #[inline]
    pub(crate) fn contains(&self, row: usize) -> bool {
        let page = self.pages.get(row / PAGE_ROWS).and_then(Option::as_ref);
        page.is_some_and(|page| page.blocks[row / BLOCK_LEN % PAGE_BLOCKS].get(row % BLOCK_LEN))
    }

    /// The deleted rows of a block, numbered in it; `None` if there are none near it.
    #[inline]
    pub(crate) fn block(&self, block: usize) -> Option<&Mask> {
        let page = self.pages.get(block / PAGE_BLOCKS)?.as_ref()?;
        Some(&page.blocks[block % PAGE_BLOCKS])
    }

    /// Number of deleted rows in the page that begins with this block.
    ///
    /// # Panics
    /// If no page begins there.
    #[inline]
    pub(crate) fn count_in_page(&self, first_block: usize) -> usize {
        assert_eq!(first_block % PAGE_BLOCKS, 0, "no page begins at a block");
        let page = self.pages.get(first_block / PAGE_BLOCKS);
        page.and_then(Option::as_ref)
            .map_or(0, |page| page.count as usize)
    }

    /// These rows and more; one that is deleted already is an error.
    pub(crate) fn with(&self, more: &RoaringBitmap) -> Result<Self, u32> {
        let mut next = self.clone();
        for row in more {
            let (page, bit) = (row as usize / PAGE_ROWS, row as usize % PAGE_ROWS);
            if page >= next.pages.len() {
                next.pages.resize(page + 1, None);
            }
            let page = next.pages[page].get_or_insert_with(|| Arc::new(Page::NONE));
            // Copied once: after that it is this version's own.
            let page = Arc::make_mut(page);
            let block = &mut page.blocks[bit / BLOCK_LEN];
            if block.get(bit % BLOCK_LEN) {
                return Err(row);
            }
            block.set(bit % BLOCK_LEN, true);
            page.count += 1;
            next.count += 1;
        }
        Ok(next)
    }

    /// The deleted rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let pages = self.pages.iter().enumerate();
        let pages = pages.filter_map(|(at, page)| Some((at, page.as_ref()?)));
        let blocks = pages.flat_map(|(at, page)| {
            let blocks = page.blocks.iter().enumerate();
            blocks.map(move |(block, mask)| (at * PAGE_ROWS + block * BLOCK_LEN, mask))
        });
        blocks.flat_map(|(first, mask)| mask.iter().map(move |row| (first + row) as u32))
    }

    /// The same, compressed.
    pub(crate) fn bitmap(&self) -> RoaringBitmap {
        let mut bitmap = RoaringBitmap::new();
        bitmap.extend(self.iter());
        bitmap
    }

    /// Its bytes of near memory.
    pub(crate) fn near_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count();
        pages * size_of::<Page>() + self.pages.len() * size_of::<Option<Arc<Page>>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_bitmap_and_pages_are_shared() {
        let some: RoaringBitmap = (0..300_000).step_by(7).chain([(1 << 20) - 1]).collect();
        let first = DeletedRows::of(&some);
        let more: RoaringBitmap = [1, 2, 500_000].into_iter().collect();
        let second = first.with(&more).unwrap();
        assert!(first.iter().eq(&some));
        assert!(second.iter().eq(&(&some | &more)));
        assert_eq!(first.bitmap(), some);
        assert_eq!(first.count() as u64, some.len());
        for row in (0..1 << 20).step_by(13) {
            assert_eq!(first.contains(row), some.contains(row as u32), "row {row}");
        }
        for block in 0..1024 {
            let rows = block * 1024..(block + 1) * 1024;
            let expected = rows.clone().filter(|row| second.contains(*row)).count();
            assert_eq!(second.block(block).map_or(0, Mask::count), expected);
        }
        let in_pages = (0..1024).step_by(PAGE_BLOCKS);
        let in_pages = in_pages.map(|block| second.count_in_page(block));
        assert_eq!(in_pages.sum::<usize>(), second.count());
        let is_shared = |page: usize| {
            let pages = [&first, &second].map(|rows| rows.pages[page].as_ref().unwrap());
            Arc::ptr_eq(pages[0], pages[1])
        };
        assert!(!is_shared(0) && is_shared(1));
        assert_eq!(second.with(&more).unwrap_err(), 1);
    }
}
