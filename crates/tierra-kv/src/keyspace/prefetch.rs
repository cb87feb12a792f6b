//! Prefetching of records that are read one after the other: the fields of a large hash, the members of a large sorted
//! set.
//!
//! Each is a record somewhere in either tier. Sixteen at a time are fetched together, so that a reader of all
//! of a large value waits for one miss in sixteen, and so that emulated far memory adds its delay to them.

use std::iter::FusedIterator;

use tierra_interleave::{Cx, Execution, GroupSize, for_each};
use tierra_memory::in_mode;

use super::heap::Heap;
use super::order::Ranked;

/// Records fetched together.
const BUFFERED: usize = 16;

/// Something that refers to a record.
pub(super) trait HasRecord: Copy + Default {
    /// Its number.
    fn record(self) -> u64;
}

impl HasRecord for u64 {
    fn record(self) -> u64 {
        self
    }
}

impl HasRecord for Ranked {
    fn record(self) -> u64 {
        self.1
    }
}

/// Records that have been fetched and not yet read, at one end.
#[derive(Default)]
struct PrefetchBuffer<T> {
    all: [T; BUFFERED],
    first: usize,
    end: usize,
}

impl<T: HasRecord> PrefetchBuffer<T> {
    fn len(&self) -> usize {
        self.end - self.first
    }

    /// Takes the next records from `from` and fetches them, if the buffer is empty.
    #[inline]
    fn refill(&mut self, heap: &Heap, from: impl Iterator<Item = T>) {
        if self.len() > 0 {
            return;
        }
        (self.first, self.end) = (0, 0);
        // The slots come first in `zip`: when they end, no item has been taken without a slot.
        for (slot, named) in self.all.iter_mut().zip(from) {
            *slot = named;
            self.end += 1;
        }
        in_mode!(Execution::Interleaved, M => for_each(
            GroupSize::DEFAULT,
            &self.all[..self.end],
            |cx: Cx<M>, named| cx.load_bytes(heap.fetched(named.record())),
            |_, _| (),
        ));
    }

    fn take_first(&mut self) -> Option<T> {
        let taken = self.all[self.first..self.end].first().copied();
        self.first += usize::from(taken.is_some());
        taken
    }

    fn take_last(&mut self) -> Option<T> {
        let taken = self.all[self.first..self.end].last().copied();
        self.end -= usize::from(taken.is_some());
        taken
    }
}

/// An iterator whose records are prefetched.
pub(super) struct Prefetched<'a, I: Iterator> {
    heap: &'a Heap,
    rest: I,
    front: PrefetchBuffer<I::Item>,
    /// In the order in which they are taken from the back.
    back: PrefetchBuffer<I::Item>,
}

impl<'a, I: Iterator<Item: HasRecord>> Prefetched<'a, I> {
    pub(super) fn new(heap: &'a Heap, records: I) -> Self {
        Prefetched {
            heap,
            rest: records,
            front: PrefetchBuffer::default(),
            back: PrefetchBuffer::default(),
        }
    }

    /// Where the records are.
    pub(super) fn heap(&self) -> &'a Heap {
        self.heap
    }
}

impl<I: Iterator<Item: HasRecord>> Iterator for Prefetched<'_, I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        self.front.refill(self.heap, self.rest.by_ref());
        self.front.take_first().or_else(|| self.back.take_last())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let fetched = self.front.len() + self.back.len();
        let (least, most) = self.rest.size_hint();
        (least + fetched, most.map(|most| most + fetched))
    }
}

impl<I: DoubleEndedIterator<Item: HasRecord>> DoubleEndedIterator for Prefetched<'_, I> {
    fn next_back(&mut self) -> Option<I::Item> {
        self.back.refill(self.heap, self.rest.by_ref().rev());
        self.back.take_first().or_else(|| self.front.take_last())
    }
}

impl<I: Iterator<Item: HasRecord> + FusedIterator> FusedIterator for Prefetched<'_, I> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tierra_memory::slab::{RecordMemory, RecordMemoryOptions};

    use super::super::chooser::Chooser;
    use super::super::settings::Settings;
    use super::*;

    proptest! {
        #[test]
        fn yields_what_it_is_given_from_either_end(
            count in 0u64..70,
            from_front in prop::collection::vec(any::<bool>(), 0..80),
        ) {
            let memory = RecordMemory::new(&RecordMemoryOptions::default()).unwrap();
            let mut heap = Heap::new(memory, Chooser::new(Settings::default()));
            let field = |number: u64| number.to_le_bytes();
            let records: Vec<u64> =
                (0..count).map(|number| heap.create_field(&field(number), b"").unwrap()).collect();
            let mut ahead = Prefetched::new(&heap, records.iter().copied());
            let mut oracle = records.iter().copied();
            for front in from_front {
                prop_assert_eq!(ahead.size_hint(), oracle.size_hint());
                let (taken, expected) = if front {
                    (ahead.next(), oracle.next())
                } else {
                    (ahead.next_back(), oracle.next_back())
                };
                prop_assert_eq!(taken, expected);
            }
        }
    }
}
