//! Deferred frees: large values, and all keys of a database, are unlinked at once and freed later, a few microseconds at a time.

use std::collections::VecDeque;

use tierra_index::{RecordTable, SlotMut};

use super::large::Large;
use super::record::Form;
use super::store::Store;

/// Something to be freed later.
pub(super) enum Deferred {
    /// The fields or members of a large value.
    Value(Large),
    /// The keys of a database, large values among them.
    Keys(RecordTable),
}

impl Deferred {
    fn table(&self) -> &RecordTable {
        match self {
            Deferred::Value(large) => large.table(),
            Deferred::Keys(table) => table,
        }
    }

    fn table_mut(&mut self) -> &mut RecordTable {
        match self {
            Deferred::Value(large) => large.table_mut(),
            Deferred::Keys(table) => table,
        }
    }

    /// The memory that it takes, records not included.
    fn bytes(&self) -> usize {
        match self {
            Deferred::Value(large) => large.bytes(),
            Deferred::Keys(table) => table.bytes(),
        }
    }
}

/// The queue of deferred frees.
#[derive(Default)]
pub(super) struct DeferredFrees {
    deferred: VecDeque<Deferred>,
    /// How far the first of them has been freed.
    point: usize,
    /// Bytes of their tables and orders.
    bytes: usize,
}

impl DeferredFrees {
    pub(super) fn push(&mut self, deferred: Deferred) {
        self.bytes += deferred.bytes();
        self.deferred.push_back(deferred);
    }

    /// Frees some records, for a few microseconds. Returns whether there are more.
    pub(super) fn free_some(&mut self, store: &mut Store) -> bool {
        const GROUPS: usize = 64;
        let mut named = Vec::new();
        if let Some(deferred) = self.deferred.front_mut() {
            let heap = &mut store.heap;
            let are_keys = matches!(deferred, Deferred::Keys(_));
            let free = |slot: SlotMut<'_>| {
                let record = slot.record();
                if are_keys && heap.header(record).form == Form::Large {
                    named.push(heap.large_number(record));
                }
                heap.free(record);
            };
            self.point = deferred.table_mut().visit(self.point, GROUPS, free);
            if self.point == 0 {
                self.bytes -= deferred.bytes();
                self.deferred.pop_front();
            }
        }
        for number in named {
            let large = store.larges.take(number);
            self.push(Deferred::Value(large));
        }
        self.has_some()
    }

    /// Whether there are such records.
    pub(super) fn has_some(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Bytes of tables and orders, records not included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &RecordTable> {
        self.deferred.iter().map(Deferred::table)
    }
}
