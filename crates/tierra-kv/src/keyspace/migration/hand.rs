//! Going around all records: the tables of databases, then those of large values.

use tierra_index::Slot;

use super::super::DATABASES;
use super::super::db::Table;
use super::super::heap::Heap;
use super::super::large::{Large, Larges};
use super::super::order::Order;

/// Numbers of large values that are gone which a hand passes over at a time.
const UNUSED_MAX: usize = 4096;

/// A place in a round: in the tables of databases, then in those of large values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hand {
    /// A database or, from [`DATABASES`] on, a large value.
    pub(super) visiting: usize,
    /// The point in it.
    pub(super) point: usize,
}

/// The tables that a hand goes through, and the records they name.
pub(super) struct Tables<'a> {
    pub(super) tables: &'a mut [Table; DATABASES],
    pub(super) larges: &'a mut Larges,
    pub(super) heap: &'a mut Heap,
}

impl Tables<'_> {
    /// Visits as many groups of the table at a hand, with the order of its members if it is a sorted set's. The point after
    /// them, 0 at its end; and how many groups it has.
    pub(super) fn visit(
        &mut self,
        hand: Hand,
        groups: usize,
        mut meet: impl FnMut(Slot<'_>, Option<&mut Order>, &mut Heap),
    ) -> (usize, usize) {
        let (table, mut order) = match self.tables.get_mut(hand.visiting) {
            Some(table) => (&mut table.records, None),
            None => match self.larges.named(hand.visiting - DATABASES) {
                Some(Large::Hash(table)) => (table, None),
                Some(Large::Set(table, order)) => (table, Some(order)),
                None => return (0, 0),
            },
        };
        if table.is_empty() {
            return (0, 0);
        }
        let point = table.visit(hand.point, groups, |slot| {
            meet(slot, order.as_deref_mut(), self.heap);
        });
        (point, table.groups())
    }

    /// Fetches as many groups at a hand, which will be visited soon.
    pub(super) fn fetch(&self, hand: Hand, groups: usize) {
        if let Some(table) = self.tables.get(hand.visiting) {
            table.records.fetch(hand.point, groups);
        }
    }

    /// Has a hand go on from a point, 0 being the next table's. Whether that ends its round.
    pub(super) fn advance(&self, hand: &mut Hand, point: usize) -> bool {
        hand.point = point;
        if point != 0 {
            return false;
        }
        let end = DATABASES + self.larges.numbers();
        for _ in 0..UNUSED_MAX {
            hand.visiting = (hand.visiting + 1) % end;
            if hand.visiting < DATABASES || self.larges.is_used(hand.visiting - DATABASES) {
                break;
            }
        }
        hand.visiting == 0
    }
}
