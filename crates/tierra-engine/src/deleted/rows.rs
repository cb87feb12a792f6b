//! Deleted rows of one segment, or of the tail, in near memory: a bit per row, in pages of a scan's morsel.
//!
//! Invariant: copy on write. A page has a row at least, and counts its bits, so that counting rows reads no bit.

use std::sync::Arc;

use arrow::array::BooleanBufferBuilder;
use roaring::RoaringBitmap;
use tierra_column::bits::{BLOCK_LEN, Mask};

/// Blocks of a page.
pub(crate) const PAGE_BLOCKS: usize = 8;
pub(super) const PAGE_ROWS: usize = PAGE_BLOCKS * BLOCK_LEN;
/// A container of a roaring bitmap has this many pages. It stores their rows as bits if they are many, otherwise in two bytes each.
const CONTAINER_PAGES: usize = (1 << 16) / PAGE_ROWS;
const CONTAINER_BYTES: usize = (1 << 16) / 8;
/// So few rows become a container faster one by one.
const ONE_BY_ONE_MOST: u32 = 64;

/// Rows of a segment, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DeletedRows {
    /// `None` where no row is deleted; none beyond the last page that has any.
    pages: Vec<Option<Arc<Page>>>,
    /// Pages with rows.
    filled: u32,
    count: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct Page {
    count: u32,
    blocks: [Mask; PAGE_BLOCKS],
}

impl Page {
    const NONE: Page = Page {
        count: 0,
        blocks: [Mask::none(); PAGE_BLOCKS],
    };

    /// Adds a row of the page; `false` if it is there already.
    #[inline]
    fn insert(&mut self, row: usize) -> bool {
        let word = &mut self.blocks[row / BLOCK_LEN].0[row % BLOCK_LEN / 64];
        let bit = 1 << (row % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u32::from(is_new);
        is_new
    }

    fn extend_from(&mut self, others: &Page) {
        self.count += others.count;
        for (block, others) in self.blocks.iter_mut().zip(&others.blocks) {
            let mut common = *block;
            common.and(others);
            if common.any() {
                self.count -= common.count() as u32;
            }
            block.or(others);
        }
    }

    /// The rows, numbered in the page.
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let blocks = self.blocks.iter().enumerate();
        blocks.flat_map(|(block, mask)| mask.iter().map(move |row| block * BLOCK_LEN + row))
    }

    fn first_common(&self, other: &Page) -> Option<usize> {
        let mut blocks = self.blocks.iter().zip(&other.blocks).enumerate();
        blocks.find_map(|(block, (mask, other))| {
            let mut common = *mask;
            common.and(other);
            let first = common.any().then(|| common.iter().next())??;
            Some(block * BLOCK_LEN + first)
        })
    }
}

impl DeletedRows {
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

    /// The last row; `None` if there are none.
    pub(crate) fn last(&self) -> Option<u32> {
        let page = self.pages.last()?.as_ref()?;
        let block = page.blocks.iter().rposition(Mask::any)?;
        let first = (self.pages.len() - 1) * PAGE_ROWS + block * BLOCK_LEN;
        Some((first + page.blocks[block].iter().last()?) as u32)
    }

    /// The first row that is also among others.
    pub(crate) fn first_common(&self, others: &DeletedRows) -> Option<u32> {
        let mut pages = self.pages.iter().zip(&others.pages).enumerate();
        pages.find_map(|(at, (page, other))| {
            let row = page.as_ref()?.first_common(other.as_ref()?)?;
            Some((at * PAGE_ROWS + row) as u32)
        })
    }

    /// Adds a row; `false` if it is there already.
    pub(crate) fn insert(&mut self, row: u32) -> bool {
        let is_new = self
            .page(row as usize / PAGE_ROWS)
            .insert(row as usize % PAGE_ROWS);
        self.count += u32::from(is_new);
        is_new
    }

    /// Adds rows of one page, and tells for each whether it was not there yet.
    pub(super) fn insert_in_page(
        &mut self,
        page: usize,
        rows: impl Iterator<Item = usize>,
        are_new: &mut BooleanBufferBuilder,
    ) {
        let page = self.page(page);
        let before = page.count;
        rows.for_each(|row| are_new.append(page.insert(row)));
        let added = page.count - before;
        self.count += added;
    }

    /// A page to which a row will be added, this version's own.
    fn page(&mut self, at: usize) -> &mut Page {
        if at >= self.pages.len() {
            self.pages.resize(at + 1, None);
        }
        let page = self.pages[at].get_or_insert_with(|| {
            self.filled += 1;
            Arc::new(Page::NONE)
        });
        // Copied once, if another version shares it.
        Arc::make_mut(page)
    }

    /// Adds other rows. Pages that only they have are shared.
    pub(crate) fn extend_from(&mut self, others: &DeletedRows) {
        if self.pages.len() < others.pages.len() {
            self.pages.resize(others.pages.len(), None);
        }
        let others = others.pages.iter();
        for (page, other) in self.pages.iter_mut().zip(others) {
            let Some(other) = other else { continue };
            match page {
                Some(page) => {
                    let page = Arc::make_mut(page);
                    let before = page.count;
                    page.extend_from(other);
                    self.count += page.count - before;
                }
                None => {
                    *page = Some(other.clone());
                    self.filled += 1;
                    self.count += other.count;
                }
            }
        }
    }

    /// These rows and more; one that is deleted already is an error.
    pub(crate) fn with(&self, more: &DeletedRows) -> Result<Self, u32> {
        if let Some(row) = self.first_common(more) {
            return Err(row);
        }
        let mut next = self.clone();
        next.extend_from(more);
        Ok(next)
    }

    /// The deleted rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let pages = self.pages.iter().enumerate();
        let pages = pages.filter_map(|(at, page)| Some((at, page.as_ref()?)));
        pages.flat_map(|(at, page)| page.iter().map(move |row| (at * PAGE_ROWS + row) as u32))
    }

    /// Of each container of their bitmap that is not empty: its first row, its pages, and how many rows they have.
    fn containers(&self) -> impl Iterator<Item = (usize, &[Option<Arc<Page>>], u32)> {
        let containers = self.pages.chunks(CONTAINER_PAGES).enumerate();
        containers.filter_map(|(at, pages)| {
            let count: u32 = pages.iter().flatten().map(|page| page.count).sum();
            (count > 0).then_some((at * CONTAINER_PAGES * PAGE_ROWS, pages, count))
        })
    }

    /// The same, compressed.
    pub(crate) fn bitmap(&self) -> RoaringBitmap {
        let mut bitmap = RoaringBitmap::new();
        for (first, pages, count) in self.containers() {
            if count <= ONE_BY_ONE_MOST {
                for (at, page) in pages.iter().enumerate() {
                    let rows = page.iter().flat_map(|page| page.iter());
                    bitmap.extend(rows.map(|row| (first + at * PAGE_ROWS + row) as u32));
                }
                continue;
            }
            let mut bits = [0_u8; CONTAINER_BYTES];
            for (bits, page) in bits.chunks_exact_mut(PAGE_ROWS / 8).zip(pages) {
                let blocks = page.iter().flat_map(|page| &page.blocks);
                for (bits, mask) in bits.chunks_exact_mut(BLOCK_LEN / 8).zip(blocks) {
                    let words = bits.chunks_exact_mut(8).zip(&mask.0);
                    words.for_each(|(bits, word)| bits.copy_from_slice(&word.to_le_bytes()));
                }
            }
            bitmap |= RoaringBitmap::from_lsb0_bytes(first as u32, &bits);
        }
        bitmap.optimize();
        bitmap
    }

    /// The most bytes of that when it is stored.
    pub(crate) fn bitmap_bytes_most(&self) -> usize {
        let containers = self.containers();
        let bytes = containers.map(|(_, _, count)| 8 + CONTAINER_BYTES.min(2 * count as usize));
        8 + bytes.sum::<usize>()
    }

    /// Its bytes of near memory.
    pub(crate) fn near_bytes(&self) -> usize {
        self.filled as usize * size_of::<Page>() + self.pages.len() * size_of::<Option<Arc<Page>>>()
    }
}

impl FromIterator<u32> for DeletedRows {
    fn from_iter<T: IntoIterator<Item = u32>>(rows: T) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.insert(row);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_bitmap_and_pages_are_shared() {
        let some: RoaringBitmap = (0..300_000).step_by(7).chain([(1 << 20) - 1]).collect();
        let first: DeletedRows = some.iter().collect();
        let more: RoaringBitmap = [1, 2, 500_000].into_iter().collect();
        let second = first.with(&more.iter().collect()).unwrap();
        assert!(first.iter().eq(&some));
        assert!(second.iter().eq(&(&some | &more)));
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
        let error = second.with(&more.iter().collect());
        assert_eq!(error.unwrap_err(), 1);
    }

    /// Sets of all densities, in containers of their own.
    fn sets() -> impl Iterator<Item = Vec<u32>> {
        let steps = [1, 2, 7, 15, 16, 17, 1000, 10_000, 70_000];
        let scattered = steps.map(|step| (3..1_u32 << 20).step_by(step).collect());
        let runs = (0..1_u32 << 20).filter(|row| row / 900 % 10 == 3).collect();
        let few = vec![0, 8191, 8192, 65_535, 65_536, (1 << 20) - 1];
        let mixed = (0..66_000_u32)
            .chain([400_000])
            .chain((700_000..900_000).step_by(3));
        scattered
            .into_iter()
            .chain([runs, few, vec![77], mixed.collect()])
    }

    #[test]
    fn the_compressed_form_has_the_same_rows() {
        for rows in sets() {
            let set: DeletedRows = rows.iter().copied().collect();
            assert_eq!(
                (set.count(), set.last()),
                (rows.len(), rows.last().copied())
            );
            let bitmap = set.bitmap();
            assert!(
                bitmap.iter().eq(rows.iter().copied()),
                "{} rows",
                rows.len()
            );
            assert!(bitmap.serialized_size() <= set.bitmap_bytes_most());
            let whole: RoaringBitmap = rows.iter().copied().collect();
            assert_eq!(whole.serialized_size(), set.bitmap_bytes_most());
        }
        assert_eq!(DeletedRows::default().last(), None);
    }

    #[test]
    fn sets_are_joined_and_compared_a_page_at_a_time() {
        let both = |rows: Vec<u32>| -> (RoaringBitmap, DeletedRows) {
            (rows.iter().copied().collect(), rows.into_iter().collect())
        };
        let all: Vec<_> = sets().map(both).collect();
        for (a, rows) in &all {
            for (b, others) in &all {
                assert_eq!(rows.first_common(others), (a & b).min());
                let mut joined = rows.clone();
                joined.extend_from(others);
                assert_eq!(joined, (a | b).iter().collect::<DeletedRows>());
                assert_eq!(joined.count() as u64, (a | b).len());
            }
            assert!(rows.iter().eq(a), "joining changes no other set");
        }
    }
}
