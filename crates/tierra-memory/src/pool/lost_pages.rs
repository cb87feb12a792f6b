//! Lost pages of a pool: how they are reported, which stores are not durable because of them, and how a page becomes good again.
//!
//! ```text
//!  good --- a load or store raises SIGBUS ---> lost: zeros, private to this process
//!   ^                                            |  noted, the fault epoch advanced
//!   '---- cleared: the file written, mapped -----'
//! ```
//! Invariant: no store counts as durable that went to a lost page, or to one that was lost before the
//! store was flushed. A page is good again only once its file holds zeros in its place, durably; what it
//! held comes back by [`Pool::restore`].
//!
//! A truncated file is one fault up to its end: as soon as the file is extended to its length again, pages that
//! were lost read as zeros without any signal. The rest of the page that holds the new end does so at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::layout::GRAIN_BYTES;
use super::lost::{Fault, Lost, LostPage, Staged};
use super::{Pool, PoolError};
use crate::lock::lock;

impl Pool {
    /// Counts the pool's faults. It advances before any thread can read zeros instead of lost data.
    ///
    /// Before readers return a result made of the pool's bytes, they compare it with the epoch up to which the pool's
    /// owner has handled faults: the owner reads the epoch, calls [`Pool::take_faults`], and keeps readers from those
    /// ranges; from then on the epoch is handled. A reader that finds another epoch retries. The epoch at the
    /// beginning of its own read would not be enough: a page lost before holds zeros, too.
    #[inline]
    pub fn fault_epoch(&self) -> u64 {
        self.watched.epoch()
    }

    /// What was lost since the last call, in order and merged. The owner of the pool marks what lies
    /// there as damaged and restores it from a copy. If more was lost at a time than the list holds and
    /// the kernel does not say what, the fault is the whole pool: check everything.
    pub fn take_faults(&self) -> Vec<Fault> {
        let mut unreported = std::mem::take(&mut self.losses().unreported);
        unreported.sort_unstable_by_key(|range| range.start);
        let mut faults: Vec<Fault> = Vec::new();
        for range in unreported {
            match faults.last_mut() {
                Some(last) if range.start <= last.offsets.end => {
                    last.offsets.end = last.offsets.end.max(range.end);
                }
                _ => faults.push(Fault { offsets: range }),
            }
        }
        faults
    }

    /// Refuses if any of these bytes, which this thread has stored, went to a lost page.
    #[inline]
    pub(super) fn refuse_if_lost(&self, start: *const u8, len_bytes: u64) -> io::Result<()> {
        match self.may_have_lost() {
            false => Ok(()),
            true => self.refuse_lost((start.addr() - self.address(0).addr()) as u64, len_bytes),
        }
    }

    #[inline]
    pub(super) fn may_have_lost(&self) -> bool {
        // In this order: `losses` sets the second before it clears the first.
        self.watched.has_new_losses() || self.has_lost.load(Ordering::Acquire)
    }

    #[cold]
    fn refuse_lost(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let lost = self.losses();
        match lost
            .pages_of(offset..offset + len_bytes, self.unit_bytes())
            .next()
        {
            None => Ok(()),
            Some(offset) => Err(io::Error::other(LostPage { offset })),
        }
    }

    /// Adds a run that the next publication needs undamaged.
    pub(super) fn add_staged(&self, offset: u64, len_bytes: u64) {
        let run = Staged {
            len_bytes,
            is_lost: false,
        };
        lock(&self.staged).insert(offset, run);
    }

    /// Validates and returns what was staged since the last publication.
    ///
    /// # Errors
    /// [`PoolError::Lost`] if something of it is lost and was not given back; [`PoolError::Truncated`].
    pub(super) fn validate_staged(&self) -> Result<BTreeMap<u64, Staged>, PoolError> {
        let mut lost = self.losses();
        if let Some(len_bytes) = self.detect_truncation(&mut lost)? {
            return Err(PoolError::Truncated {
                path: self.path.clone(),
                len_bytes,
                expected_bytes: self.len_bytes(),
            });
        }
        let staged = lock(&self.staged).clone();
        for (&start, run) in &staged {
            let gone = run.is_lost.then_some(start);
            let page = lost
                .pages_of(start..start + run.len_bytes, self.unit_bytes())
                .next();
            if let Some(offset) = gone.or(page)
                && lock(&self.space).live_bytes_at(start).is_some()
            {
                return Err(self.lost_at(offset));
            }
        }
        Ok(staged)
    }

    /// Makes a range writable: extends the file to the mapped length, and zeros lost pages in the file and in memory,
    /// durably. Their content is gone.
    ///
    /// # Errors
    /// [`PoolError::Io`]: the medium cannot be written there either. The pages stay lost.
    pub(super) fn clear_lost(&self, range: Range<u64>) -> Result<(), PoolError> {
        let mut lost = self.losses();
        if self.detect_truncation(&mut lost)?.is_some() {
            self.extend_to_mapped(&mut lost)?;
        }
        let page_bytes = self.unit_bytes();
        let pages: Vec<u64> = lost.pages_of(range, page_bytes).collect();
        for run in pages.chunk_by(|one, next| one + page_bytes == *next) {
            self.watched.wait_for_handlers();
            let len_bytes = run.len() * page_bytes as usize;
            let cleared = self.medium.clear(&self.file, run[0], len_bytes);
            cleared.map_err(|source| self.io("write a lost page anew", source))?;
            let at = self.address(run[0]);
            // SAFETY: the pages are the pool's, and what they hold now are zeros of the handler's; no
            // handler is about to put some there again.
            let mapped = unsafe { self.medium.map(&self.file, at, run[0], len_bytes) };
            mapped.map_err(|source| self.poison("map a lost page anew", source))?;
            // SAFETY: just mapped; readers discard what they read of lost pages.
            let cleared = unsafe { self.medium.clear_mapped(at, len_bytes) };
            cleared.map_err(|source| self.io("write a lost page anew", source))?;
            for page in run {
                lost.pages.remove(page);
            }
            // Memory that still has its error raises its signal again.
            self.collect_losses(&mut lost);
            if run.iter().any(|page| lost.pages.contains(page)) {
                let stays = io::Error::other(
                    "the memory there still fails; close the database and clear the errors of its device (`ndctl clear-errors`)",
                );
                return Err(self.io("write a lost page anew", stays));
            }
        }
        if !pages.is_empty() && page_bytes > GRAIN_BYTES {
            self.note_cleared(&pages, page_bytes);
        }
        if !pages.is_empty() {
            self.has_lost
                .store(!lost.pages.is_empty(), Ordering::Release);
        }
        Ok(())
    }

    /// Large pages hold several extents: what others are writing there, or have staged, is lost with them.
    #[cold]
    fn note_cleared(&self, pages: &[u64], page_bytes: u64) {
        self.cleared.fetch_add(1, Ordering::Release);
        for (start, run) in lock(&self.staged).iter_mut() {
            let end = start + run.len_bytes;
            let mut met = pages
                .iter()
                .filter(|page| **page < end && *start < **page + page_bytes);
            run.is_lost |= met.next().is_some();
        }
    }

    /// Extends a truncated file to its length again, with zeros, which is reported as a fault: until then every page there is
    /// lost one by one. Does nothing to a file that is not truncated.
    ///
    /// # Errors
    /// [`PoolError::Io`]: the file stays as it is.
    pub fn restore_length(&self) -> Result<(), PoolError> {
        self.clear_lost(0..0)
    }

    /// Whether the file was found truncated since the last call, even if it was extended again meanwhile.
    pub fn take_truncation(&self) -> bool {
        std::mem::take(&mut self.losses().has_unreported_truncation)
    }

    /// Whether the file is shorter than what is mapped. The first time that it is, the fault epoch advances, and
    /// [`Pool::take_faults`] reports what was lost with its end, even if no thread has touched that yet.
    ///
    /// # Errors
    /// [`PoolError::Io`]: its length is not known.
    pub fn is_truncated(&self) -> Result<bool, PoolError> {
        Ok(self.detect_truncation(&mut self.losses())?.is_some())
    }

    /// [`Pool::clear_lost`], where anything was lost at all.
    pub(super) fn clear_if_lost(&self, range: Range<u64>) -> Result<(), PoolError> {
        match self.may_have_lost() {
            false => Ok(()),
            true => self.clear_lost(range),
        }
    }

    /// Extends a truncated file to the mapped length.
    fn extend_to_mapped(&self, lost: &mut Lost) -> Result<(), PoolError> {
        let Some(from) = lost.truncated_at else {
            return Ok(());
        };
        let to = self.len_bytes();
        let backed = match self.backs_on_demand() {
            true => self.file.set_len(to),
            false => self.medium.allocate(&self.file, from, to),
        };
        backed
            .and_then(|()| self.file.sync_all())
            .map_err(|source| self.io("give the file its end again", source))?;
        lost.truncated_at = None;
        Ok(())
    }

    /// Pages of a range that are lost; where they begin.
    pub(super) fn lost_pages(&self, range: Range<u64>) -> Vec<u64> {
        let lost = self.losses();
        lost.pages_of(range, self.unit_bytes()).collect()
    }

    /// What is lost, with all that was noted so far.
    fn losses(&self) -> MutexGuard<'_, Lost> {
        let mut lost = lock(&self.lost);
        if self.watched.has_new_losses() {
            // A concurrent check must find the notes or the losses, so this is set before the notes are taken.
            self.has_lost.store(true, Ordering::SeqCst);
            self.collect_losses(&mut lost);
            if let Err(error) = self.detect_truncation(&mut lost) {
                tracing::error!(
                    pool = %self.path.display(), %error,
                    "pages of a pool were lost, and whether its file was cut short is unknown"
                );
            }
            self.has_lost
                .store(!lost.pages.is_empty(), Ordering::Release);
        }
        lost
    }

    /// Adds the pages noted since the last call.
    fn collect_losses(&self, lost: &mut Lost) {
        let notes = self.watched.take();
        let mut pages = notes.pages;
        if notes.overflowed {
            self.watched.wait_for_handlers();
            match self.zeroed_pages() {
                Ok(all) => pages.extend(all.into_iter().filter(|p| !lost.pages.contains(p))),
                Err(error) => {
                    tracing::error!(
                        pool = %self.path.display(), %error,
                        "pages of a pool were lost, it is unknown which: it publishes no more until it is opened again"
                    );
                    lost.unreported.push(0..self.len_bytes());
                    self.stop_writing();
                }
            }
        }
        if let Some(first) = pages.iter().min() {
            let (pool, pages) = (self.path.display(), pages.len());
            tracing::error!(%pool, pages, first, "pages of a pool were lost: what they held is read from other copies, if there are any");
        }
        for page in pages {
            self.counts.lost(lost.pages.insert(page).into());
            lost.unreported.push(page..page + self.unit_bytes());
        }
    }

    /// The length of the file if it was truncated, which is reported once.
    fn detect_truncation(&self, lost: &mut Lost) -> Result<Option<u64>, PoolError> {
        // Before the file's length: that only grows behind what is mapped.
        let mapped_bytes = self.len_bytes();
        let len_bytes = self.medium.len_bytes(&self.file);
        let len_bytes = len_bytes.map_err(|source| self.io("ask for the file's length", source))?;
        let truncated_at = (len_bytes < mapped_bytes).then_some(len_bytes);
        if let Some(at) = truncated_at
            && lost.truncated_at.is_none_or(|known| at < known)
        {
            tracing::error!(pool = %self.path.display(), len_bytes = at, "the file of a pool was cut short: its end is read from other copies, if there are any");
            let from = at - at % self.unit_bytes();
            lost.unreported.push(from..mapped_bytes);
            lost.has_unreported_truncation = true;
            for (start, run) in lock(&self.staged).iter_mut() {
                run.is_lost |= start + run.len_bytes > from;
            }
            self.watched.advance();
        }
        lost.truncated_at = truncated_at;
        Ok(truncated_at)
    }

    /// Pages that are replaced by private memory of this process, by the kernel's account.
    fn zeroed_pages(&self) -> io::Result<Vec<u64>> {
        let maps = BufReader::new(File::open("/proc/self/maps")?);
        let start = self.address(0).addr() as u64;
        let end = start + self.len_bytes();
        let mut pages = Vec::new();
        for line in maps.lines() {
            if let Some(covered) = private_mapping(&line?) {
                let covered = covered.start.max(start)..covered.end.min(end);
                pages.extend(
                    covered
                        .step_by(self.unit_bytes() as usize)
                        .map(|at| at - start),
                );
            }
        }
        Ok(pages)
    }
}

/// The addresses of a line of `/proc/self/maps`, if they are mapped for this process alone:
/// `7f0000000000-7f0000001000 rw-p ..`; a pool's file is mapped `rw-s`.
fn private_mapping(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_private = words.next()?.ends_with('p');
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    let range = address(start)?..address(end)?;
    is_private.then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_mappings_are_told_from_shared_ones() {
        let line = "7f0000001000-7f0000003000 rw-p 00000000 00:00 0";
        assert_eq!(
            private_mapping(line),
            Some(0x7f00_0000_1000..0x7f00_0000_3000)
        );
        assert_eq!(private_mapping(&line.replace("rw-p", "rw-s")), None);
        assert_eq!(private_mapping("nonsense"), None);
    }
}
