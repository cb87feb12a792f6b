//! Spans that are to become empty, so that other sizes can have their pages.
//!
//! An arena does not know who names its objects. It can only choose a span, hand out none of its free slots any more, and tell of an
//! object whether it lies in one: whoever goes around all objects moves those that do.
//!
//! Invariant: `vacated` names the spans whose `is_vacated` is set, each at its `listed_at`; no other list does, and their free slots
//! are not vacant.

use super::{Arena, FreedPages};
use crate::slab::classes::{
    PAGE_BYTES, SMALL_BYTES_MAX, SPAN_OBJECTS_MAX, class_bytes, class_of, span_objects,
};

/// Spans that are looked at for one that is chosen.
const LOOKS: usize = 16;

impl Arena {
    /// Chooses a span, the emptiest of those among the next few that have a free slot. Bytes of its pages, 0 where there was none among them; and
    /// the pages that come free if it was empty already. Of each size the span that objects are allocated from stays
    /// unless it is empty: two sizes could take it from each other for ever.
    pub(in super::super) fn vacate(&mut self) -> (u64, FreedPages) {
        let mut emptiest: Option<(usize, u32)> = None;
        for _ in 0..LOOKS.min(self.spans.len()) {
            self.looked_at = (self.looked_at + 1) % self.spans.len();
            let number = self.looked_at as u32;
            let span = &self.spans[self.looked_at];
            if span.free_slots == 0 || span.is_vacated {
                continue;
            }
            let class = usize::from(span.class);
            let (free, all) = (usize::from(span.free_slots), span_objects(class));
            let part = free * SPAN_OBJECTS_MAX / all;
            let is_filled = free < all && self.partial[class].last() == Some(&number);
            if !is_filled && emptiest.is_none_or(|(other, _)| part > other) {
                emptiest = Some((part, number));
            }
        }
        let Some((_, number)) = emptiest else {
            return (0, None);
        };
        self.unlist(number);
        let span = &mut self.spans[number as usize];
        let class = usize::from(span.class);
        self.used.vacant_bytes -= u64::from(span.free_slots) * class_bytes(class) as u64;
        let bytes = u64::from(span.pages) * PAGE_BYTES as u64;
        if usize::from(span.free_slots) == span_objects(class) {
            return (bytes, self.give_back(number));
        }
        span.is_vacated = true;
        span.listed_at = self.vacated.len() as u32;
        self.vacated.push(number);
        self.used.vacated_bytes += bytes;
        (bytes, None)
    }

    /// Whether the object at `place` lies in a span that is to become empty.
    pub(in super::super) fn is_vacated(&self, place: usize) -> bool {
        self.spans[self.span_at(place) as usize].is_vacated
    }

    /// Has objects allocated from one of those spans again, as it is. False where there is none.
    pub(in super::super) fn keep(&mut self) -> bool {
        let Some(&number) = self.vacated.last() else {
            return false;
        };
        self.forget_vacated(number);
        let span = &self.spans[number as usize];
        // One that has no free slot cannot be chosen, and gets none taken.
        let free_bytes = usize::from(span.free_slots) * class_bytes(usize::from(span.class));
        self.used.vacant_bytes += free_bytes as u64;
        self.push_partial(number);
        true
    }

    /// A span is no longer to become empty, or is.
    pub(super) fn forget_vacated(&mut self, number: u32) {
        self.unlist(number);
        let span = &mut self.spans[number as usize];
        span.is_vacated = false;
        self.used.vacated_bytes -= u64::from(span.pages) * PAGE_BYTES as u64;
    }

    /// Whether an object of `bytes` finds a vacant slot: it takes no page.
    pub(in super::super) fn has_slot(&self, bytes: usize) -> bool {
        bytes <= SMALL_BYTES_MAX && !self.partial[class_of(bytes.max(1))].is_empty()
    }
}
