//! The objects of one tier: spans of equal slots, cut from pages.
//!
//! Free slots are bits in near memory: neither allocating nor freeing touches the object, which may lie in
//! memory that is slow to write.
//!
//! The size of an object follows from its page's class alone, a byte, because a prefetch needs it for every object.
//!
//! Invariants: `page_spans` names, for every page of a span, the span, and `page_classes` its class; a span of a class is in `partial`
//! exactly if it has a free slot and is not being [evacuated](evacuation); a span without objects is given back, but for one of its class.

mod evacuation;

use super::classes::{
    CLASSES, PAGE_BYTES, SMALL_BYTES_MAX, SPAN_OBJECTS_MAX, class_bytes, class_of, span_objects,
    span_pages,
};
use super::runs::FreeRuns;
use crate::{LARGE_PAGE_BYTES, arch};

const BLOCK_PAGES: u32 = (LARGE_PAGE_BYTES / PAGE_BYTES) as u32;
const WORDS: usize = SPAN_OBJECTS_MAX / u64::BITS as usize;
/// The part of the limit that may be mapped beyond it before pages go back one by one, which costs a call each.
const MORE_MAPPED_PART: u64 = 64;
const NO_SPAN: u32 = u32::MAX;
/// The class of a span that is one large object.
const LARGE: u8 = u8::MAX;
/// The class of a page of no span.
const NO_CLASS: u8 = u8::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Span {
    free: [u64; WORDS],
    first_page: u32,
    pages: u32,
    /// Its index among its class's spans with room, or among those being evacuated.
    list_index: u32,
    /// Zero for a large object, or if there is no span.
    free_slots: u16,
    class: u8,
    is_evacuating: bool,
}

/// What an arena holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUse {
    /// Objects.
    pub objects: u64,
    /// Bytes of the objects, each rounded up to its size class.
    pub object_bytes: u64,
    /// Bytes of free slots beside them, for objects of the same size classes.
    pub vacant_bytes: u64,
    /// Bytes of the pages that hold them.
    pub held_bytes: u64,
    /// Bytes of pages among them that are being evacuated: no object is allocated there.
    pub evacuating_bytes: u64,
    /// Bytes that may be held.
    pub limit_bytes: u64,
}

/// Pages that the owner of the mapping is to give back.
pub(super) type FreedPages = Option<(u32, u32)>;

#[derive(Debug)]
pub(super) struct Arena {
    spans: Vec<Span>,
    unused_spans: Vec<u32>,
    page_spans: Vec<u32>,
    page_classes: Vec<u8>,
    partial: [Vec<u32>; CLASSES],
    evacuating: Vec<u32>,
    /// The span that was last considered for evacuation.
    next_candidate: usize,
    free: FreeRuns,
    /// Pages before this one that came free while less than the limit was mapped have gone back.
    trimmed: u32,
    pages_max: u32,
    used: TierUse,
}

impl Arena {
    /// An arena of no pages yet, `pages_max` at most.
    pub(super) fn new(pages_max: u32, limit_bytes: u64) -> Arena {
        Arena {
            spans: Vec::new(),
            unused_spans: Vec::new(),
            page_spans: Vec::new(),
            page_classes: Vec::new(),
            partial: [const { Vec::new() }; CLASSES],
            evacuating: Vec::new(),
            next_candidate: 0,
            free: FreeRuns::default(),
            trimmed: 0,
            pages_max,
            used: TierUse {
                limit_bytes,
                ..TierUse::default()
            },
        }
    }

    pub(super) fn used(&self) -> TierUse {
        self.used
    }

    pub(super) fn set_limit(&mut self, limit_bytes: u64) {
        self.used.limit_bytes = limit_bytes;
    }

    /// Frees all objects; the owner of the mapping gives all pages back.
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.unused_spans.clear();
        self.page_spans.fill(NO_SPAN);
        self.page_classes.fill(NO_CLASS);
        self.partial.iter_mut().for_each(Vec::clear);
        self.evacuating.clear();
        self.next_candidate = 0;
        self.free = FreeRuns::default();
        if !self.page_spans.is_empty() {
            self.free.give(0, self.page_spans.len() as u32);
        }
        self.used = TierUse {
            limit_bytes: self.used.limit_bytes,
            ..TierUse::default()
        };
    }

    /// Bytes that an object of `bytes` takes.
    pub(super) fn rounded(bytes: usize) -> usize {
        if bytes <= SMALL_BYTES_MAX {
            class_bytes(class_of(bytes.max(1)))
        } else {
            bytes.next_multiple_of(PAGE_BYTES)
        }
    }

    /// Allocates an object; returns its offset in the arena. `more` is asked to map pages, with the total number
    /// of pages wanted.
    pub(super) fn allocate(
        &mut self,
        bytes: usize,
        more: impl FnMut(u32) -> bool,
    ) -> Option<usize> {
        if bytes > SMALL_BYTES_MAX {
            let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES)).ok()?;
            let span = self.span(LARGE, pages, 0, more)?;
            self.used.objects += 1;
            self.used.object_bytes += u64::from(pages) * PAGE_BYTES as u64;
            return Some(self.spans[span as usize].first_page as usize * PAGE_BYTES);
        }
        let class = class_of(bytes.max(1));
        let number = match self.partial[class].last() {
            Some(&number) => number,
            None => {
                let number = self.span(
                    class as u8,
                    span_pages(class) as u32,
                    span_objects(class),
                    more,
                )?;
                self.push_partial(number);
                number
            }
        };
        let span = &mut self.spans[number as usize];
        let words = span.free.iter_mut().enumerate();
        let (at, word) = words
            .rev()
            .find(|(_, word)| **word != 0)
            .expect("a partial span has a free slot");
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        span.free_slots -= 1;
        let slot = at * u64::BITS as usize + bit as usize;
        let offset = span.first_page as usize * PAGE_BYTES + slot * class_bytes(class);
        if span.free_slots == 0 {
            self.partial[class].pop();
        }
        self.used.objects += 1;
        self.used.object_bytes += class_bytes(class) as u64;
        self.used.vacant_bytes -= class_bytes(class) as u64;
        Some(offset)
    }

    /// Frees the object that begins at `offset`.
    ///
    /// # Panics
    /// If none does.
    pub(super) fn free(&mut self, offset: usize) -> FreedPages {
        let number = self.span_at(offset);
        let span = &mut self.spans[number as usize];
        let within = offset - span.first_page as usize * PAGE_BYTES;
        self.used.objects -= 1;
        if span.class == LARGE {
            assert_eq!(within, 0, "an object begins here");
            self.used.object_bytes -= u64::from(span.pages) * PAGE_BYTES as u64;
            return self.give_back(number);
        }
        let class = usize::from(span.class);
        let bytes = class_bytes(class);
        let (slot, rest) = (within / bytes, within % bytes);
        let bit = 1 << (slot % u64::BITS as usize);
        let word = &mut span.free[slot / u64::BITS as usize];
        assert!(rest == 0 && *word & bit == 0, "an object begins here");
        *word |= bit;
        span.free_slots += 1;
        self.used.object_bytes -= bytes as u64;
        let (free, all) = (usize::from(span.free_slots), span_objects(class));
        if span.is_evacuating {
            if free < all {
                return None;
            }
            self.end_evacuation(number);
            return self.give_back(number);
        }
        self.used.vacant_bytes += bytes as u64;
        if free == 1 {
            self.push_partial(number);
        }
        if free == all && self.partial[class].len() > 1 {
            self.unlist(number);
            self.used.vacant_bytes -= (all * bytes) as u64;
            return self.give_back(number);
        }
        None
    }

    /// Prefetches the number of an object's span...
    #[inline]
    pub(super) fn fetch_page(&self, offset: usize) {
        if let Some(number) = self.page_spans.get(offset / PAGE_BYTES) {
            arch::prefetch(std::ptr::from_ref(number).cast());
        }
    }

    /// ...and the span itself.
    #[inline]
    pub(super) fn fetch_span(&self, offset: usize) {
        let number = self.page_spans.get(offset / PAGE_BYTES).copied();
        if let Some(span) = self.spans.get(number.unwrap_or(NO_SPAN) as usize) {
            let start: *const u8 = std::ptr::from_ref(span).cast();
            arch::prefetch(start);
            // It may lie in two lines.
            arch::prefetch(start.wrapping_add(size_of::<Span>() - 1));
        }
    }

    /// Bytes of the object at `offset`, which may not be its first byte.
    #[inline]
    pub(super) fn capacity(&self, offset: usize) -> usize {
        let class = self.page_classes.get(offset / PAGE_BYTES).copied();
        match class.unwrap_or(NO_CLASS) {
            LARGE => self.spans[self.span_at(offset) as usize].pages as usize * PAGE_BYTES,
            NO_CLASS => panic!("there is an object"),
            class => class_bytes(usize::from(class)),
        }
    }

    /// Whether the object's span is less than half full, so that moving its objects would give pages back; then the span
    /// becomes the last one that objects are allocated from. The span that they are allocated from now is never
    /// deprioritized, or two spans would exchange their objects for ever. So if more than half of all pages are vacant
    /// there are objects to move, except for as much as a span of each class.
    pub(super) fn deprioritize(&mut self, offset: usize) -> bool {
        let number = self.span_at(offset);
        let Span {
            class,
            free_slots,
            list_index,
            is_evacuating,
            ..
        } = self.spans[number as usize];
        if class == LARGE {
            return false;
        }
        if is_evacuating {
            return !self.partial[usize::from(class)].is_empty();
        }
        let all = span_objects(usize::from(class));
        let partial = &mut self.partial[usize::from(class)];
        if usize::from(free_slots) <= all / 2 || partial.last() == Some(&number) {
            return false;
        }
        let other = partial[0];
        partial.swap(0, list_index as usize);
        self.spans[other as usize].list_index = list_index;
        self.spans[number as usize].list_index = 0;
        true
    }

    fn span_at(&self, offset: usize) -> u32 {
        let number = self.page_spans.get(offset / PAGE_BYTES).copied();
        let number = number.unwrap_or(NO_SPAN);
        assert_ne!(number, NO_SPAN, "there is an object");
        number
    }

    fn span(
        &mut self,
        class: u8,
        pages: u32,
        slots: usize,
        mut more: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let held_bytes = self.used.held_bytes + u64::from(pages) * PAGE_BYTES as u64;
        if held_bytes > self.used.limit_bytes {
            return None;
        }
        let first_page = match self.free.take(pages) {
            Some(page) => page,
            None => {
                let mapped = self.page_spans.len() as u32;
                let end = mapped.checked_add(pages.checked_next_multiple_of(BLOCK_PAGES)?)?;
                if end > self.pages_max || !more(end) {
                    return None;
                }
                self.page_spans.resize(end as usize, NO_SPAN);
                self.page_classes.resize(end as usize, NO_CLASS);
                self.free.give(mapped, end - mapped);
                self.free.take(pages).expect("as many have just come")
            }
        };
        self.used.held_bytes = held_bytes;
        if class != LARGE {
            self.used.vacant_bytes += (slots * class_bytes(usize::from(class))) as u64;
        }
        let mut free = [0; WORDS];
        for slot in 0..slots {
            free[slot / u64::BITS as usize] |= 1 << (slot % u64::BITS as usize);
        }
        let span = Span {
            free,
            first_page,
            pages,
            list_index: 0,
            free_slots: slots as u16,
            class,
            is_evacuating: false,
        };
        let number = match self.unused_spans.pop() {
            Some(number) => {
                self.spans[number as usize] = span;
                number
            }
            None => {
                self.spans.push(span);
                self.spans.len() as u32 - 1
            }
        };
        self.page_spans[first_page as usize..][..pages as usize].fill(number);
        self.page_classes[first_page as usize..][..pages as usize].fill(class);
        Some(number)
    }

    /// Whether more is mapped than the limit and a margin. Then empty pages have to be given back, however few they are: spans
    /// longer than the holes between others were given new pages.
    fn is_beyond_limit(&self) -> bool {
        let mapped_bytes = self.page_spans.len() as u64 * PAGE_BYTES as u64;
        let more_bytes = mapped_bytes.saturating_sub(self.used.limit_bytes);
        more_bytes > LARGE_PAGE_BYTES as u64 + self.used.limit_bytes / MORE_MAPPED_PART
    }

    /// As many pages, or a few more, that were freed before more than the limit was mapped, for the owner of the mapping to give
    /// back.
    pub(super) fn trim(&mut self, pages: u32) -> Vec<(u32, u32)> {
        if !self.is_beyond_limit() {
            self.trimmed = 0;
            return Vec::new();
        }
        let mut found = 0;
        let runs = self.free.from(self.trimmed);
        let trimmed: Vec<_> = runs
            .take_while(|&(_, length)| {
                let is_wanted = found < pages;
                found += length;
                is_wanted
            })
            .collect();
        if let Some((first, length)) = trimmed.last() {
            self.trimmed = first + length;
        }
        trimmed
    }

    fn push_partial(&mut self, number: u32) {
        let span = &mut self.spans[number as usize];
        let partial = &mut self.partial[usize::from(span.class)];
        span.list_index = partial.len() as u32;
        partial.push(number);
    }

    /// Removes a span from its list.
    fn unlist(&mut self, number: u32) {
        let Span {
            class,
            list_index,
            is_evacuating,
            ..
        } = self.spans[number as usize];
        let list = if is_evacuating {
            &mut self.evacuating
        } else {
            &mut self.partial[usize::from(class)]
        };
        list.swap_remove(list_index as usize);
        if let Some(&moved) = list.get(list_index as usize) {
            self.spans[moved as usize].list_index = list_index;
        }
    }

    fn give_back(&mut self, number: u32) -> FreedPages {
        let span = &mut self.spans[number as usize];
        span.free_slots = 0;
        let Span {
            first_page, pages, ..
        } = *span;
        self.page_spans[first_page as usize..][..pages as usize].fill(NO_SPAN);
        self.page_classes[first_page as usize..][..pages as usize].fill(NO_CLASS);
        self.unused_spans.push(number);
        self.used.held_bytes -= u64::from(pages) * PAGE_BYTES as u64;
        let (start, length) = self.free.give(first_page, pages);
        if self.is_beyond_limit() {
            return Some((first_page, pages));
        }
        // Whole large pages around what has come free, and only those, are worth a call.
        let first = start
            .next_multiple_of(BLOCK_PAGES)
            .max(first_page / BLOCK_PAGES * BLOCK_PAGES);
        let end = ((start + length) / BLOCK_PAGES * BLOCK_PAGES)
            .min((first_page + pages).next_multiple_of(BLOCK_PAGES));
        (first < end).then(|| (first, end - first))
    }
}
