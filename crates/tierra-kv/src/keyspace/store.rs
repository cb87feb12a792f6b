//! Everything that the databases hold: the tables of their keys, large values, and the records of both.

use tierra_index::RecordTable;
use tierra_memory::Speed;
use tierra_memory::slab::TierUse;

use super::entry::{Kind, LiveEntry};
use super::heap::Heap;
use super::large::{Large, Larges};
use super::record::Form;
use super::table::{DATABASES, Table};

pub(super) struct Store {
    pub(super) heap: Heap,
    pub(super) tables: [Table; DATABASES],
    pub(super) larges: Larges,
}

impl Store {
    /// Databases whose tables are like this one, which is empty.
    pub(super) fn new(heap: Heap, table: RecordTable) -> Store {
        Store {
            heap,
            tables: Table::all_like(&table),
            larges: Larges::default(),
        }
    }

    /// The type of a record's value.
    pub(super) fn kind(&self, record: u64) -> Kind {
        match self.heap.header(record).form {
            Form::Bytes => Kind::String,
            Form::PackedHash => Kind::Hash,
            Form::PackedSet => Kind::SortedSet,
            Form::Large => match self.larges.get(self.heap.large_number(record)) {
                Large::Hash(_) => Kind::Hash,
                Large::Set(..) => Kind::SortedSet,
            },
        }
    }

    pub(super) fn large(&self, entry: LiveEntry) -> &Large {
        self.larges.get(self.heap.large_number(entry.record))
    }

    /// Frees a record that no table refers to any more, and what it refers to.
    pub(super) fn free(&mut self, record: u64) {
        if self.heap.header(record).form == Form::Large {
            for part in self
                .larges
                .take(self.heap.large_number(record))
                .table()
                .iter()
            {
                self.heap.free(part);
            }
        }
        self.heap.free(record);
    }

    /// Bytes taken by a key and its value.
    pub(super) fn memory_usage(&self, entry: LiveEntry) -> usize {
        let own = size_of::<u64>() + self.heap.capacity(entry.record);
        if self.heap.header(entry.record).form != Form::Large {
            return own;
        }
        let large = self.large(entry);
        let parts = large.table().iter().map(|part| self.heap.capacity(part));
        own + large.bytes() + parts.sum::<usize>()
    }

    /// The tables of keys, fields and members.
    pub(super) fn all_tables(&self) -> impl Iterator<Item = &RecordTable> {
        let tables = self.tables.iter().map(|table| &table.records);
        tables.chain(self.larges.tables())
    }

    /// Bytes of tables, orders and queues.
    pub(super) fn table_bytes(&self) -> usize {
        let table = |table: &Table| table.records.bytes() + table.expiries.bytes();
        let tables = self.tables.iter().map(table).sum::<usize>();
        tables + self.larges.bytes()
    }

    /// Bytes of memory that records hold.
    pub(super) fn held_bytes(&self) -> u64 {
        let [near, far] = self.tiers();
        near.held_bytes + far.held_bytes
    }

    /// Bytes of records, without vacant slots.
    pub(super) fn object_bytes(&self) -> u64 {
        let [near, far] = self.tiers();
        near.object_bytes + far.object_bytes
    }

    #[inline]
    fn tiers(&self) -> [TierUse; 2] {
        [Speed::Near, Speed::Far].map(|speed| self.heap.memory.used(speed))
    }
}
