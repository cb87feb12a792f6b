//! What nobody names any more and is freed later, some microseconds' worth at a time: large values, and all keys of a database.

use std::collections::VecDeque;

use tierra_index::{RecordTable, SlotMut};

use super::large::Large;
use super::record::Form;
use super::store::Store;

/// What goes by and by.
pub(super) enum Leaving {
    /// The fields or members of a large value.
    Value(Large),
    /// The keys of a database, large values among them.
    Keys(RecordTable),
}

impl Leaving {
    fn table(&self) -> &RecordTable {
        match self {
            Leaving::Value(large) => large.table(),
            Leaving::Keys(table) => table,
        }
    }

    fn table_mut(&mut self) -> &mut RecordTable {
        match self {
            Leaving::Value(large) => large.table_mut(),
            Leaving::Keys(table) => table,
        }
    }

    /// The memory that it takes, records not included.
    fn bytes(&self) -> usize {
        match self {
            Leaving::Value(large) => large.bytes(),
            Leaving::Keys(table) => table.bytes(),
        }
    }
}

/// All of it, in the order in which it is freed.
#[derive(Default)]
pub(super) struct Freeing {
    leaving: VecDeque<Leaving>,
    /// How far the first has come.
    point: usize,
    /// Bytes of their tables and orders.
    bytes: usize,
}

impl Freeing {
    pub(super) fn push(&mut self, leaving: Leaving) {
        self.bytes += leaving.bytes();
        self.leaving.push_back(leaving);
    }

    /// Frees some records, some microseconds' worth. Whether there are more.
    pub(super) fn free_some(&mut self, store: &mut Store) -> bool {
        const GROUPS: usize = 64;
        let mut named = Vec::new();
        if let Some(leaving) = self.leaving.front_mut() {
            let heap = &mut store.heap;
            let are_keys = matches!(leaving, Leaving::Keys(_));
            let free = |slot: SlotMut<'_>| {
                let record = slot.record();
                if are_keys && heap.header(record).form == Form::Large {
                    named.push(heap.large_number(record));
                }
                heap.free(record);
            };
            self.point = leaving.table_mut().visit(self.point, GROUPS, free);
            if self.point == 0 {
                self.bytes -= leaving.bytes();
                self.leaving.pop_front();
            }
        }
        for number in named {
            let large = store.larges.take(number);
            self.push(Leaving::Value(large));
        }
        self.has_some()
    }

    /// Whether there are such records.
    pub(super) fn has_some(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Bytes of tables and orders, records not included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &RecordTable> {
        self.leaving.iter().map(Leaving::table)
    }
}
