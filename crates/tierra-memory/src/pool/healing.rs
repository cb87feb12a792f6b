//! Pages of a pool that are gone: who is told, what is not durable for that, and how a page is had again.
//!
//! ```text
//!  good --- a load or store raises SIGBUS ---> lost: zeros, private to this process
//!   ^                                            |  noted, the fault epoch advanced
//!   '---- healed: the file written, mapped ------'
//! ```
//! Invariant: no store counts as durable that went to a lost page, or to one that was lost before the
//! store was flushed. A page is good again only once its file holds zeros in its place, durably; what it
//! held comes back by [`Pool::restore`].
//!
//! A file that was cut short is one fault up to its end: as soon as it is made as long as it was, pages that
//! were lost read as zeros without any signal. The rest of the page that holds the new end does at once.

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
    /// Counts the pool's faults. It advances before anybody can read zeros in the place of what was lost.
    ///
    /// Readers compare it, before they give out what they made of the pool's bytes, with the epoch up to
    /// which its owner has dealt with faults: read the epoch, then [`Pool::take_faults`], then keep readers
    /// from what those ranges held; from then on it is dealt with. A reader that finds another epoch
    /// computes again. The epoch of the beginning of its own reading would not do: a page lost before
    /// holds zeros, too.
    #[inline]
    pub fn fault_epoch(&self) -> u64 {
        self.watched.epoch()
    }

    /// What was lost since this was last called, in order and joined. Whoever owns the pool marks what lies
    /// there as damaged and restores it from a copy. Where more was lost at a time than the list holds and
    /// the kernel does not say what, it is the whole pool: check everything.
    pub fn take_faults(&self) -> Vec<Fault> {
        let mut untold = std::mem::take(&mut self.losses().untold);
        untold.sort_unstable_by_key(|range| range.start);
        let mut faults: Vec<Fault> = Vec::new();
        for range in untold {
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
        self.watched.is_news() || self.has_lost.load(Ordering::Acquire)
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

    /// Takes note of a run that the next publication is to find whole.
    pub(super) fn note_staged(&self, offset: u64, len_bytes: u64) {
        let run = Staged {
            len_bytes,
            is_gone: false,
        };
        lock(&self.staged).insert(offset, run);
    }

    /// What was staged since the last publication.
    ///
    /// # Errors
    /// [`PoolError::Lost`] if something of it is, and was not given back; [`PoolError::Truncated`].
    pub(super) fn staged_and_whole(&self) -> Result<BTreeMap<u64, Staged>, PoolError> {
        let mut lost = self.losses();
        if let Some(len_bytes) = self.find_cut(&mut lost)? {
            return Err(PoolError::Truncated {
                path: self.path.clone(),
                len_bytes,
                expected_bytes: self.len_bytes(),
            });
        }
        let staged = lock(&self.staged).clone();
        for (&start, run) in &staged {
            let gone = run.is_gone.then_some(start);
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

    /// Makes a range good to be written: the file as long as what is mapped, and pages that are lost zero in
    /// the file and in memory, durably. What they held is not there any more.
    ///
    /// # Errors
    /// [`PoolError::Io`]: the medium cannot be written there either. The pages stay lost.
    pub(super) fn heal(&self, range: Range<u64>) -> Result<(), PoolError> {
        let mut lost = self.losses();
        if self.find_cut(&mut lost)?.is_some() {
            self.back_end(&mut lost)?;
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
            // SAFETY: just mapped; nobody believes what lost pages hold.
            let cleared = unsafe { self.medium.clear_mapped(at, len_bytes) };
            cleared.map_err(|source| self.io("write a lost page anew", source))?;
            for page in run {
                lost.pages.remove(page);
            }
            // Memory that still has its error raises its signal again.
            self.take_news(&mut lost);
            if run.iter().any(|page| lost.pages.contains(page)) {
                let stays = io::Error::other(
                    "the memory there still fails; close the database and clear the errors of its device (`ndctl clear-errors`)",
                );
                return Err(self.io("write a lost page anew", stays));
            }
        }
        if !pages.is_empty() && page_bytes > GRAIN_BYTES {
            self.note_healed(&pages, page_bytes);
        }
        if !pages.is_empty() {
            self.has_lost
                .store(!lost.pages.is_empty(), Ordering::Release);
        }
        Ok(())
    }

    /// Large pages hold several extents: what others are writing there, or have staged, went with them.
    #[cold]
    fn note_healed(&self, pages: &[u64], page_bytes: u64) {
        self.healed.fetch_add(1, Ordering::Release);
        for (start, run) in lock(&self.staged).iter_mut() {
            let end = start + run.len_bytes;
            let mut met = pages
                .iter()
                .filter(|page| **page < end && *start < **page + page_bytes);
            run.is_gone |= met.next().is_some();
        }
    }

    /// Gives a file that was cut short its end again, as zeros, which is told as a fault: until then every page there is
    /// lost one by one. Does nothing to a file that is whole.
    ///
    /// # Errors
    /// [`PoolError::Io`]: the file stays as it is.
    pub fn restore_end(&self) -> Result<(), PoolError> {
        self.heal(0..0)
    }

    /// Whether the file was found cut short since this was last called, whoever gave it its end again.
    pub fn take_cut(&self) -> bool {
        std::mem::take(&mut self.losses().has_untold_cut)
    }

    /// Whether the file is shorter than what is mapped. The first time that it is, the fault epoch advances, and
    /// [`Pool::take_faults`] tells what went with its end: nobody may have touched that yet.
    ///
    /// # Errors
    /// [`PoolError::Io`]: its length is not known.
    pub fn was_cut(&self) -> Result<bool, PoolError> {
        Ok(self.find_cut(&mut self.losses())?.is_some())
    }

    /// [`Pool::heal`], where anything was lost at all.
    pub(super) fn heal_if_lost(&self, range: Range<u64>) -> Result<(), PoolError> {
        match self.may_have_lost() {
            false => Ok(()),
            true => self.heal(range),
        }
    }

    /// Makes a file that was cut short as long as it was.
    fn back_end(&self, lost: &mut Lost) -> Result<(), PoolError> {
        let Some(from) = lost.cut_at else {
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
        lost.cut_at = None;
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
        if self.watched.is_news() {
            // Nobody may find neither news nor losses meanwhile.
            self.has_lost.store(true, Ordering::SeqCst);
            self.take_news(&mut lost);
            if let Err(error) = self.find_cut(&mut lost) {
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

    /// Adds what was noted since it was last asked for.
    fn take_news(&self, lost: &mut Lost) {
        let notes = self.watched.take();
        let mut pages = notes.pages;
        if notes.overflowed {
            self.watched.wait_for_handlers();
            match self.covered_pages() {
                Ok(all) => pages.extend(all.into_iter().filter(|p| !lost.pages.contains(p))),
                Err(error) => {
                    tracing::error!(
                        pool = %self.path.display(), %error,
                        "pages of a pool were lost, it is unknown which: it publishes no more until it is opened again"
                    );
                    lost.untold.push(0..self.len_bytes());
                    self.write_no_more();
                }
            }
        }
        if let Some(first) = pages.iter().min() {
            let (pool, pages) = (self.path.display(), pages.len());
            tracing::error!(%pool, pages, first, "pages of a pool were lost: other copies stand in for them, where there are any");
        }
        for page in pages {
            self.counts.lost(lost.pages.insert(page).into());
            lost.untold.push(page..page + self.unit_bytes());
        }
    }

    /// The length of the file if it was cut short, which is told once.
    fn find_cut(&self, lost: &mut Lost) -> Result<Option<u64>, PoolError> {
        // Before the file's length: that only grows behind what is mapped.
        let mapped_bytes = self.len_bytes();
        let len_bytes = self.medium.len_bytes(&self.file);
        let len_bytes = len_bytes.map_err(|source| self.io("ask for the file's length", source))?;
        let cut_at = (len_bytes < mapped_bytes).then_some(len_bytes);
        if let Some(at) = cut_at
            && lost.cut_at.is_none_or(|known| at < known)
        {
            tracing::error!(pool = %self.path.display(), len_bytes = at, "the file of a pool was cut short: other copies stand in for its end, where there are any");
            let from = at - at % self.unit_bytes();
            lost.untold.push(from..mapped_bytes);
            lost.has_untold_cut = true;
            for (start, run) in lock(&self.staged).iter_mut() {
                run.is_gone |= start + run.len_bytes > from;
            }
            self.watched.advance();
        }
        lost.cut_at = cut_at;
        Ok(cut_at)
    }

    /// Pages that are covered by memory of this process, as the kernel says.
    fn covered_pages(&self) -> io::Result<Vec<u64>> {
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
