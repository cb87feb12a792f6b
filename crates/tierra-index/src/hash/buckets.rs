//! Where the buckets of a segment lie: a near region on large pages once they fill one, the heap
//! while they do not, or where the system grants no region.
//!
//! With small pages nearly every probe of a large table misses the TLB besides the cache.
//!
//! Invariant: a region holds whole buckets, aligned to lines.

use std::ops::{Deref, DerefMut};

use tierra_memory::{LARGE_PAGE_BYTES, Region};

use super::bucket::Bucket;

pub(super) enum Buckets {
    Heap(Box<[Bucket]>),
    Large(Region),
}

impl Buckets {
    /// `len` buckets without entries.
    pub(super) fn empty(len: usize) -> Self {
        let len_bytes = len * size_of::<Bucket>();
        if len_bytes >= LARGE_PAGE_BYTES
            && let Ok(region) = Region::near(len_bytes)
        {
            assert!(region.as_ptr().cast::<Bucket>().is_aligned() && region.len() == len_bytes);
            // Zero bytes, which a new region has, are empty buckets.
            return Buckets::Large(region);
        }
        Buckets::Heap(vec![Bucket::EMPTY; len].into_boxed_slice())
    }
}

impl Deref for Buckets {
    type Target = [Bucket];

    #[inline(always)]
    fn deref(&self) -> &[Bucket] {
        match self {
            Buckets::Heap(buckets) => buckets,
            Buckets::Large(region) => {
                let len = region.len() / size_of::<Bucket>();
                // SAFETY: `empty` has checked alignment and length of the region, which never
                // moves; a bucket is eight integers, of which all bytes are valid; and the region
                // is borrowed for as long as the slice.
                unsafe { std::slice::from_raw_parts(region.as_ptr().cast::<Bucket>(), len) }
            }
        }
    }
}

impl DerefMut for Buckets {
    fn deref_mut(&mut self) -> &mut [Bucket] {
        match self {
            Buckets::Heap(buckets) => buckets,
            Buckets::Large(region) => {
                let len = region.len() / size_of::<Bucket>();
                // SAFETY: as in `deref`, and the region is borrowed uniquely.
                unsafe { std::slice::from_raw_parts_mut(region.as_mut_ptr().cast::<Bucket>(), len) }
            }
        }
    }
}
