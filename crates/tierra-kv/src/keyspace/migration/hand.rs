//! A clock hand over all records: the tables of databases, then those of large values.

use tierra_index::SlotMut;

use super::super::heap::Heap;
use super::super::large::Large;
use super::super::order::Order;
use super::super::store::Store;
use super::super::table::DATABASES;

/// Unused numbers of large values that a hand skips at a time.
const MAX_SKIPPED: usize = 4096;

/// A position in a round: in the tables of databases, then in those of large values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hand {
    /// A database or, from [`DATABASES`] on, a large value.
    pub(super) visiting: usize,
    /// The point in it.
    pub(super) point: usize,
}

impl Hand {
    /// Visits as many groups of the table at the hand, with the order of its members if it is a sorted set's. Returns the point
    /// after them, 0 at the table's end, and the number of its groups.
    pub(super) fn visit(
        self,
        store: &mut Store,
        groups: usize,
        mut visit_slot: impl FnMut(SlotMut<'_>, Option<&mut Order>, &mut Heap),
    ) -> (usize, usize) {
        let (table, mut order) = match store.tables.get_mut(self.visiting) {
            Some(table) => (&mut table.records, None),
            None => match store.larges.named(self.visiting - DATABASES) {
                Some(Large::Hash(table)) => (table, None),
                Some(Large::Set(table, order)) => (table, Some(&mut **order)),
                None => return (0, 0),
            },
        };
        if table.is_empty() {
            return (0, 0);
        }
        let point = table.visit(self.point, groups, |slot| {
            visit_slot(slot, order.as_deref_mut(), &mut store.heap);
        });
        (point, table.groups())
    }

    /// Prefetches as many groups at the hand, which will be visited soon.
    pub(super) fn fetch(self, store: &Store, groups: usize) {
        if let Some(table) = store.tables.get(self.visiting) {
            table.records.fetch(self.point, groups);
        }
    }

    /// Moves to a point, 0 being the start of the next table. Returns whether that ends the round.
    pub(super) fn advance(&mut self, store: &Store, point: usize) -> bool {
        self.point = point;
        if point != 0 {
            return false;
        }
        let end = DATABASES + store.larges.numbers();
        for _ in 0..MAX_SKIPPED {
            self.visiting = (self.visiting + 1) % end;
            if self.visiting < DATABASES || store.larges.is_used(self.visiting - DATABASES) {
                break;
            }
        }
        self.visiting == 0
    }
}
