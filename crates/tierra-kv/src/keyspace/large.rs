//! Hashes and sorted sets too large to be packed: a record for every field or member.
//!
//! Invariant: a record of form [`Large`](super::record::Form::Large) names one of these by number, and is the
//! only one that does.

use tierra_index::RecordTable;

use super::order::Order;

pub(super) enum Large {
    /// The records of fields, whose values are the fields' values.
    Hash(RecordTable),
    /// The records of members, whose values are scores, and their order.
    Set(RecordTable, Order),
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

    pub(super) fn bytes(&self) -> usize {
        match self {
            Large::Hash(table) => table.bytes(),
            Large::Set(table, order) => table.bytes() + order.bytes(),
        }
    }
}

#[derive(Default)]
pub(super) struct Larges {
    all: Vec<Option<Box<Large>>>,
    unused: Vec<u32>,
}

impl Larges {
    pub(super) fn add(&mut self, large: Large) -> u32 {
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
        self.all[number as usize]
            .as_mut()
            .expect("a record names it")
    }

    pub(super) fn take(&mut self, number: u32) -> Large {
        self.unused.push(number);
        *self.all[number as usize].take().expect("a record names it")
    }

    /// How many numbers there are; not all name something.
    pub(super) fn numbers(&self) -> usize {
        self.all.len()
    }

    /// What the number names, if it names something.
    pub(super) fn named(&mut self, number: usize) -> Option<&mut Large> {
        self.all.get_mut(number)?.as_deref_mut()
    }

    /// The tables of all that there is.
    pub(super) fn tables(&self) -> impl Iterator<Item = &RecordTable> {
        self.all.iter().flatten().map(|large| large.table())
    }

    pub(super) fn bytes(&self) -> usize {
        let all = self
            .all
            .iter()
            .flatten()
            .map(|large| large.bytes() + size_of::<Large>());
        all.sum::<usize>() + self.all.capacity() * size_of::<Option<Box<Large>>>()
    }
}
