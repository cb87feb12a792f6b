//! Evacuation of spans, so that other sizes can have their pages.
//!
//! An arena does not know the references to its objects. It only chooses a span, allocates none of its free slots any more, and
//! says of an object whether it lies in such a span: the owner, which iterates over all objects, moves those that do.
//!
//! Invariant: `evacuating` names the spans whose `is_evacuating` is set, each at its `list_index`; no other list does, and their free slots
//! are not counted as vacant.

use super::{Arena, FreedPages};
use crate::slab::classes::{
    PAGE_BYTES, SMALL_BYTES_MAX, SPAN_OBJECTS_MAX, class_bytes, class_of, span_objects,
};

/// Spans considered for one that is chosen.
const LOOKS: usize = 16;

impl Arena {
    /// Chooses a span, the emptiest of those among the next few that have a free slot. Returns the bytes of its pages, 0 if there
    /// was none, and the pages that come free if it was empty already. Of each size, the span that objects are allocated from
    /// is not chosen unless it is empty: two sizes could take it from each other for ever.
    pub(in super::super) fn evacuate(&mut self) -> (u64, FreedPages) {
        let mut emptiest: Option<(usize, u32)> = None;
        for _ in 0..LOOKS.min(self.spans.len()) {
            self.next_candidate = (self.next_candidate + 1) % self.spans.len();
            let number = self.next_candidate as u32;
            let span = &self.spans[self.next_candidate];
            if span.free_slots == 0 || span.is_evacuating {
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
        span.is_evacuating = true;
        span.list_index = self.evacuating.len() as u32;
        self.evacuating.push(number);
        self.used.evacuating_bytes += bytes;
        (bytes, None)
    }

    /// Whether the object at `offset` lies in a span being evacuated.
    pub(in super::super) fn is_evacuating(&self, offset: usize) -> bool {
        self.spans[self.span_at(offset) as usize].is_evacuating
    }

    /// Allocates from one of those spans again, as it is. False if there is none.
    pub(in super::super) fn cancel_evacuation(&mut self) -> bool {
        let Some(&number) = self.evacuating.last() else {
            return false;
        };
        self.end_evacuation(number);
        let span = &self.spans[number as usize];
        // A span without free slots is never chosen, and none are taken while it is evacuated.
        let free_bytes = usize::from(span.free_slots) * class_bytes(usize::from(span.class));
        self.used.vacant_bytes += free_bytes as u64;
        self.push_partial(number);
        true
    }

    /// The evacuation of a span has ended.
    pub(super) fn end_evacuation(&mut self, number: u32) {
        self.unlist(number);
        let span = &mut self.spans[number as usize];
        span.is_evacuating = false;
        self.used.evacuating_bytes -= u64::from(span.pages) * PAGE_BYTES as u64;
    }

    /// Whether there is a vacant slot for an object of `bytes`, so that it takes no page.
    pub(in super::super) fn has_slot(&self, bytes: usize) -> bool {
        bytes <= SMALL_BYTES_MAX && !self.partial[class_of(bytes.max(1))].is_empty()
    }
}
