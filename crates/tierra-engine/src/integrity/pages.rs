//! An extent that is read page by page: how its bytes are verified.
//!
//! ```text
//! before   lost parts of the copy are restored; each page is compared with its checksum, once, and again after damage was found
//! read
//! after    each page is compared again, if every read is checked
//! ```
//! A damaged page of a stored copy is repaired from another copy. A near copy was checked when it was made.
//!
//! Invariant: no byte of a page is used before its checksum matched.

use std::ops::Range;
use std::sync::Arc;

use tierra_column::FormatError;
use tierra_memory::emulation::begin_read;
use tierra_memory::{NearCopy, NearMemory, Speed};

use super::checked_copy::checked_copy;
use super::repair;
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::storage::read_checks::VerifyReads;
use crate::storage::revalidation::needs_revalidation;
use crate::storage::verified::VerifiedPages;

/// The ranges of pages in an extent, and their checksums.
pub(crate) trait PageFormat {
    /// What the pages belong to, for errors.
    const WHAT: &'static str;

    fn pages(&self) -> usize;

    /// The range of a page, the same in every copy.
    fn range(&self, page: usize) -> Range<usize>;

    /// The CRC32C of a page.
    fn crc(&self, page: usize) -> u32;

    fn check(&self, page: usize, bytes: &[u8]) -> Result<(), FormatError> {
        FormatError::check_crc(Self::WHAT, bytes, self.crc(page))
    }
}

/// The pages of an extent, in the copy that is read.
#[derive(Clone)]
pub(crate) struct StoredPages {
    /// Kept allocated even if reads use the near copy.
    extent: Arc<OwnedExtent>,
    /// The stored copy that is read if there is no near copy.
    read: Arc<ExtentCopy>,
    near: Option<Arc<NearCopy>>,
    verified: VerifiedPages,
}

impl StoredPages {
    /// The pages of an extent, which need no check if it was just written.
    pub(crate) fn new(extent: Arc<OwnedExtent>, pages: usize, is_written: bool) -> Self {
        let damage = &extent.all_losses().log.damage;
        Self {
            verified: VerifiedPages::new(damage, pages, is_written),
            read: extent.read().clone(),
            near: None,
            extent,
        }
    }

    /// The same pages of other copies of the extent; a near copy stays.
    pub(crate) fn with_extent(&self, extent: Arc<OwnedExtent>) -> Self {
        Self {
            read: extent.read().clone(),
            extent,
            near: self.near.clone(),
            verified: self.verified.of_other_bytes(),
        }
    }

    /// The same pages read from another near copy, or from none.
    pub(crate) fn with_near(&self, near: Option<Arc<NearCopy>>, format: &impl PageFormat) -> Self {
        let damage = &self.extent.all_losses().log.damage;
        Self {
            verified: VerifiedPages::new(damage, format.pages(), near.is_some()),
            extent: self.extent.clone(),
            read: self.read.clone(),
            near,
        }
    }

    pub(crate) fn extent(&self) -> &Arc<OwnedExtent> {
        &self.extent
    }

    /// The near copy.
    pub(crate) fn near(&self) -> Option<&Arc<NearCopy>> {
        self.near.as_ref()
    }

    /// The tier that is read.
    pub(crate) fn speed(&self) -> Speed {
        self.near.as_ref().map_or(Speed::Far, |_| Speed::Near)
    }

    /// All bytes of the copy that is read.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.near {
            Some(copy) => copy,
            None => &self.read,
        }
    }

    /// Whether all pages match their checksums.
    pub(crate) fn all_match(&self, format: &impl PageFormat) -> bool {
        (0..format.pages()).all(|page| self.check(format, page).is_ok())
    }

    /// A near copy; `None` if there is one already, there is no room, or copying was stopped ([`checked_copy`]).
    pub(crate) fn near_copy(
        &self,
        format: &impl PageFormat,
        near: &NearMemory,
        goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Arc<NearCopy>>, FormatError> {
        if self.near.is_some() {
            return Ok(None);
        }
        self.restore_lost(format)?;
        let check = |copy: &[u8]| {
            let mut pages = 0..format.pages();
            pages.try_for_each(|page| format.check(page, &copy[format.range(page)]))
        };
        let repair = || {
            self.restore_lost(format)?;
            (0..format.pages()).try_for_each(|page| self.verify_now(format, page))
        };
        checked_copy(near, &self.read, goes_on, check, repair)
    }

    /// Called before pages are read: restores lost parts of the copy that is read.
    #[inline]
    pub(crate) fn restore_lost<F: PageFormat>(&self, _format: &F) -> Result<(), FormatError> {
        match needs_revalidation()
            && self.near.is_none()
            && !repair::lost_parts(&self.extent, &self.read)
        {
            false => Ok(()),
            true => Err(FormatError::Corrupt {
                what: F::WHAT,
                why: "pages of it were lost, and no other copy has them".to_owned(),
            }),
        }
    }

    /// Called before pages are read: checks those that were not checked yet.
    #[inline]
    pub(crate) fn verify(
        &self,
        format: &impl PageFormat,
        mut pages: impl Iterator<Item = usize>,
    ) -> Result<(), FormatError> {
        let every = self.checks_every();
        pages.try_for_each(|page| match !every && self.verified.contains(page) {
            true => Ok(()),
            false => self.verified.check(page, || self.verify_now(format, page)),
        })
    }

    /// Called after pages were read: whether the result is valid.
    pub(crate) fn check_read(
        &self,
        format: &impl PageFormat,
        mut pages: impl Iterator<Item = usize>,
    ) -> Result<(), FormatError> {
        match self.checks_every() {
            true => pages.try_for_each(|page| self.check(format, page)),
            false => Ok(()),
        }
    }

    /// Whether every read is checked.
    #[inline]
    fn checks_every(&self) -> bool {
        needs_revalidation()
            && self.near.is_none()
            && self.extent.all_losses().checks.get() == VerifyReads::Every
    }

    /// Checks a page, and repairs it from another copy if it is damaged.
    #[cold]
    pub(crate) fn verify_now(
        &self,
        format: &impl PageFormat,
        page: usize,
    ) -> Result<(), FormatError> {
        let is_valid = |bytes: &[u8]| format.check(page, bytes).is_ok();
        self.check(format, page).or_else(|error| {
            // Near copies are not repaired: damage there stays.
            match self.near.is_none() && repair::stored(&self.extent, format.range(page), is_valid)
            {
                true => Ok(()),
                false => Err(error),
            }
        })
    }

    pub(crate) fn check(&self, format: &impl PageFormat, page: usize) -> Result<(), FormatError> {
        let bytes = &self.bytes()[format.range(page)];
        let _reading = begin_read(bytes);
        format.check(page, bytes)
    }
}
