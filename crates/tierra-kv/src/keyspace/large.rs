//! Hashes and sorted sets too large to be packed: a record for every field or member.
//!
//! Invariant: a record of form [`Large`](super::record::Form::Large) names one of these by number, and is the
//! only one that does.

use tierra_index::RecordTable;

use super::order::Order;

pub(super) enum Large {
    /// The records of fields, whose values are the fields' values.
    Hash(RecordTable),
    /// The records of members, whose values are scores, and their order. Apart, so that it costs no hash anything.
    Set(RecordTable, Box<Order>),
}

impl Large {
    pub(super) fn table(&self) -> &RecordTable {
        match self {
            Large::Hash(table) | Large::Set(table, _) => table,
        }
    }

    pub(super) fn table_mut(&mut self) -> &mut RecordTable {
        match self {
            Large::Hash(table) | Large::Set(table, _) => table,
        }
    }

    /// The memory that it takes, records not included.
    pub(super) fn bytes(&self) -> usize {
        // A table counts itself.
        let own = size_of::<Large>() - size_of::<RecordTable>();
        own + match self {
            Large::Hash(table) => table.bytes(),
            Large::Set(table, order) => table.bytes() + size_of::<Order>() + order.bytes(),
        }
    }
}

#[derive(Default)]
pub(super) struct Larges {
    all: Vec<Option<Box<Large>>>,
    unused: Vec<u32>,
    /// Bytes of all but the one that is changed: the sum is read by every request, so it is kept.
    settled_bytes: usize,
    /// The one that was last handed out to be changed.
    changed: Option<u32>,
}

impl Larges {
    pub(super) fn add(&mut self, large: Large) -> u32 {
        self.settled_bytes += large.bytes();
        let large = Some(Box::new(large));
        match self.unused.pop() {
            Some(number) => {
                self.all[number as usize] = large;
                number
            }
            None => {
                self.all.push(large);
                self.all.len() as u32 - 1
            }
        }
    }

    pub(super) fn get(&self, number: u32) -> &Large {
        self.all[number as usize]
            .as_ref()
            .expect("a record names it")
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Large {
        if self.changed != Some(number) {
            self.settle();
            self.settled_bytes -= self.get(number).bytes();
            self.changed = Some(number);
        }
        self.all[number as usize]
            .as_mut()
            .expect("a record names it")
    }

    fn settle(&mut self) {
        self.settled_bytes += self.changed_bytes();
        self.changed = None;
    }

    fn changed_bytes(&self) -> usize {
        self.changed.map_or(0, |number| self.get(number).bytes())
    }

    pub(super) fn take(&mut self, number: u32) -> Large {
        self.settle();
        self.unused.push(number);
        let large = *self.all[number as usize].take().expect("a record names it");
        self.settled_bytes -= large.bytes();
        if self.unused.len() == self.all.len() {
            *self = Larges::default();
        }
        large
    }

    /// The end of the range of numbers; some are unused.
    pub(super) fn numbers(&self) -> usize {
        self.all.len()
    }

    /// Whether a number is in use.
    pub(super) fn is_used(&self, number: usize) -> bool {
        self.all.get(number).is_some_and(Option::is_some)
    }

    /// The value of a number, if it is in use. Its size is not to be changed.
    pub(super) fn named(&mut self, number: usize) -> Option<&mut Large> {
        self.all.get_mut(number)?.as_deref_mut()
    }

    /// The tables of all that there is.
    pub(super) fn tables(&self) -> impl Iterator<Item = &RecordTable> {
        self.all.iter().flatten().map(|large| large.table())
    }

    pub(super) fn bytes(&self) -> usize {
        self.settled_bytes
            + self.changed_bytes()
            + self.all.capacity() * size_of::<Option<Box<Large>>>()
            + self.unused.capacity() * size_of::<u32>()
    }

    /// Bytes of values as they are counted, and added up.
    #[cfg(test)]
    pub(super) fn counted_and_added_up(&self) -> (usize, usize) {
        let bytes = self.all.iter().flatten().map(|large| large.bytes());
        (self.settled_bytes + self.changed_bytes(), bytes.sum())
    }
}
