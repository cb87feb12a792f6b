//! Space of a pool: allocated, given back, and rebuilt from what is live (`space.rs`).
//!
//! Invariant: every grain below the pool's length is in the header, in one live run, in one free run,
//! or (between open and retain) not yet known and left alone. What is handed out has space in the file system: free runs
//! without it are known as holes, and space that was given back is allocated again before it is used.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{self, EXTENT_HEADER_BYTES, FIRST_EXTENT};
use super::space::Space;
use super::writer::ExtentWriter;
use super::{Extent, Pool, PoolError};
use crate::backing;
use crate::free_space::FreeSpace;
use crate::lock::lock;
use crate::{LARGE_PAGE_BYTES, address, numa};

/// A pool doubles until its steps reach this many bytes: large enough that growing costs a load
/// nothing, small enough that a pool on a full disk is not far from what it needs.
const MAX_GROWTH_BYTES: u64 = 256 << 20;
const GROWTH_UNIT_BYTES: u64 = LARGE_PAGE_BYTES as u64;
/// Free runs shorter than this are kept: giving them back would cost the file system a piece of its map each.
const MIN_GIVEN_BACK_BYTES: u64 = 64 << 10;

impl Pool {
    /// Declares the live extents after an open; everything else, except for the published root, becomes free. A root of which
    /// nothing is known, because its header is damaged, becomes free as well.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`], [`PoolError::Overlap`], [`PoolError::RetainTooLate`]; then nothing
    /// becomes free.
    pub fn retain(&self, live: &[Extent]) -> Result<(), PoolError> {
        self.retain_without_header(live, &[])
    }

    /// [`Pool::retain`], including extents whose headers are damaged and not checked: the caller vouches for their
    /// content.
    ///
    /// # Errors
    /// As [`Pool::retain`].
    pub fn retain_without_header(
        &self,
        live: &[Extent],
        without_header: &[Extent],
    ) -> Result<(), PoolError> {
        let root = self.root().filter(|root| !live.contains(root));
        let root = root.filter(|root| self.check_extent(*root).is_ok());
        let mut runs = Vec::with_capacity(live.len() + 1);
        for &extent in live.iter().chain(&root) {
            match without_header.contains(&extent) {
                true => self.check_bounds(extent)?,
                false => self.check_extent(extent)?,
            };
            let span = layout::span_bytes(extent.len_bytes).expect("checked just before");
            runs.push((extent.offset - EXTENT_HEADER_BYTES, span));
        }
        runs.sort_unstable();
        if let Some(pair) = runs
            .windows(2)
            .find(|pair| pair[0].0 + pair[0].1 > pair[1].0)
        {
            return Err(PoolError::Overlap {
                path: self.path.clone(),
                first: pair[0].0 + EXTENT_HEADER_BYTES,
                second: pair[1].0 + EXTENT_HEADER_BYTES,
            });
        }
        let mut space = lock(&self.space);
        if space.allocated {
            return Err(PoolError::RetainTooLate {
                path: self.path.clone(),
            });
        }
        let free = FreeSpace::around(FIRST_EXTENT, self.len_bytes(), runs.iter().copied());
        let mut holes = FreeSpace::none(u64::MAX);
        let mut at = FIRST_EXTENT;
        // Of a file that was made just now there are none.
        while let Some((start, bytes)) = free.next_from(at).filter(|_| !space.backed) {
            holes.give(start, bytes);
            at = start + bytes;
        }
        *space = Space {
            free,
            holes,
            live_bytes: runs.iter().map(|run| run.1).sum(),
            live: runs.into_iter().collect(),
            unknown_bytes: 0,
            allocated: false,
            backed: space.backed,
        };
        Ok(())
    }

    /// Takes space for a payload of `len_bytes`, backed by the file system and ready to be written.
    /// `owner` is stored in the extent's header; its meaning is the caller's.
    ///
    /// # Errors
    /// [`PoolError::Full`], [`PoolError::Io`]. The pool is as it was.
    pub fn allocate(
        self: &Arc<Self>,
        len_bytes: u64,
        owner: u64,
    ) -> Result<ExtentWriter, PoolError> {
        self.refuse_if_read_only()?;
        let span = layout::span_bytes(len_bytes)
            .ok_or_else(|| self.full(len_bytes, 0, self.limit_bytes))?;
        let (start, holes) = {
            let mut space = lock(&self.space);
            if !space.backed {
                if !self.backs_on_demand() {
                    self.fill_holes(&space)?;
                }
                space.backed = true;
            }
            if span > space.free.longest_bytes() {
                self.grow(&mut space, span)?;
            }
            let start = space
                .take(span)
                .expect("a run of this length is free: it was, or the pool grew by it");
            (start, space.holes.take_within(start..start + span))
        };
        let writer = ExtentWriter::new(
            Arc::clone(self),
            start + EXTENT_HEADER_BYTES,
            len_bytes,
            owner,
        );
        // A failure drops the writer, which gives the span back.
        if let Err(error) = self.back(&holes) {
            let mut space = lock(&self.space);
            holes
                .iter()
                .for_each(|hole| space.holes.give(hole.0, hole.1));
            drop(space);
            return Err(error);
        }
        self.bring_in(start, span)?;
        if let Err(error) = self.clear_if_lost(start..start + span) {
            tracing::error!(
                pool = %self.path.display(), offset = start, span,
                "space that cannot be written is left out until the pool is opened again"
            );
            writer.leave_out();
            self.leave_out_lost(start..start + span);
            return Err(error);
        }
        Ok(writer)
    }

    /// Allocates nothing any more from the lost pages of a range, which may reach beyond it.
    fn leave_out_lost(&self, range: Range<u64>) {
        for page in self.lost_pages(range) {
            let mut space = lock(&self.space);
            for (start, span) in space.free.take_within(page..page + self.unit_bytes()) {
                space.live.insert(start, span);
                space.live_bytes += span;
            }
        }
    }

    /// Whether space is had only with the pages that are brought in. On tmpfs both are the same
    /// memory, and having it in one step costs half as much as in two, and only for what is used.
    pub(super) fn backs_on_demand(&self) -> bool {
        self.medium().is_memory()
    }

    /// Makes the pages of `[start, start + span)`, which is an open writer's, present.
    fn bring_in(&self, start: u64, span: u64) -> Result<(), PoolError> {
        // SAFETY: the span is mapped, and it is one writer's alone.
        let brought = unsafe { address::populate(self.address(start), span as usize) };
        let failed = match brought {
            Ok(true) => return Ok(()),
            Ok(false) if self.backs_on_demand() => {
                self.medium.allocate(&self.file, start, start + span).err()
            }
            Ok(false) => None,
            Err(source) => Some(source),
        };
        match failed {
            None => Ok(()),
            Some(_) if self.is_truncated()? => {
                self.clear_lost(start..start + span)?;
                self.bring_in(start, span)
            }
            Some(source) if backing::means_bad_page(&source) && self.has_space(start, span) => {
                // Touching pages that have no memory notes them as lost; then they are rewritten.
                // SAFETY: as above.
                unsafe { address::touch(self.address(start), span as usize) };
                self.clear_lost(start..start + span)
            }
            Some(source) if backing::means_full(&source) || backing::means_bad_page(&source) => {
                let used_bytes = lock(&self.space).used_bytes() - span;
                Err(self.full(span, used_bytes, self.len_bytes()))
            }
            Some(source) => Err(self.io("bring pages in", source)),
        }
    }

    /// Whether the file system has room for what the file is to hold there.
    fn has_space(&self, start: u64, span: u64) -> bool {
        let had = self.medium.allocate(&self.file, start, start + span);
        had.is_ok()
    }

    /// Gives an extent's space back; it may be reused at once. Called when neither the published root
    /// nor a reader names it any more. An extent that is not live is left alone.
    pub fn free(&self, extent: Extent) {
        let start = extent.offset.saturating_sub(EXTENT_HEADER_BYTES);
        let mut space = lock(&self.space);
        let Some(span) = space.live.remove(&start) else {
            tracing::error!(pool = %self.path.display(), ?extent, "space was freed that is not in use; this is a bug in Tierra, please report it");
            debug_assert!(false, "freed what is not live: {extent:?}");
            return;
        };
        space.live_bytes -= span;
        space.free.give(start, span);
    }

    /// Maps the file up to `len_bytes`, behind what is mapped. Pointers into the pool stay.
    pub(super) fn map_up_to(&self, len_bytes: u64) -> Result<(), PoolError> {
        let from = self.len_bytes();
        if len_bytes > self.range.len_bytes() as u64 {
            let lost = io::Error::other("an earlier attempt failed; reopen the database");
            return Err(self.io("map the file", lost));
        }
        let (at, more_bytes) = (self.address(from), (len_bytes - from) as usize);
        // SAFETY: the reservation beyond the mapped part is ours and holds nothing yet.
        unsafe { self.medium.map(&self.file, at, from, more_bytes) }.map_err(|source| {
            self.range.give_up_from(from as usize);
            self.io("map the file", source)
        })?;
        if let Some(node) = self.node
            && self.medium().is_memory()
        {
            // SAFETY: just mapped.
            unsafe { numa::bind(at, more_bytes, node) }.map_err(|source| PoolError::Node {
                path: self.path.clone(),
                node,
                source,
            })?;
        }
        self.watched.extend(at.addr() + more_bytes);
        if let Some(far) = &self.far {
            lock(far).cover_up_to(at.addr() + more_bytes);
        }
        self.mapped_bytes.store(len_bytes, Ordering::Release);
        Ok(())
    }

    /// Gives free space back to the file system, which a later allocation asks for again: where there is none by then, that
    /// one fails, as on any full disk. Returns how many bytes it was. Nothing, where the medium has nothing to give
    /// or it is not known yet what is live.
    ///
    /// # Errors
    /// [`PoolError::Io`]; the pool is as it was, but that some may have been given back.
    pub fn give_back(&self) -> Result<u64, PoolError> {
        let (mut at, mut given) = (FIRST_EXTENT, 0);
        while let Some((start, bytes)) = self.take_backed(&mut at) {
            let end = start + bytes;
            if let Some(recorder) = &self.recorder {
                recorder.given_back(start, bytes);
            }
            let done = self.medium.give_back(&self.file, start, end);
            let mut space = lock(&self.space);
            space.free.give(start, bytes);
            if !matches!(done, Ok(false)) {
                space.holes.take_within(start..end);
                space.holes.give(start, bytes);
            }
            match done {
                Ok(true) => given += bytes,
                Ok(false) => break,
                Err(source) => return Err(self.io("give free space back", source)),
            }
        }
        Ok(given)
    }

    /// Takes the next free run from `at` on that is worth giving back, and moves `at` behind it. It is not allocated meanwhile.
    fn take_backed(&self, at: &mut u64) -> Option<(u64, u64)> {
        let mut space = lock(&self.space);
        loop {
            let (start, bytes) = space.free.next_from(*at)?;
            *at = start + bytes;
            let holes: u64 = space.holes.lengths_within(start..*at).sum();
            if bytes >= MIN_GIVEN_BACK_BYTES && holes < bytes {
                space.free.take_within(start..*at);
                return Some((start, bytes));
            }
        }
    }

    /// Allocates space for holes in runs that are handed out.
    fn back(&self, holes: &[(u64, u64)]) -> Result<(), PoolError> {
        if self.backs_on_demand() {
            return Ok(());
        }
        let wanted_bytes = holes.iter().map(|hole| hole.1).sum();
        for &(start, bytes) in holes {
            let backed = self.medium.allocate(&self.file, start, start + bytes);
            backed.map_err(|source| self.no_space(source, wanted_bytes))?;
        }
        Ok(())
    }

    /// A file that was copied may have holes, and a store into one could meet a full disk. Those of free space are filled
    /// when it is used.
    fn fill_holes(&self, space: &Space) -> Result<(), PoolError> {
        let len_bytes = self.len_bytes();
        let mut runs = vec![(0, FIRST_EXTENT)];
        match space.is_unknown() {
            true => runs = vec![(0, len_bytes)],
            false => {
                for (&start, &bytes) in &space.live {
                    match runs.last_mut() {
                        Some((first, length)) if *first + *length == start => *length += bytes,
                        _ => runs.push((start, bytes)),
                    }
                }
            }
        }
        for (start, bytes) in runs {
            let filled = self.medium.allocate(&self.file, start, start + bytes);
            filled.map_err(|source| self.no_space(source, bytes))?;
        }
        Ok(())
    }

    fn no_space(&self, source: io::Error, wanted_bytes: u64) -> PoolError {
        match backing::means_full(&source) {
            true => self.full(wanted_bytes, 0, self.len_bytes()),
            false => self.io("allocate space", source),
        }
    }

    /// Grows the pool so that a run of `span` bytes is free at its end.
    fn grow(&self, space: &mut Space, span: u64) -> Result<(), PoolError> {
        let len_bytes = self.len_bytes();
        let least = len_bytes.checked_add(span - space.free.tail_bytes());
        let Some(least) = least.filter(|least| *least <= self.limit_bytes) else {
            return Err(self.full(span, space.used_bytes(), self.limit_bytes));
        };
        let unit_bytes = GROWTH_UNIT_BYTES.max(self.unit_bytes());
        let step = len_bytes.clamp(unit_bytes, MAX_GROWTH_BYTES.max(unit_bytes));
        let wanted = |bytes: u64| bytes.next_multiple_of(unit_bytes).min(self.limit_bytes);
        let generous = wanted(least.max(len_bytes + step));
        let frugal = wanted(least);
        let back = |to| {
            let backed = match self.backs_on_demand() {
                true => self.file.set_len(to),
                false => self.medium.allocate(&self.file, len_bytes, to),
            };
            backed.map(|()| to)
        };
        let mut grown = back(generous);
        if grown.as_ref().is_err_and(backing::means_full) && frugal < generous {
            grown = back(frugal);
        }
        let to = grown.map_err(|source| {
            if backing::means_full(&source) {
                self.full(span, space.used_bytes(), len_bytes)
            } else {
                self.io("allocate space", source)
            }
        })?;
        if let Some(recorder) = &self.recorder {
            recorder.grown(to);
        }
        self.medium
            .grown(&self.file)
            .map_err(|source| self.io("make its length durable", source))?;
        self.map_up_to(to)?;
        space.free.extend(to);
        Ok(())
    }

    fn full(&self, wanted_bytes: u64, used_bytes: u64, capacity_bytes: u64) -> PoolError {
        PoolError::Full {
            path: self.path.clone(),
            wanted_bytes,
            used_bytes,
            capacity_bytes,
        }
    }
}
