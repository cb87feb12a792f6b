//! Volatile near copies of chunks, as long as the budget lasts.
//!
//! Invariant: near bytes equal the far bytes they were copied from, and the budget counts them
//! until the last reader of the copy is gone.

use std::ops::Deref;
use std::sync::Arc;

use tierra_memory::emulation::begin_read;
use tierra_memory::{Budget, Region, Reservation};

use crate::space::ExtentCopy;

const LINE: usize = 64;

/// Near copies of some extents of one segment, in one region so that small ones share its pages.
pub(crate) struct NearCopy {
    region: Region,
    _reservation: Vec<Reservation>,
}

impl Deref for NearCopy {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.region
    }
}

/// Where an extent's copy starts in its segment's [`NearCopy`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAt(pub(crate) usize);

/// Copies as many of a segment's extents as the budget allows: those that wish `Some(true)` first,
/// those that wish `Some(false)` never. Returns the copy and each extent's place in it.
pub(crate) fn copy_extents(
    budget: &Budget,
    extents: &[Arc<ExtentCopy>],
    wishes: &[Option<bool>],
) -> (Option<Arc<NearCopy>>, Vec<Option<CopyAt>>) {
    let mut places = vec![None; extents.len()];
    let mut reservations = Vec::new();
    let mut len_bytes = 0;
    let pinned = (0..extents.len()).filter(|at| wishes[*at] == Some(true));
    let others = (0..extents.len()).filter(|at| wishes[*at].is_none());
    for at in pinned.chain(others) {
        let bytes = extents[at].len().next_multiple_of(LINE);
        let Some(reservation) = budget.try_reserve(bytes as u64) else {
            continue;
        };
        reservations.push(reservation);
        places[at] = Some(CopyAt(len_bytes));
        len_bytes += bytes;
    }
    if len_bytes == 0 {
        return (None, places);
    }
    // A near copy is a convenience: without near memory the far bytes are read instead.
    let Ok(mut region) = Region::near(len_bytes) else {
        return (None, vec![None; extents.len()]);
    };
    for (extent, place) in extents.iter().zip(&places) {
        if let Some(CopyAt(at)) = *place {
            let reading = begin_read(extent);
            region[at..at + extent.len()].copy_from_slice(extent);
            drop(reading);
        }
    }
    (
        Some(Arc::new(NearCopy {
            region,
            _reservation: reservations,
        })),
        places,
    )
}
