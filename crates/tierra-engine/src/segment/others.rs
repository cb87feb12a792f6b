//! The same rows, read in other tiers: what a scan may read from morsel to morsel in place of what was chosen when the segment was
//! opened.
//!
//! For each tier with copies there are at most two: of each column the replica with the fewest bytes there, which costs least where
//! bandwidth is scarce, and the one that is unpacked fastest, which does where there is plenty. Columns that have no copy in
//! the tier, near copies and placeholders are read as in the segment itself. Made when a scan first asks, because few tables have
//! copies to choose among.
//!
//! Invariant: the segment holds the copies of the others, so that losses in them are noted.

use std::sync::Arc;

use tierra_memory::placement::LineTimes;

use super::{Segment, slots};
use crate::error::DamageError;
use crate::manifest::ChunkPlace;
use crate::spec::TableSpec;
use crate::spec::replicas::TierId;
use crate::storage::extent::ExtentCopy;

/// What is least of the replicas that are read in a tier.
const LEAST: [fn(&ChunkPlace) -> f64; 2] = [
    |place| place.len_bytes as f64,
    |place| place.encoding.read_cost().in_order_ns,
];

impl Segment {
    /// The same rows, read in other tiers.
    pub(crate) fn others(&self, spec: &TableSpec) -> &[Arc<Segment>] {
        self.others.get_or_init(|| self.make_others(spec))
    }

    /// One of the others, by its number, or the segment itself.
    #[inline]
    pub(crate) fn read_as(self: &Arc<Self>, other: Option<usize>) -> &Arc<Segment> {
        let others: &[Arc<Segment>] = self.others.get().map_or(&[], |others| &**others);
        other.and_then(|at| others.get(at)).unwrap_or(self)
    }

    /// How many others were made.
    pub(crate) fn made_others(&self) -> usize {
        self.others.get().map_or(0, |others| others.len())
    }

    fn make_others(&self, spec: &TableSpec) -> Box<[Arc<Segment>]> {
        let copies = self.extents.iter().flatten();
        let tiers = copies.flat_map(|extent| extent.copies().iter().map(|copy| copy.tier()));
        let mut tiers: Vec<TierId> = tiers.collect();
        tiers.sort_unstable();
        tiers.dedup();
        let mut others: Vec<Arc<Segment>> = Vec::new();
        if tiers.len() == 1 && self.entry.further.is_empty() {
            return others.into();
        }
        for tier in tiers {
            for least in LEAST {
                // Its chunks were open here; what cannot be opened again is read as before.
                let Ok(other) = self.in_tier(spec, tier, least) else {
                    continue;
                };
                let is_new = !self.reads_all_as(&other)
                    && !others.iter().any(|known| known.reads_all_as(&other));
                if is_new {
                    others.push(other);
                }
            }
        }
        others.into()
    }

    /// The same rows, read in a tier, as far as they are there.
    fn in_tier(
        &self,
        spec: &TableSpec,
        tier: TierId,
        least: fn(&ChunkPlace) -> f64,
    ) -> Result<Arc<Segment>, DamageError> {
        let slots = self
            .slots
            .with_read(|column| self.slot_in(column, tier, least));
        let replicas = self.with_slots(slots, spec, self.uses.clone(), None)?;
        let extents = self.extents.iter();
        let extents = extents.map(|extent| Some(extent.as_ref()?.read_in(tier)));
        replicas.with_extents(extents.collect(), spec)
    }

    /// The slot of the replica of a column that is read in a tier: the column's own if it has none there.
    fn slot_in(&self, column: usize, tier: TierId, least: fn(&ChunkPlace) -> f64) -> usize {
        // What is near stays so.
        if self.far(column).is_none() {
            return column;
        }
        let place = |slot: usize| self.entry.replica(self.slots.replica(slot));
        let has_codes = |slot: usize| place(slot).encoding.uses_dictionary();
        let is_there = |slot: &usize| {
            let extent = self.extents[place(*slot).extent as usize].as_ref();
            extent.is_some_and(|extent| extent.copy_in(tier).is_some())
        };
        // Indexes and groups speak of codes.
        let is_alike = |slot: &usize| *slot == column || !has_codes(column) && !has_codes(*slot);
        let slots = std::iter::once(column).chain(self.slots.others(column));
        let there = slots.filter(is_there).filter(is_alike);
        let best = there.min_by(|one, other| least(place(*one)).total_cmp(&least(place(*other))));
        best.unwrap_or(column)
    }

    /// Whether all columns are read from the same bytes.
    fn reads_all_as(&self, other: &Segment) -> bool {
        let bytes = |of: &Segment, column: usize| {
            let bytes = of.chunks.borrow_owner().bytes[column].bytes();
            bytes.as_ptr()
        };
        (0..self.slots.columns()).all(|column| bytes(self, column) == bytes(other, column))
    }

    /// Nanoseconds of a thread that reads some columns in order, those in near memory left out; `None` if one is in a tier of which
    /// `lines` are not known, or in a copy that cannot be repaired.
    pub(crate) fn scan_ns(
        &self,
        columns: &[usize],
        lines: impl Fn(&ExtentCopy) -> Option<LineTimes>,
    ) -> Option<f64> {
        let mut all_ns = 0.0;
        for column in columns {
            let Some((_, copy, _)) = self.far(*column) else {
                continue;
            };
            let lines = lines(copy).filter(|_| !copy.refuses_repair())?;
            let place = self.entry.replica(self.slots.replica(*column));
            all_ns += slots::scan_ns(place, self.rows(), lines);
        }
        Some(all_ns)
    }

    /// The tiers in which some columns are read; one may come several times.
    pub(crate) fn tiers_read(&self, columns: &[usize]) -> impl Iterator<Item = TierId> {
        let far = columns.iter().filter_map(move |column| self.far(*column));
        far.map(|(_, copy, _)| copy.tier())
    }

    /// The copy in which a column is read, if it is one of several, in its own encoding or in another.
    pub(crate) fn copy_of_several(&self, column: usize) -> Option<&ExtentCopy> {
        let (extent, copy, _) = self.far(column)?;
        let is_one = extent.copies().len() == 1 && self.entry.further.is_empty();
        (!is_one).then(|| &**copy)
    }
}
